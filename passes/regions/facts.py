"""A region's facts: what is known of its live-ins when control enters it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hybridcc.passes.analysis.interval import Known, whole
from hybridcc.passes.analysis.provenance import Provenance
from hybridcc.passes.analysis.ranges import Ranges
from hybridcc.passes.analysis.transfer import WIDTHS
from hybridcc.passes.facts import Fact, Origin, Parameter, RegionInput, Relation
from hybridcc.passes.regions.region import Port

CARRIED = frozenset({Relation.MULTIPLE_OF, Relation.DISJOINT, Relation.READ_ONLY, Relation.EQ})
"""Facts on a parameter that hold as well of a register that is a copy of it; bounds come with the intervals."""


def region_facts(
    ports: Sequence[Port], ranges: Ranges, origins: Provenance, kernel_facts: Sequence[Fact]
) -> tuple[Fact, ...]:
    """Bounds, facts on parameters that live-ins copy, and comparisons between live-ins, in that order."""
    index = {port.register: k for k, port in enumerate(ports)}
    copies = {
        parameter: RegionInput(k)
        for k, port in reversed(list(enumerate(ports)))
        if (parameter := origins.parameter(port.register)) is not None
    }
    found = [fact for k, port in enumerate(ports) for fact in _bounds(k, port, ranges)]
    found += [
        carried for fact in kernel_facts if fact.relation in CARRIED and (carried := _carried(fact, copies)) is not None
    ]
    for comparison in ranges.comparisons:
        left, right = index.get(comparison.left), index.get(comparison.right)
        parameter = origins.parameter(comparison.right)
        if left is not None and right is not None:
            found.append(Fact(RegionInput(left), comparison.relation, RegionInput(right), Origin.INVARIANT))
        elif left is not None and parameter is not None:
            term = Parameter(parameter, origins.meanings[parameter])
            found.append(Fact(RegionInput(left), comparison.relation, term, Origin.INVARIANT))
    return tuple(dict.fromkeys(found))


def _bounds(k: int, port: Port, ranges: Ranges) -> Iterator[Fact]:
    known = ranges.of(port.register)
    width = WIDTHS.get(port.type)
    if known is None or width is None:
        return
    interval, everything = known.interval, whole(width)
    if interval.low == interval.high:
        yield Fact(RegionInput(k), Relation.EQ, interval.low, known.origin)
        return
    if interval.low > everything.low:
        yield Fact(RegionInput(k), Relation.GE, interval.low, known.origin)
    if interval.high < everything.high:
        yield _upper(k, known)


def _upper(k: int, known: Known) -> Fact:
    """``< 2^n`` where that is what it says, as it is easier to read."""
    high = known.interval.high
    if high > 0 and high & (high + 1) == 0:
        return Fact(RegionInput(k), Relation.LT, high + 1, known.origin)
    return Fact(RegionInput(k), Relation.LE, high, known.origin)


def _carried(fact: Fact, copies: dict[int, RegionInput]) -> Fact | None:
    """The fact with the parameters that live-ins copy put as live-ins; None if none is."""
    left = copies.get(fact.left.index, fact.left) if isinstance(fact.left, Parameter) else fact.left
    right = copies.get(fact.right.index, fact.right) if isinstance(fact.right, Parameter) else fact.right
    if not isinstance(left, RegionInput):
        return None
    if fact.relation is Relation.EQ and isinstance(right, int):
        return None  # an interval of one value, said already
    return Fact(left, fact.relation, right, fact.origin)
