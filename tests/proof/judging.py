"""Every mutant before two judges: the executor and the prover. What one tells apart, the other must not prove.

The executor sees a mutant first, on a few launches, with a count of the barriers that were passed. What it tells
apart (an output, a fault, a race, other barriers) is refuted, and the prover is asked all the same. What it does not
is proved, or is executed on many more launches, systematic ones and random ones: a proof that those refute is WRONG.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeAlias

from mutate import mutants
from rewrites import base, candidate
from sources import examples, kernel_mlir
from sources import kernel as source_kernel

from hybridcc.errors import HybridccError
from hybridcc.passes.analysis import cfg
from hybridcc.passes.execute import execute
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verdict import NAN_PAYLOADS, Proved, Refuted
from hybridcc.passes.verify import proving
from hybridcc.passes.verify.reference import Reference, reference_for
from hybridcc.passes.verify.source import random_launches
from hybridcc.passes.verify.testing import examine
from hybridcc.ptx import parse
from hybridcc.ptx.printer import print_statement

Outcome: TypeAlias = Literal["invalid", "refuted", "proved", "unknown", "WRONG"]

FEW = 16
MANY = 200
"""Launches for what is proved: half systematic, half random."""
QUERIES = 4_000
"""Solver queries for one mutant. A right rewrite needs 300 to 900."""
BASE_STEPS, STEPS = 2_500, 10_000
"""Instructions a thread on average, for the baseline and for a mutant: endless mutants are common, and no launch here
needs as many. A launch on which the baseline does is left out."""
ALL_STEPS, SLOWER = 2_000_000, 6
"""And those of all threads together; so many times fewer at random, where launches are many, and where the executor is
slow: its f64 fma is exact."""
ITSELF = "itself"
"""The rewrite that changes nothing, so that mutants are changes of the baseline."""


@dataclass(frozen=True, slots=True)
class Judged:
    """``change`` is the first line that the mutant has and the right rewrite has not."""

    kind: str
    outcome: Outcome
    change: str
    why: str
    digest: str


def right(kernel: str, rewrite: str, unroll: int) -> str:
    return base(kernel) if rewrite == ITSELF else candidate(rewrite, unroll)


def judge(
    name: str, rewrite: str, unroll: int, seed: int, first: int, last: int, kinds: frozenset[str] | None = None
) -> Iterator[Judged]:
    """Mutants number ``first`` to ``last - 1`` of a right rewrite (of those of some ``kinds`` only)."""
    text = right(name, rewrite, unroll)
    known = {" ".join(line.split()) for line in text.split("\n")}
    stream = mutants(base(name), text, seed, pairs=kinds is None)
    found = ((k, m) for k, m in stream if kinds is None or k in kinds)
    for kind, mutant in islice(found, first, last):
        change = next((line for line in mutant.split("\n") if line not in known), "(lines moved, twice, or gone)")
        outcome, why = _outcome(name, mutant, seed)
        yield Judged(kind, outcome, change, why[:200], hashlib.sha256(mutant.encode()).hexdigest()[:10])


def _outcome(name: str, mutant: str, seed: int) -> tuple[Outcome, str]:
    try:
        told_apart = executed(name, mutant, seed, FEW)
    except HybridccError as error:
        return "invalid", str(error)
    proof = proving.run(task(name, mutant))
    proved = isinstance(proof, Proved)
    aside = isinstance(proof, Proved) and NAN_PAYLOADS in proof.aside
    if told_apart is not None and aside:
        told_apart = executed(name, mutant, seed, FEW, payloads_aside=True)
    most = MANY // 2 if proved else FEW
    if told_apart is None:
        told_apart = executed(name, mutant, seed, most, at_random=True, payloads_aside=aside)
    if told_apart is None:
        told_apart = executed(name, mutant, seed, most, payloads_aside=aside)
    if told_apart is not None:
        return ("WRONG" if proved else "refuted"), told_apart
    return ("proved", "") if proved else ("unknown", getattr(proof, "reason", ""))


def task(name: str, mutant: str | None) -> proving.Task:
    """A baseline and a mutant; without one, the baseline and itself."""
    kernel = _kernel(name)
    return proving.Task(kernel.ptx, mutant or kernel.ptx, name, kernel.facts, (1,), QUERIES)


def executed(
    name: str, mutant: str, seed: int, most: int, *, at_random: bool = False, payloads_aside: bool = False
) -> str | None:
    """What tells the mutant apart on at most so many launches, else None. Raises HybridccError for what is no PTX."""
    reference, counted = _reference(name, seed, at_random)
    counted.difference = None
    verdict = examine(reference, mutant, most=most, payloads_aside=payloads_aside).verdict
    return verdict.counterexample if isinstance(verdict, Refuted) else counted.difference


def at_random(name: str, seed: int, *, mlir: bool = False) -> Reference:
    """The baseline's side of comparisons on random launches: numba-cuda's baseline, or numba-cuda-mlir's."""
    return _reference(name, seed, True, mlir)[0]


@lru_cache(maxsize=32)
def _kernel(name: str, mlir: bool = False) -> Kernel:
    return kernel_mlir(name) if mlir else source_kernel(name)


@lru_cache(maxsize=64)
def _reference(name: str, seed: int, at_random: bool, mlir: bool = False) -> tuple[Reference, _Counted]:
    kernel = _kernel(name, mlir)
    counted = _Counted(kernel.ptx, at_random=at_random)
    if at_random:
        launches = random_launches(kernel, examples(name), seed=seed, execute=execute)
        return reference_for(kernel, launches, execute=counted), counted
    return reference_for(kernel, examples=examples(name), seed=seed, execute=counted), counted


# --- barriers -------------------------------------------------------------------------------------------


class _Counted:
    """The executor, keeping how often each barrier was passed, so that a mutant is judged by its barriers too."""

    def __init__(self, ptx: str, *, at_random: bool) -> None:
        self.base = ptx
        self.affordable = ALL_STEPS // (SLOWER if "fma.rn.f64" in self.base else 1) // (SLOWER if at_random else 1)
        self.baseline: dict[Any, Counter[str]] = {}
        self.difference: str | None = None
        """What the last mutant did otherwise."""

    def __call__(self, ptx: str, entry: str, grid: Any, block: Any, args: Any, **options: Any) -> Any:
        threads = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]
        most = min(threads * BASE_STEPS, self.affordable)
        most = most if ptx == self.base else most * STEPS // BASE_STEPS
        options["step_limit"] = min(most, options.get("step_limit", most))
        if not barriers(self.base, entry):
            return execute(ptx, entry, grid, block, args, **options)
        key = (grid, block, tuple(x.tobytes() for x in args))
        result = execute(ptx, entry, grid, block, args, **options)
        passed: Counter[str] = Counter()
        for number, text in barriers(ptx, entry):
            passed[text] += result.counts_by_index[number]
        if ptx == self.base:
            self.baseline[key] = passed
        elif passed != self.baseline[key]:
            self.difference = f"barriers {dict(passed)} for {dict(self.baseline[key])} on grid {grid}, block {block}"
        return result


@lru_cache(maxsize=64)
def barriers(ptx: str, entry: str) -> tuple[tuple[int, str], ...]:
    """(block, text) of every barrier, in order."""
    if not re.search(r"\bbar(?:rier)?\.", ptx):
        return ()
    module = parse(ptx, entry)
    graph = cfg.build(next(f for f in module.entries if f.name == entry), module)
    return tuple(
        (block.index, " ".join(print_statement(instruction).split()))
        for block in graph.blocks
        for instruction in graph.instructions(block.index)
        if instruction.opcode in ("bar", "barrier")
    )
