"""Loads side by side as one: what successive trips read behind one pointer, which the kernel tests to be aligned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.rules.pointers import Pointer
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.program import type_width
from hybridcc.passes.verify.proof.terms import Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Address, Instruction, Name, Statement, Vector

MOST_BYTES = 16
"""Of one load (ISA 9.7.9.8, without the 32 bytes of sm_100)."""
WIDEST = 4
MOST_OPERATIONS = 10
"""In a guard's sum, so that the splicer takes it."""


def side_by_side(
    statements: Sequence[Statement], pointers: Iterable[Pointer], region: Region
) -> tuple[list[Statement], dict[str, None]]:
    """The statements with loads joined, and the guards they need. All loads stand before what is made of them."""
    by_register = {p.register: p for p in pointers if isinstance(p.step, int)}
    groups: dict[tuple[str, str], list[tuple[int, Instruction]]] = {}
    for statement in statements:
        found = _plain(statement)
        if found is not None and found[0] in by_register and isinstance(statement, Instruction):
            groups.setdefault((found[0], statement.full_opcode), []).append((found[1], statement))
    joined: dict[int, Instruction | None] = {}
    guards: dict[str, None] = {}
    for (register, _), loads in groups.items():
        size = type_width(loads[0][1].modifiers[-1]) // 8
        width = min(WIDEST, MOST_BYTES // size, len(loads))
        loads.sort(key=lambda load: load[0])
        offsets = [offset for offset, _ in loads]
        even = offsets == [offsets[0] + k * size for k in range(len(loads))] and len(loads) % width == 0
        guard = _aligned(by_register[register], offsets[0], width * size, region) if even and width > 1 else None
        if guard is None:
            continue
        guards[guard] = None
        for first in range(0, len(loads), width):
            part = [load for _, load in loads[first : first + width]]
            joined[id(part[0])] = _joined(part)
            joined |= {id(load): None for load in part[1:]}
    made = [joined.get(id(s), s) if isinstance(s, Instruction) else s for s in statements]
    return [s for s in made if s is not None], guards


def _plain(statement: Statement) -> tuple[str, int] | None:
    """Pointer and offset of a load of one register from global memory."""
    if not isinstance(statement, Instruction) or isa.effects(statement) != {Effect.READ}:
        return None
    target, source = statement.operands[0], statement.operands[-1]
    named = isinstance(target, Name) and isinstance(source, Address) and isinstance(source.base, Name)
    if not named or statement.guard is not None or statement.modifiers[:1] != (".global",):
        return None
    if any(m.startswith(".v") for m in statement.modifiers):
        return None
    assert isinstance(source, Address)
    assert isinstance(source.base, Name)
    return source.base.text, int(source.offset.text) if source.offset is not None else 0


def _joined(loads: Sequence[Instruction]) -> Instruction:
    first = loads[0]
    modifiers = (*first.modifiers[:-1], f".v{len(loads)}", first.modifiers[-1])
    return replace(
        first, modifiers=modifiers, operands=(Vector(tuple(i.operands[0] for i in loads)), first.operands[1])
    )


def _aligned(pointer: Pointer, offset: int, size: int, region: Region) -> str | None:
    """The guard that it begins at a multiple of ``size``; None where neighbours in a warp cannot all keep it."""
    sum_ = t.add(pointer.base, t.constant(offset, 64))
    uniform = {f"%in{k}" for k, port in enumerate(region.live_in) if port.uniform}
    for monomial, coefficient in sum_.monomials:
        names = {str(a.arguments[0]) for a in monomial}
        if names and t.signed(coefficient, 64) % size and not uniform & names:
            return None
    words = spelled(sum_)
    operations = 0 if words is None else words.count("*") + words.count("+")
    return f"{words} multiple of {size}" if words and operations <= MOST_OPERATIONS else None


def spelled(p: Polynomial) -> str | None:
    """A sum of products of live-ins as guards spell it; None for any other."""
    parts = []
    for monomial, coefficient in p.monomials:
        names = [str(a.arguments[0]) for a in monomial]
        if any(a.operation != "variable" or not str(a.arguments[0]).startswith("%in") for a in monomial):
            return None
        factor = t.signed(coefficient, p.width)
        parts.append(" * ".join([*([str(factor)] if factor != 1 or not names else []), *names]))
    return " + ".join(parts).replace("+ -", "- ") or None
