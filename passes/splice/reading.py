"""A rewrite's text, read and refused unless it keeps the interface's rules that its own text can show."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hybridcc.errors import PtxSyntaxError, SpliceRefused
from hybridcc.passes.edits.declared import Edit, declared
from hybridcc.passes.regions.eligible import DEEPEST_SCOPE
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.guard import Condition, read_guard
from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import (
    Block,
    BranchTargets,
    CallPrototype,
    Comment,
    Directive,
    Instruction,
    Label,
    Raw,
    RegisterDeclaration,
    Statement,
    Variable,
)
from hybridcc.ptx.rename import names_in
from hybridcc.ptx.source import Source, Span

PORT = re.compile(r"%(in|out)(\d+)\Z")
ALLOWED_DIRECTIVES = frozenset({".pragma"})


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite whose every name is a port, its own, a symbol of the region, or a special register.

    ``registers`` are the names it declares with their types (ranges expanded); ``labels`` those it places.
    """

    source: Source
    statements: tuple[Statement, ...]
    guard: tuple[Condition, ...]
    edits: tuple[Edit, ...]
    registers: dict[str, str]
    labels: frozenset[str]

    def refuse(self, code: str, sentence: str, span: Span) -> SpliceRefused:
        return refusal(self.source, code, sentence, span)


def refusal(source: Source, code: str, sentence: str, span: Span) -> SpliceRefused:
    """An error that points at line:column of the rewrite."""
    line, column = source.position(span[0])
    return SpliceRefused(code, f"{sentence}\n{source.excerpt(span)}", where=f"rewrite:{line}:{column}")


def read(text: str, region: Region) -> Rewrite:
    """Parse and check. Raises SpliceRefused with the code of the first rule that the text breaks."""
    source = Source("rewrite", text)
    _ascii(source)
    statements = _hoisted(_parse(text))
    _check_depth(source, statements)
    flat = flatten(statements)
    for statement in flat:
        _allowed(source, statement)
    registers = _declared(source, flat)
    labels = _labels(source, flat, registers)
    for statement in flat:
        _names(source, statement, region, registers, labels)
    guard = _guard(source, statements, region)
    return Rewrite(source, statements, guard, declared(statements, source), registers, labels)


def edits_of(text: str) -> tuple[Edit, ...]:
    """The edits that a rewrite declares, ahead of reading the rest. Raises SpliceRefused."""
    if "edit" not in text.lower():
        return ()
    source = Source("rewrite", text)
    _ascii(source)
    return declared(_hoisted(_parse(text)), source)


def _guard(source: Source, statements: tuple[Statement, ...], region: Region) -> tuple[Condition, ...]:
    found: list[Condition] = []
    begun = False
    for statement in statements:
        if isinstance(statement, Comment):
            asked = read_guard(source, statement, region)
            if asked and begun:
                raise refusal(source, "GUARD", "guards stand before the text", statement.span)
            found.extend(asked)
        else:
            begun = True
    for statement in flatten(tuple(s for s in statements if isinstance(s, Block))):
        if isinstance(statement, Comment) and read_guard(source, statement, region):
            raise refusal(source, "GUARD", "guards stand before the text, outside its braces", statement.span)
    return tuple(found)


