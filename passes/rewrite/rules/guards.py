"""Conditions that a rewrite asks for where no fact says that an index is not negative: the kernel tests them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hybridcc.passes.facts import Fact, Origin, RegionInput, Relation
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.rules.counted import recognise
from hybridcc.passes.rewrite.rules.subject import Unrecognised, subject_of
from hybridcc.passes.rewrite.rules.trip import Trip, trip_of
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import leaves
from hybridcc.passes.verify.proof.terms import Atom, Condition, Polynomial

LARGE = 1 << 40
"""Indices and counts below it can be added and scaled without a thought of 64 bits."""


def helping(region: Region, trip: Trip) -> tuple[tuple[str, ...], Region] | None:
    """Conditions under which fewer wraparounds are left, and the region with them as facts; None where none helps."""
    left = _undecided(trip)
    ports = sorted({name for condition in left for name in _ports(condition)}, key=_number)
    if not ports:
        return None
    counts = sorted({*ports, *_ports(trip.counted.trips)}, key=_number)
    signs = [(name, Relation.GE, 0) for name in ports if _range(trip, name)[0] < 0]
    more = [(name, Relation.GE, 0) for name in counts if _range(trip, name)[0] < 0]
    sizes = [(name, Relation.LT, LARGE) for name in counts if _range(trip, name)[1] >= LARGE << 20]
    for asked in (signs, [*more, *sizes]):
        if not asked:
            continue
        facts = tuple(Fact(RegionInput(_number(n)), relation, value, Origin.GUARD) for n, relation, value in asked)
        under = replace(region, facts=(*region.facts, *facts))
        try:
            fewer = len(_undecided(trip_of(recognise(subject_of(under, trip.counted.subject.facts))))) < len(left)
        except Unrecognised:
            fewer = False
        if fewer:
            return tuple(f"{n} {relation.value} {value}" for n, relation, value in asked), under
    return None


def _undecided(trip: Trip) -> frozenset[Condition]:
    """The conditions that addresses of a trip still hang on."""
    return frozenset(
        condition
        for step in trip.steps
        if step.address is not None
        for monomial, _ in step.address.monomials
        for each in monomial
        if each.operation == "bit" and isinstance(condition := each.arguments[0], Condition)
    )


def _ports(term: Polynomial | Condition) -> Iterator[str]:
    for leaf in leaves(term):
        name = leaf.arguments[0] if isinstance(leaf, Atom) else None
        if isinstance(name, str) and name.startswith("%in"):
            yield name


def _number(port: str) -> int:
    return int(port.removeprefix("%in"))


def _range(trip: Trip, port: str) -> tuple[int, int]:
    width = trip.counted.evaluator.width(port)
    if width not in (32, 64):
        return 0, 0
    found = trip.counted.bounds.range(t.variable(port, width))
    return found.low, found.high
