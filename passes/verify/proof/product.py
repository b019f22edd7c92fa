"""Both programs side by side from one node of a certificate to the next.

The two share no state but the launch, so any order of steps is a fair one. The order here is the least that
reaches the edges of the certificate, and every pair of feasible paths must end on one of them, or at both exits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from hybridcc.passes.verify.proof.certificate import Edge, Node
from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.solver import OutOfBudget
from hybridcc.passes.verify.proof.state import EXITED, State

PAIR_LIMIT: Final = 4000
"""Path pairs that one node may have."""

Advance: TypeAlias = Callable[[State, Context], list[tuple[State, Context]]]
"""Every feasible way from a state to its program's next cut point or exit, each with what it implies."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pair of paths that ends on ``edge``, or at both exits where it is None."""

    edge: Edge | None
    context: Context
    base: State
    candidate: State


@dataclass(frozen=True, slots=True)
class Stray:
    """A feasible pair of paths that no edge of the certificate expects."""

    context: Context
    base: State
    candidate: State
    visits: tuple[int, int]


def successors(
    node: Node,
    places: Callable[[str], tuple[int, int]],
    start: tuple[State, State, Context],
    advance_base: Advance,
    advance_candidate: Advance,
) -> Iterator[Arrival | Stray]:
    """Follow every pair of feasible paths. ``places`` gives the two positions of a node. Raises OutOfBudget."""
    edges = tuple((edge, *places(edge.target)) for edge in node.edges)
    most = max((max(e.base_visits, e.candidate_visits) for e in node.edges), default=0) + 2
    work = [(*start, 0, 0)]
    pairs = 0
    while work:
        pairs += 1
        if pairs > PAIR_LIMIT:
            raise OutOfBudget(f"{PAIR_LIMIT} path pairs from {node.name}")
        base, candidate, context, m, k = work.pop()
        if m and base.at == candidate.at == EXITED:
            yield Arrival(None, context, base, candidate)
            continue
        here = [e for e, p, q in edges if (e.base_visits, e.candidate_visits, p, q) == (m, k, base.at, candidate.at)]
        if here:
            yield Arrival(here[0], context, base, candidate)
            continue
        side = _next(edges, base, candidate, m, k, most)
        if side is None:
            if not context.contradictory():
                yield Stray(context, base, candidate, (m, k))
        elif side == "candidate":
            work += ((base, q, c, m, k + 1) for q, c in advance_candidate(candidate, context))
        else:
            work += ((p, candidate, c, m + 1, k) for p, c in advance_base(base, context))


def _next(
    edges: tuple[tuple[Edge, int, int], ...], base: State, candidate: State, m: int, k: int, most: int
) -> str | None:
    """The side to move: the candidate when some edge waits for it where the baseline stands now."""
    if base.at == EXITED:
        return "candidate" if candidate.at != EXITED and k < most else None
    waiting = any(e.base_visits == m and p == base.at and e.candidate_visits > k for e, p, _ in edges)
    if waiting and candidate.at != EXITED:
        return "candidate"
    return "base" if m < most else None
