"""Do all threads of a block go the same way through a proof? Then a rewrite may hold a barrier in several copies.

An aligned barrier (``bar.sync``; ISA 9.7.13.1) must be the same instruction for all threads of a warp. Where a
rewrite has one place for a barrier of the baseline, whoever met there meets again. Where it has several, as an
unrolled loop has, this module shows that all threads of a block choose alike.

Claim. In each round (a node of the certificate and the stretch after it) all threads of a block that have not left
are at the same node, and its *uniform* symbols have the same values for all of them.

Argument. All start at the entry. Take two threads at one node, and the arrival that each makes from there. The
conditions of both arrivals that speak only of uniform values (parameters, sizes and number of the block, uniform
symbols) hold of the same values, so if they contradict each other no two threads take these two arrivals in one round.
For every other pair either both arrive at the same node, past the same pairs of barriers in the same order, and each
of its uniform symbols gets the same value, by terms over uniform values that are shown equal under those conditions;
or one leaves the kernel, and what it passed is where the other's way begins (or, if both leave, the other way round).
So the k-th barriers of two threads of a block
are at the same place of the candidate if they are at the same place of the baseline. The threads of a warp that meet
at an aligned barrier have passed equally many of them, since every one before was met together too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeAlias

from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.solver import Solver
from hybridcc.passes.verify.proof.terms import Argument, Atom, Condition, Memory, Polynomial, as_constant

Value: TypeAlias = Polynomial | Condition | None
Site: TypeAlias = tuple[int, int]
"""Where a barrier stands in the baseline and in the candidate."""

_SAME_FOR_A_BLOCK: Final = ("parameter:", "special:ntid.", "special:ctaid.", "special:nctaid.", "address:.shared:")
_DIVISIONS: Final = frozenset(("udiv", "urem", "sdiv", "srem"))
_FROM_MEMORY: Final = frozenset(("load", "load_nc", "result"))


class Apart(Exception):
    """Threads of one block may go different ways."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """An arrival: from ``node`` to ``target`` (None: left the kernel), past ``sites``, if ``conditions`` hold.

    ``values`` are those that the target's symbols get.
    """

    node: str
    target: str | None
    sites: tuple[Site, ...]
    conditions: tuple[Condition, ...]
    values: Mapping[str, Value]


def check(stretches: Sequence[Stretch], solver: Solver) -> None:
    """Return if all threads of a block go alike; raise Apart if that is not shown."""
    uniform = frozenset(name for s in stretches for name in s.values)
    while True:
        kept = uniform - _uneven(stretches, uniform, solver)
        if kept == uniform:
            break
        uniform = kept
    for first, second, context in _together(stretches, uniform, solver):
        if not _alike(first, second) and not context.contradictory():
            raise Apart(f"threads of a block may part at {first.node}")


def _alike(first: Stretch, second: Stretch) -> bool:
    """Whether two threads of a block may take one each: who leaves has passed no barrier that the other has not."""
    if first.target is None and second.target is None:
        length = min(len(first.sites), len(second.sites))
        return first.sites[:length] == second.sites[:length]
    if first.target is None:
        return first.sites == second.sites[: len(first.sites)]
    if second.target is None:
        return second.sites == first.sites[: len(second.sites)]
    return first.target == second.target and first.sites == second.sites


def _uneven(stretches: Sequence[Stretch], uniform: frozenset[str], solver: Solver) -> frozenset[str]:
    """Symbols that may get different values in different threads."""
    found = {n for s in stretches for n, value in s.values.items() if not _is_uniform(value, uniform, {})}
    for first, second, context in _together(stretches, uniform, solver):
        if first.target != second.target:
            continue
        for name in (uniform & first.values.keys()) - found:
            if not context.same(first.values[name], second.values[name]):
                found.add(name)
    return frozenset(found)


def _together(stretches: Sequence[Stretch], uniform: frozenset[str], solver: Solver):
    """Pairs of different arrivals from one node, each with what is known where two threads make them in one round."""
    for first, second in combinations(stretches, 2):
        if first.node == second.node:
            known = [c for c in (*first.conditions, *second.conditions) if _is_uniform(c, uniform, {})]
            yield first, second, Context(solver, tuple(dict.fromkeys(known)))


def _is_uniform(x: Argument | Atom, uniform: frozenset[str], done: dict[Argument | Atom, bool]) -> bool:
    """Whether a term has one value for all threads of a block, if the symbols ``uniform`` have."""
    if x in done:
        return done[x]
    match x:
        case Memory() | None:
            result = False
        case Polynomial():
            result = all(_is_uniform(a, uniform, done) for monomial, _ in x.monomials for a in monomial)
        case Atom() if x.operation == "variable":
            name = str(x.arguments[0])
            result = name in uniform or name.startswith(_SAME_FOR_A_BLOCK)
        case Atom() if x.operation in _FROM_MEMORY:
            result = False
        case Atom() if x.operation in _DIVISIONS:
            divisor = x.arguments[1]  # what division by zero gives may differ from thread to thread
            nonzero = isinstance(divisor, Polynomial) and bool(as_constant(divisor))
            result = nonzero and all(_is_uniform(y, uniform, done) for y in x.arguments)
        case Atom() | Condition():
            result = all(_is_uniform(y, uniform, done) for y in x.arguments)
        case _:
            result = True
    done[x] = result
    return result
