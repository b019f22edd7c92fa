"""Two kernels in, a verdict out: trace, align, search, check."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from hybridcc.passes.verify.proof import alignment as al
from hybridcc.passes.verify.proof import payloads
from hybridcc.passes.verify.proof.certificate import Certificate
from hybridcc.passes.verify.proof.checker import order_is_free
from hybridcc.passes.verify.proof.premises import Premises
from hybridcc.passes.verify.proof.program import Program
from hybridcc.passes.verify.proof.sampling import entry_values, satisfies
from hybridcc.passes.verify.proof.search import Sides, find
from hybridcc.passes.verify.proof.solver import Solver
from hybridcc.passes.verify.proof.trace import STEP_LIMIT, Tracer

LAUNCHES: Final = 1600
BATCH: Final = 100
ROWS: Final = 130
ENDLESS: Final = 60
"""Launches given up after STEP_LIMIT steps before no more is tried: each costs as much as hundreds of short ones."""


@dataclass(frozen=True, slots=True)
class Differs(Exception):
    """A launch on which the two sides write differently under the interpretation: worth a replay, no refutation."""

    values: dict[str, int]


def traced(
    base: Program, candidate: Program, premises: Premises, seed: int, ideal: bool = False
) -> tuple[list[al.Run], al.Alignment]:
    """Runs of both sides and how they align, with enough rows for each pair of cut points. Raises Differs.

    Too few rows are the one known cause of proofs that depend on the seed, so launches go on until every pair
    has more rows than a guess has unknowns, or until LAUNCHES.
    """
    opaque = (opaque_registers(base), opaque_registers(candidate))
    commuting = order_is_free(base, candidate)
    tracers = (
        Tracer(base, frozenset(base.loop_heads), commuting=commuting, ideal=ideal),
        Tracer(candidate, frozenset(candidate.loop_heads), commuting=commuting, ideal=ideal),
    )
    rng = random.Random(seed)
    runs: list[al.Run] = []
    endless = 0
    aligned = al.align(runs, opaque)
    for launch in range(LAUNCHES):
        values = entry_values(base, premises, rng)
        if satisfies(values, premises):
            run = _traced_once(tracers, values)
            if run is not None:
                runs.append(run)
            else:
                endless += 1
        if launch % BATCH == BATCH - 1 or endless > ENDLESS:
            aligned = al.align(runs, opaque)
            if endless > ENDLESS or all(len(rows) >= ROWS for rows in aligned.rows.values()):
                break
    return runs, aligned


def readings(base: Program, candidate: Program) -> tuple[bool, ...]:
    """In which readings to try: the real one, then the ideal one (lemmas.py) where something is narrowed."""
    if not (payloads.narrows(base) or payloads.narrows(candidate)):
        return (False,)
    try:
        payloads.check(base)
        payloads.check(candidate)
    except payloads.PayloadSeen:
        return (False,)
    return (False, True)


def _traced_once(tracers: tuple[Tracer, Tracer], values: dict[str, int]) -> al.Run | None:
    p = tracers[0].run(values)
    if p is None:
        return None
    q = tracers[1].run(values, 4 * STEP_LIMIT)
    if q is None or (p.memory, p.ending) != (q.memory, q.ending):
        raise Differs(values)
    return al.Run(values, p.visits, q.visits)


def opaque_registers(program: Program) -> frozenset[str]:
    """Registers declared as floating point: their values are no numbers to compute addresses with."""
    return frozenset(n for n, kind in program.registers.items() if kind.startswith((".f", ".bf")))


def search(
    base: Program, candidate: Program, premises: Premises, solver: Solver, seed: int = 1, *, ideal: bool = False
) -> Certificate:
    """Raises Differs, Rejected, OutOfBudget, TimeLimit, Unsupported, TermTooLarge."""
    opaque = (opaque_registers(base), opaque_registers(candidate))
    runs, aligned = traced(base, candidate, premises, seed, ideal)
    sides = Sides(base, candidate, premises, solver, ideal)
    return find(sides, aligned, runs, lambda side, name: name in opaque[side == "candidate"])
