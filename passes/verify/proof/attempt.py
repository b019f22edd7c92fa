"""Two kernels in, a verdict out: trace, align, search, check."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from hybridcc.passes.verify.proof import alignment as al
from hybridcc.passes.verify.proof import payloads
from hybridcc.passes.verify.proof.certificate import Certificate
from hybridcc.passes.verify.proof.checker import Rejected, order_is_free
from hybridcc.passes.verify.proof.premises import Premises
from hybridcc.passes.verify.proof.program import Program
from hybridcc.passes.verify.proof.sampling import entry_values, satisfies, varied
from hybridcc.passes.verify.proof.search import Sides, Unaligned, find
from hybridcc.passes.verify.proof.solver import Solver
from hybridcc.passes.verify.proof.trace import STEP_LIMIT, Tracer

LAUNCHES: Final = 1600
BATCH: Final = 100
ROWS: Final = 130
TRIES: Final = 3
"""Searches, each with as many rows again, before a failed obligation is taken for the answer."""
ENDLESS: Final = 60
"""Launches given up after STEP_LIMIT steps before no more is tried: each costs as much as hundreds of short ones."""
HINTS: Final = 12
"""Launches that the search may ask for, because it found a pair of paths that no run had shown."""


@dataclass(frozen=True, slots=True)
class Differs(Exception):
    """A launch on which the two sides write differently under the interpretation: worth a replay, no refutation."""

    values: dict[str, int]


class Sample:
    """Runs of both sides, and how they align."""

    def __init__(self, base: Program, candidate: Program, premises: Premises, seed: int, ideal: bool = False) -> None:
        self.base, self.premises = base, premises
        self.opaque = (opaque_registers(base), opaque_registers(candidate))
        commuting = order_is_free(base, candidate)
        self._tracers = (
            Tracer(base, frozenset(base.loop_heads), commuting=commuting, ideal=ideal),
            Tracer(candidate, frozenset(candidate.loop_heads), commuting=commuting, ideal=ideal),
        )
        self._rng = random.Random(seed)
        self._launches = self._endless = 0
        self.tries = 1
        self.runs: list[al.Run] = []
        self.aligned = al.align(self.runs, self.opaque)

    def gather(self, hint: dict[str, int] | None = None) -> None:
        """Launch until every pair has enough rows, or until LAUNCHES; called again, until it has as many more. Raises
        Differs.

        Too few rows are the one known cause of proofs that depend on the seed: a pair needs more than a guess has
        unknowns. Every other launch is much like one that saw a pair with too few, or much like ``hint``.
        """
        if hint is None and self._launches:
            self._launches, self.tries = 0, self.tries + 1
        rare = self._launch(hint) if hint is not None else []
        while self._launches < LAUNCHES and self._endless <= ENDLESS:
            for number in range(BATCH):
                if self._endless > ENDLESS:
                    break
                if rare and number % 2:
                    self._launch(varied(self._rng.choice(rare).entry, self.base, self.premises, self._rng))
                else:
                    self._launch(entry_values(self.base, self.premises, self._rng))
            self._launches += BATCH
            self.aligned = al.align(self.runs, self.opaque)
            few = [rows for rows in self.aligned.rows.values() if len(rows) < ROWS * self.tries]
            if not few:
                return
            rare = [self.runs[row.run] for rows in few for row in rows]

    def _launch(self, values: dict[str, int]) -> list[al.Run]:
        """The run, unless it breaks a premise or takes too long. Raises Differs."""
        if not satisfies(values, self.premises):
            return []
        p = self._tracers[0].run(values)
        if p is None:
            self._endless += 1
            return []
        q = self._tracers[1].run(values, 4 * STEP_LIMIT)
        if q is None or (p.memory, p.ending) != (q.memory, q.ending):
            raise Differs(values)
        run = al.Run(values, p.visits, q.visits)
        self.runs.append(run)
        return [run]


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


def opaque_registers(program: Program) -> frozenset[str]:
    """Registers declared as floating point: their values are no numbers to compute addresses with."""
    return frozenset(n for n, kind in program.registers.items() if kind.startswith((".f", ".bf")))


def search(
    base: Program, candidate: Program, premises: Premises, solver: Solver, seed: int = 1, *, ideal: bool = False
) -> Certificate:
    """Raises Differs, Rejected, OutOfBudget, TimeLimit, Unsupported, TermTooLarge."""
    sample = Sample(base, candidate, premises, seed, ideal)
    sample.gather()
    sides = Sides(base, candidate, premises, solver, ideal)
    hints: list[dict[str, int]] = []
    while True:
        try:
            return find(sides, sample.aligned, sample.runs, lambda side, name: name in sample.opaque[side != "base"])
        except Unaligned as error:
            hint = dict(sample.runs[0].entry) | error.entry if sample.runs else {}
            if not hint or hint in hints or len(hints) >= HINTS:
                raise
            hints.append(hint)
            sample.gather(hint)
        except Rejected:
            # A guess that rests on few rows can say too much of one register and too little of another.
            if sample.tries >= TRIES:
                raise
            sample.gather()
