"""What is left of a text when nothing stays that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hybridcc.passes.regions.canonical import declarations
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction, Label, RegisterDeclaration, Statement
from hybridcc.ptx.printer import print_statements


def needed(statements: Sequence[Statement], outputs: Iterable[str]) -> list[Statement]:
    """Without instructions that nothing reads."""
    makers: dict[str, list[Instruction]] = {}
    for statement in statements:
        if isinstance(statement, Instruction):
            for register in isa.defs(statement):
                makers.setdefault(register, []).append(statement)
    waiting = [s for s in statements if isinstance(s, Instruction) and isa.effects(s) - {Effect.READ}]
    waiting += [maker for register in outputs for maker in makers.get(register, ())]
    needed: set[int] = set()
    while waiting:
        instruction = waiting.pop()
        if id(instruction) in needed:
            continue
        needed.add(id(instruction))
        waiting += [m for register in isa.uses(instruction) for m in makers.get(register, ())]
        if instruction.guard is not None:
            waiting += [m for register in isa.defs(instruction) for m in makers[register]]
    return [s for s in statements if not isinstance(s, Instruction) or id(s) in needed]


def falling(statements: Sequence[Statement]) -> list[Statement]:
    """Without jumps to what follows anyway."""
    made: list[Statement] = []
    following: set[str] = set()
    for statement in reversed(statements):
        if isinstance(statement, Label):
            following.add(statement.name)
        elif not isinstance(statement, Instruction) or not set(isa.branch_targets(statement)) & following:
            following = set()
        else:
            continue
        made.append(statement)
    return made[::-1]


def printed(statements: Sequence[Statement], types: Mapping[str, str]) -> str:
    """The text, with declarations of the registers it uses."""
    return print_statements((*_declared(statements, types), *_labelled(statements)))


def _labelled(statements: Sequence[Statement]) -> list[Statement]:
    """Without labels that nothing branches to."""
    used = {t for s in statements if isinstance(s, Instruction) for t in isa.branch_targets(s)}
    return [s for s in statements if not isinstance(s, Label) or s.name in used]


def _declared(statements: Sequence[Statement], types: Mapping[str, str]) -> list[RegisterDeclaration]:
    names = [
        name
        for s in statements
        if isinstance(s, Instruction)
        for name in (*isa.defs(s), *isa.uses(s))
        if name in types and not name.startswith(("%in", "%out"))
    ]
    return declarations({name: types[name] for name in dict.fromkeys(names)})
