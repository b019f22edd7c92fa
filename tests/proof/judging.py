"""Every mutant before two judges: the executor first, then, for those that it cannot tell apart, the prover.

A mutant that is proved is executed again on many more launches; if those tell it apart, the proof was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from mutate import mutants
from rewrites import base, candidate
from sources import kernel as source_kernel

from hybridcc.errors import HybridccError
from hybridcc.passes.verdict import Proved, Refuted
from hybridcc.passes.verify import proving
from hybridcc.passes.verify.testing import examine, reference_for

Outcome: TypeAlias = Literal["invalid", "refuted", "proved", "unknown", "WRONG"]

FEW = 16
MANY = 200


@dataclass(frozen=True, slots=True)
class Judged:
    """``change`` is the line that the mutant has and the right rewrite has not."""

    kind: str
    outcome: Outcome
    change: str
    why: str


def judge(name: str, rewrite: str, unroll: int, seed: int, first: int, last: int) -> Iterator[Judged]:
    """Mutants number ``first`` to ``last - 1`` of a right rewrite."""
    kernel = source_kernel(name)
    right = candidate(rewrite, unroll)
    few = reference_for(kernel, seed=seed)
    many = None
    for kind, text in islice(mutants(base(name), right, seed), first, last):
        change = next((line for line in text.split("\n") if line not in right.split("\n")), "(a line twice, or gone)")
        try:
            verdict = examine(few, text, most=FEW).verdict
        except HybridccError as error:
            yield Judged(kind, "invalid", change, str(error)[:200])
            continue
        if isinstance(verdict, Refuted):
            yield Judged(kind, "refuted", change, verdict.counterexample[:200])
            continue
        proof = proving.run(proving.Task(kernel.ptx, text, name, kernel.facts, (1,)))
        if not isinstance(proof, Proved):
            yield Judged(kind, "unknown", change, getattr(proof, "reason", "")[:200])
            continue
        many = many or reference_for(kernel, seed=seed + 1)
        again = examine(many, text, most=MANY).verdict
        if isinstance(again, Refuted):
            yield Judged(kind, "WRONG", change, again.counterexample[:200])
        else:
            yield Judged(kind, "proved", change, "")
