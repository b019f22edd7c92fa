"""Address strength reduction: addresses that go on by an invariant from trip to trip become pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybridcc.passes.rewrite.rules.counted import TRIP, is_invariant
from hybridcc.passes.rewrite.rules.forward import Step
from hybridcc.passes.rewrite.rules.materialize import Materializer, Unmade
from hybridcc.passes.rewrite.rules.trip import Trip, reads
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.terms import Monomial, Polynomial

FARTHEST = 1 << 20
"""Offsets from a pointer that an instruction takes as they are."""


@dataclass(frozen=True)
class Affine:
    """``base + step * @k``"""

    base: Polynomial
    step: Polynomial


@dataclass(frozen=True)
class Pointer:
    """``register`` holds ``base`` in the first trip and goes on by ``step``: a number of bytes, or a register.

    One that is ``indexed`` stays: trip k adds k times the step. Proofs find counters that go on by a product of two
    numbers in no other way, and the multiplication is one for all that have the step.
    """

    register: str
    base: Polynomial
    step: int | str
    indexed: bool = False


def affine(address: Polynomial, varying: set[str]) -> Affine | None:
    """The address as base and step; None where it hangs on a trip in another way."""
    base: dict[Monomial, int] = {}
    step: dict[Monomial, int] = {}
    for monomial, coefficient in address.monomials:
        counts = [a for a in monomial if a.operation == "variable" and a.arguments[0] == TRIP]
        if not counts:
            base[monomial] = coefficient
        elif len(counts) == 1:
            step[tuple(a for a in monomial if a is not counts[0])] = coefficient
        else:
            return None
    found = Affine(t.from_monomials(address.width, base), t.from_monomials(address.width, step))
    for part in (found.base, found.step):
        if reads(part, TRIP) or reads(part, f"{TRIP}32") or not is_invariant(part, varying):
            return None
    return found


def pointers_of(trips: Sequence[Trip], materializer: Materializer) -> Mapping[Step, tuple[Pointer, int]]:
    """The pointer and offset of each access that has one: accesses a number of bytes apart share a pointer."""
    varying = {f"@{r}" for r in trips[0].counted.data}
    groups: dict[tuple[Polynomial, Polynomial], list[tuple[Step, int]]] = {}
    for step in (step for trip in trips for step in trip.steps):
        found = None if step.address is None else affine(step.address, varying)
        if found is not None:
            offset = dict(found.base.monomials).get((), 0)
            plain = t.sub(found.base, t.constant(offset, 64))
            groups.setdefault((plain, found.step), []).append((step, t.signed(offset, 64)))
    made: dict[Step, tuple[Pointer, int]] = {}
    for (plain, by), members in groups.items():
        made |= _group(materializer, plain, by, members)
    return made


def _group(
    materializer: Materializer, plain: Polynomial, by: Polynomial, members: Sequence[tuple[Step, int]]
) -> dict[Step, tuple[Pointer, int]]:
    offsets = [offset for _, offset in members]
    shift = offsets[0] if len(set(offsets)) == 1 or max(map(abs, offsets)) > FARTHEST else 0
    base = t.add(plain, t.constant(shift, 64))
    number = t.as_constant(by)
    try:
        step = t.signed(number, 64) if number is not None else materializer.register(by)
        register = materializer.register(base)
    except Unmade:
        return {}
    indexed = any(len(monomial) > 1 for monomial, _ in by.monomials)
    if step != 0 and not indexed:
        register = materializer.copied(register)
    pointer = Pointer(register, base, step, indexed)
    return {member: (pointer, offset - shift) for member, offset in members if abs(offset - shift) <= FARTHEST}
