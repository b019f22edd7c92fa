"""State spaces against where a pointer comes from: an address of one space read as one of another is always wrong."""

from __future__ import annotations

from hybridcc.passes.rewrite.lints.finding import Finding, Subject
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Address, Instruction, Member, Name, Operand

WINDOWED = (".shared", ".local")
"""Spaces whose own addresses mean nothing outside them (ISA 5.1); those of .global and .const are generic ones."""
DEEPEST = 24


def wrong_space(subject: Subject) -> tuple[Finding, ...]:
    """Accesses through an address that is known to be of another space."""
    found = []
    for index, instruction in subject.instructions:
        space = isa.memory_space(instruction)
        base = next((o.base for o in instruction.operands if isinstance(o, Address)), None)
        if space not in (*WINDOWED, ".global") or not isinstance(base, Name):
            continue
        own = _space(subject, base, frozenset())
        if own is None or own == space or (own == "generic" and space == ".global"):
            continue
        if space == ".global" and own not in WINDOWED:
            continue
        text = f"the address is one of {own.removeprefix('.')} memory; `cvta` makes one of the other kind"
        found.append(subject.finding("WRONG_SPACE", "error", index, text))
    return tuple(found)


def _space(subject: Subject, operand: Operand, seen: frozenset[str]) -> str | None:
    """``.shared``, ``.local``, ``.global``, ``generic``, or None where it is not known (or no pointer)."""
    if not isinstance(operand, Name) or operand.text in seen or len(seen) > DEEPEST:
        return None
    name, scoped = operand.text, subject.cfg.scoped
    if scoped.is_variable(name):
        space = scoped.variables[name].space
        return space if space in (*WINDOWED, ".global") else None
    places = subject.definitions.get(name, ())
    spaces = {_made(subject, place, seen | {name}) for place in places} - {"itself"}
    return spaces.pop() if len(spaces) == 1 else None


def _made(subject: Subject, place: int, seen: frozenset[str]) -> str | None:
    """The space of what one statement makes; ``itself`` for a step of a pointer that is being looked at."""
    instruction = subject.cfg.statements[place]
    assert isinstance(instruction, Instruction)
    modifiers, sources = instruction.modifiers, instruction.operands[1:]
    if any(isinstance(s, Name) and s.text in seen for s in sources):
        return "itself"
    match instruction.opcode:
        case "cvta":
            if ".to" in modifiers:
                return next((m for m in modifiers if m in (*WINDOWED, ".global")), None)
            return "generic"
        case "mov":
            return _space(subject, sources[-1], seen)
        case "add" | "sub" | "mad":
            # a pointer and an offset: one of the two has a space
            spaces = {_space(subject, s, seen) for s in sources if not isinstance(s, Member)} - {None}
            return spaces.pop() if len(spaces) == 1 else None
        case _:
            return None