def _hoisted(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Declarations first, after the comments that stand ahead of all code: PTX wants them before their uses."""
    lead = next((n for n, s in enumerate(statements) if not isinstance(s, Comment)), len(statements))
    rest = statements[lead:]
    declared = tuple(s for s in rest if isinstance(s, RegisterDeclaration))
    return (*statements[:lead], *declared, *(s for s in rest if not isinstance(s, RegisterDeclaration)))


def _check_depth(source: Source, statements: tuple[Statement, ...]) -> None:
    level = [s for s in statements if isinstance(s, Block)]
    for _ in range(DEEPEST_SCOPE):
        level = [s for block in level for s in block.statements if isinstance(s, Block)]
    if level:
        raise refusal(source, "NESTING", f"scopes are nested more than {DEEPEST_SCOPE} deep", level[0].span)


def flatten(statements: tuple[Statement, ...]) -> list[Statement]:
    """The statements with the braces of scopes left out, in order."""
    flat: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Block):
            flat.extend(flatten(statement.statements))
        else:
            flat.append(statement)
    return flat


def _ascii(source: Source) -> None:
    for offset, character in enumerate(source.text):
        if ord(character) > 126:
            raise refusal(source, "NON_ASCII", f"PTX does not know {character!r}", (offset, offset + 1))


def _parse(text: str) -> tuple[Statement, ...]:
    try:
        return parse_statements(text, name="rewrite")
    except PtxSyntaxError as error:
        first = str(error.diagnostics[0])
        place, _, message = first.partition(": error: ")
        raise SpliceRefused("SYNTAX", message or first, where=place if message else "rewrite") from error


def _allowed(source: Source, statement: Statement) -> None:
    match statement:
        case Raw():
            raise refusal(source, "RAW_STATEMENT", "this is no statement that hybridcc knows", statement.span)
        case Directive() if statement.name not in ALLOWED_DIRECTIVES:
            raise refusal(source, "DIRECTIVE", f"{statement.name} has no place in a region", statement.span)
        case BranchTargets() | CallPrototype():
            raise refusal(source, "INDIRECT", "tables of branch or call targets are not taken", statement.span)
        case Variable():
            raise refusal(
                source, "VARIABLE", f"a rewrite may declare registers only, not {statement.space}", statement.span
            )
        case Instruction():
            _allowed_instruction(source, statement)
        case _:
            pass


def _allowed_instruction(source: Source, instruction: Instruction) -> None:
    if isa.lookup(instruction) is None:
        raise refusal(source, "UNKNOWN_OPCODE", f"{instruction.full_opcode} is not known", instruction.span)
    effects = isa.effects(instruction)
    if Effect.CALL in effects:
        raise refusal(source, "CALL", "a rewrite may not call", instruction.span)
    if Effect.EXIT in effects:
        raise refusal(source, "LEAVES", "a rewrite leaves by falling off its end, never the kernel", instruction.span)


def _declared(source: Source, flat: list[Statement]) -> dict[str, str]:
    registers: dict[str, str] = {}
    for statement in flat:
        if not isinstance(statement, RegisterDeclaration):
            continue
        if statement.vector:
            raise refusal(source, "VECTOR_REGISTER", "vector registers are not taken", statement.span)
        for name, count in statement.names:
            for one in [name] if count is None else [f"{name}{n}" for n in range(count)]:
                if PORT.match(one):
                    raise refusal(source, "PORT_DECLARED", f"{one} belongs to the interface", statement.span)
                if one in registers:
                    raise refusal(source, "DUPLICATE_NAME", f"{one} is declared twice", statement.span)
                registers[one] = statement.type
    return registers


def _labels(source: Source, flat: list[Statement], registers: dict[str, str]) -> frozenset[str]:
    labels: set[str] = set()
    for statement in flat:
        if isinstance(statement, Label):
            if statement.name in labels or statement.name in registers or PORT.match(statement.name):
                raise refusal(source, "DUPLICATE_NAME", f"{statement.name} is placed twice", statement.span)
            labels.add(statement.name)
    return frozenset(labels)


def _names(
    source: Source, statement: Statement, region: Region, registers: dict[str, str], labels: frozenset[str]
) -> None:
    if not isinstance(statement, Instruction):
        return
    targets = isa.branch_targets(statement)
    for name in names_in(statement):
        port = PORT.match(name)
        if port:
            ports = region.live_in if port[1] == "in" else region.live_out
            if int(port[2]) >= len(ports) or name != f"%{port[1]}{int(port[2])}":
                raise refusal(source, "UNKNOWN_PORT", f"the region has no {name}", statement.span)
        elif name in targets:
            if name not in labels:
                raise refusal(source, "JUMP_OUTSIDE", f"{name} is not a label of the rewrite", statement.span)
        elif name not in registers and name not in region.symbols and not isa.is_predefined(name):
            raise refusal(source, "UNDECLARED", f"{name} is declared nowhere", statement.span)
