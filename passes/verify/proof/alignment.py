"""Which cut points of the two sides belong together, seen on concrete runs.

A visit of a loop head on one side matches one on the other when the memories are the same and the values that
tell one iteration from another (loop-carried floating-point values, loaded values) are shared. Ratios such as
4:1 and remainders come out by themselves. Untrusted: a wrong alignment makes a certificate that is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hybridcc.passes.verify.proof.interpretation import Chain
from hybridcc.passes.verify.proof.state import EXITED

Values: TypeAlias = Mapping[str, int]
Pair: TypeAlias = tuple[int, int]
"""Instruction numbers of the baseline's and the candidate's cut point."""

START: Final[Pair] = (0, 0)
LEFT: Final[Pair] = (EXITED, EXITED)


@dataclass(frozen=True, slots=True)
class Visit:
    """A thread before instruction ``at``; predicates are 0 or 1, ``memory`` identifies everything written so far."""

    at: int
    registers: Values
    memory: int
    chain: Chain


@dataclass(frozen=True, slots=True)
class Run:
    """One thread of one launch on both sides; ``entry`` holds the entry values by variable name."""

    entry: Values
    base: Sequence[Visit]
    candidate: Sequence[Visit]


@dataclass(frozen=True, slots=True)
class Row:
    """Both sides' registers at one matched pair of visits."""

    run: int
    base: Values
    candidate: Values
    chain: Chain


@dataclass(slots=True)
class Alignment:
    """``edges`` maps a pair to what follows it: (pair, visits of the baseline, visits of the candidate)."""

    edges: dict[Pair, set[tuple[Pair, int, int]]] = field(default_factory=lambda: defaultdict(set))
    rows: dict[Pair, list[Row]] = field(default_factory=lambda: defaultdict(list))


def align(runs: Sequence[Run], opaque: tuple[frozenset[str], frozenset[str]]) -> Alignment:
    """``opaque`` names, for each side, the registers whose values mean nothing as numbers (floats, loaded values)."""
    found = Alignment()
    varying = (_varying([r.base for r in runs], opaque[0]), _varying([r.candidate for r in runs], opaque[1]))
    for number, run in enumerate(runs):
        _align_run(found, number, run, varying)
    return found


def _varying(sides: Sequence[Sequence[Visit]], opaque: frozenset[str]) -> dict[int, frozenset[str]]:
    """For each cut point, the opaque registers that change from visit to visit of one run."""
    changing: dict[int, set[str]] = defaultdict(set)
    for visits in sides:
        first: dict[tuple[int, str], int] = {}
        for visit in visits:
            for register in opaque & visit.registers.keys():
                value = visit.registers[register]
                if first.setdefault((visit.at, register), value) != value:
                    changing[visit.at].add(register)
    return {at: frozenset(registers) for at, registers in changing.items()}


def _align_run(
    found: Alignment, number: int, run: Run, varying: tuple[dict[int, frozenset[str]], dict[int, frozenset[str]]]
) -> None:
    keys = tuple(
        [frozenset(v.registers[r] for r in varying[side].get(v.at, ()) if r in v.registers) for v in visits]
        for side, visits in ((0, run.base), (1, run.candidate))
    )
    here, last_base, last_candidate = START, -1, -1
    for i, visit in enumerate(run.base):
        for j in range(last_candidate + 1, len(run.candidate)):
            other = run.candidate[j]
            if visit.memory != other.memory or not _shared(keys[0][i], keys[1][j]):
                continue
            if bool(keys[0][i]) != bool(keys[1][j]) and not (_wrote(run.base, i) and _wrote(run.candidate, j)):
                continue
            pair = (visit.at, other.at)
            found.edges[here].add((pair, i - last_base, j - last_candidate))
            found.rows[pair].append(Row(number, visit.registers, other.registers, visit.chain))
            here, last_base, last_candidate = pair, i, j
            break
    found.edges[here].add((LEFT, len(run.base) - last_base, len(run.candidate) - last_candidate))


def _shared(first: frozenset[int], second: frozenset[int]) -> bool:
    return first <= second or second <= first


def _wrote(visits: Sequence[Visit], at: int) -> bool:
    """Whether memory alone tells this visit from the one before."""
    return at == 0 or visits[at].memory != visits[at - 1].memory
