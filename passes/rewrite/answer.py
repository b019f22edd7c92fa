"""From a model's answer to PTX statements that may be spliced: parsed against the grammar, never run, never trusted.

What is checked here needs the answer and the region alone. That registers are declared, outputs written on every
path, and atomics, barriers and labels in order, the splicer checks; that the values are right, the executor and
the prover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from hybridcc.errors import PtxSyntaxError, SpliceRefused
from hybridcc.passes.edits import Edit, NewShared, declared, is_edit
from hybridcc.passes.facts import Relation
from hybridcc.passes.rewrite import precision
from hybridcc.passes.rewrite.extract import code_of
from hybridcc.passes.rewrite.rejection import rejected
from hybridcc.passes.splice.guard import LINE
from hybridcc.ptx import isa, parse_statements, targets
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
from hybridcc.ptx.printer import print_statements
from hybridcc.ptx.source import Source

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region

NAME = "<answer>"
ALLOWED_DIRECTIVE = (".pragma", '"nounroll"')
LEAST_ARCHITECTURE = "sm_80"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An answer that passed: its statements with no comments but guards and edits, and their text, which gets
    spliced."""

    text: str
    statements: tuple[Statement, ...]


def check(answer: str, region: Region, arch: str = LEAST_ARCHITECTURE) -> Rewrite:
    """The rewrite in an answer. Raises AnswerRejected: a code of rejection.py, a sentence and the place."""
    source = Source(NAME, code_of(answer))
    try:
        parsed = parse_statements(source.text, NAME)
    except PtxSyntaxError as error:
        raise rejected("SYNTAX", f"the code is no PTX:\n{error.diagnostics[0]}") from error
    statements = tuple(_allowed(parsed, source))
    edits = _declared(statements, source)
    if not any(isinstance(s, Instruction) for s in flatten(statements)):
        raise rejected("NO_CODE", "the code holds no instruction")
    original = tuple(s for s in flatten(parse_statements(region.text)) if isinstance(s, Instruction))
    rewrite = tuple(s for s in flatten(statements) if isinstance(s, Instruction))
    for instruction in rewrite:
        _check_instruction(instruction, arch, source)
    _check_clocks(original, rewrite, source)
    _check_spaces(original, rewrite, source, any(isinstance(edit, NewShared) for edit in edits))
    _check_non_coherent(region, original, rewrite, source)
    precision.audit(original, rewrite, source)
    text = print_statements(statements)
    unguarded = print_statements(tuple(s for s in statements if not isinstance(s, Comment)))
    if not edits and unguarded == print_statements(tuple(_allowed(parse_statements(region.text), source))):
        raise rejected("NO_EFFECT", "the answer is the original text")
    return Rewrite(text, statements)


def _declared(statements: tuple[Statement, ...], source: Source) -> tuple[Edit, ...]:
    try:
        return declared(statements, source)
    except SpliceRefused as refused:
        raise rejected("EDIT", str(refused)) from refused


def flatten(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The statements with those inside scopes in place of the scopes."""
    for statement in statements:
        if isinstance(statement, Block):
            yield from flatten(statement.statements)
        else:
            yield statement


def _allowed(statements: Iterable[Statement], source: Source) -> Iterator[Statement]:
    """The statements with no comments but guards and edits; raises at one that no rewrite may hold."""
    for statement in statements:
        match statement:
            case Comment():
                if LINE.match(statement.text) or is_edit(statement.text):
                    yield statement
            case Block(statements=inner):
                yield replace(statement, statements=tuple(_allowed(inner, source)))
            case RegisterDeclaration():
                for name in (name for name, _ in statement.names if isa.is_special_register(name)):
                    what = f"{name} is a special register, and no name for one of your own"
                    raise rejected("RESERVED_NAME", what, source, statement.span)
                yield statement
            case Instruction() | Label():
                yield statement
            case Directive():
                if (statement.name, statement.arguments.strip()) != ALLOWED_DIRECTIVE:
                    raise rejected("DIRECTIVE", f"{statement.name} is not allowed here", source, statement.span)
                yield statement
            case Variable():
                raise rejected("VARIABLE", "a rewrite declares no variable", source, statement.span)
            case BranchTargets() | CallPrototype():
                raise rejected("INDIRECT", "a rewrite holds no table of targets", source, statement.span)
            case Raw():
                raise rejected("UNKNOWN_STATEMENT", "this is no statement of PTX", source, statement.span)
            case _:
                assert_never(statement)


def _check_instruction(instruction: Instruction, arch: str, source: Source) -> None:
    needed = isa.requirement(instruction)
    if needed is None:
        raise rejected(
            "UNKNOWN_OPCODE", f"there is no instruction {instruction.full_opcode} like this", source, instruction.span
        )
    target = targets.target(arch)
    major, minor = target.capability
    if needed.sm > 10 * major + minor or (needed.arch_specific and not target.arch_specific):
        own = " alone" if needed.arch_specific else ""
        raise rejected(
            "ARCHITECTURE",
            f"{instruction.full_opcode} needs sm_{needed.sm}{own}, the target is {arch}",
            source,
            instruction.span,
        )
    effects = isa.effects(instruction)
    if Effect.CALL in effects:
        raise rejected("CALL", "a rewrite calls nothing", source, instruction.span)
    if Effect.EXIT in effects:
        raise rejected("LEAVES", f"{instruction.opcode} would leave the kernel", source, instruction.span)
    if Effect.CONTROL in effects and instruction.opcode != "bra":
        raise rejected("INDIRECT", f"{instruction.full_opcode} goes through a table", source, instruction.span)


def _check_clocks(original: Iterable[Instruction], rewrite: Iterable[Instruction], source: Source) -> None:
    """A rewrite that could tell that it is being timed could behave for the clock."""
    fickle = {Effect.CLOCK, Effect.STATE, Effect.VOLATILE}
    if any(isa.effects(i) & fickle for i in original):
        return
    for instruction in rewrite:
        if isa.effects(instruction) & fickle:
            raise rejected("CLOCK", "the original does nothing of the kind", source, instruction.span)


def _check_spaces(
    original: Iterable[Instruction], rewrite: Iterable[Instruction], source: Source, new_shared: bool
) -> None:
    known = {space for i in original for space in _spaces(i)} | ({".shared"} if new_shared else set())
    for instruction in rewrite:
        for space in _spaces(instruction):
            if space not in known:
                used = " and ".join(sorted(known)) or "no memory"
                raise rejected(
                    "STATE_SPACE", f"this accesses {space} memory, the original {used}", source, instruction.span
                )


def _spaces(instruction: Instruction) -> tuple[str, ...]:
    touches = isa.effects(instruction) & {Effect.READ, Effect.WRITE}
    return (isa.memory_spaces(instruction) or ("generic",)) if touches else ()


def _check_non_coherent(
    region: Region, original: Iterable[Instruction], rewrite: Iterable[Instruction], source: Source
) -> None:
    if any(".nc" in i.modifiers for i in original) or any(f.relation is Relation.READ_ONLY for f in region.facts):
        return
    for instruction in rewrite:
        if ".nc" in instruction.modifiers:
            raise rejected(
                "NON_COHERENT", "no fact says that this launch leaves the memory alone", source, instruction.span
            )
