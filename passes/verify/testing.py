"""Baseline against candidate on the executor, bit for bit over all memory, launch by launch.

What a launch can show: a difference, or a fault of the candidate where the baseline has none, refutes the
candidate. A launch on which the baseline itself faults (sizes outside the kernel's own contract) says nothing: it
is skipped and counted, and so is one on which the baseline differs from itself. A launch that does not execute
every rewritten block is run, and is no evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridcc.errors import ExecutionError
from hybridcc.passes.kernel import Argument, Kernel
from hybridcc.passes.verdict import Refuted, Tested, Unknown, Verdict
from hybridcc.passes.verify.difference import first_difference, without_payloads
from hybridcc.passes.verify.launch import Launch, describe
from hybridcc.passes.verify.once import Outcome, run
from hybridcc.passes.verify.reference import Known, Origin, Reference, reference_for

MOST_LAUNCHES = 128
PATIENCE = 64
LEAST_STEPS = 50_000
"""A candidate that takes PATIENCE times the baseline's instructions, and LEAST_STEPS more for each thread, hangs."""
SELF_CHECKS = 3
"""On the first so many launches, and on every one that seems to refute, the baseline must agree with itself under
another order of warps."""


@dataclass(frozen=True, slots=True)
class Examination:
    """A verdict with what it rests on.

    ``launches`` were run on both sides; ``skipped`` counts those on which the baseline itself faulted, by reason;
    ``families`` holds (family, launches, of which exercised); ``origin`` says where the launches came from.
    """

    verdict: Verdict
    launches: int
    skipped: tuple[tuple[str, int], ...]
    families: tuple[tuple[str, int, int], ...]
    origin: Origin
    plans: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    counterexample: Launch | None = None
    """The launch that refuted, with its values as they were before it."""
    arguments: tuple[Argument, ...] = ()
    """The kernel's, as the launches give them."""


@dataclass(slots=True)
class _Tally:
    launches: int = 0
    exercised: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    """Launches that executed each rewritten block."""
    notes: set[str] = field(default_factory=set)


def test(kernel: Kernel, candidate: str, launches: Iterable[Launch] | None = None, **options: Any) -> Verdict:  # noqa: PT028
    """The verdict alone. ``options`` are those of ``reference_for`` (examples, seed, execute) and of ``examine``."""
    made = {name: options.pop(name) for name in ("examples", "seed", "execute") if name in options}
    return examine(reference_for(kernel, launches, **made), candidate, **options).verdict


test.__test__ = False  # type: ignore[attr-defined]  # pytest collects by name


def examine(
    reference: Reference,
    candidate: str,
    *,
    rewritten: Sequence[str] = (),
    most: int = MOST_LAUNCHES,
    progress: Callable[[int, int], None] | None = None,
    payloads_aside: bool = False,
) -> Examination:
    """Compare ``candidate`` (PTX text) with the reference's kernel on at most ``most`` of its launches.

    ``rewritten`` names the blocks of the candidate that must run for a launch to count; ``progress`` is called with
    (launches done, most). ``payloads_aside`` takes words of memory for the same that are f32 NaNs on both sides, which
    says something only together with a proof in that sense. Deterministic for a reference's seed. Raises nothing for
    what kernels do: faults are outcomes.
    """
    tally = _Tally()
    verdict: Verdict | None = None
    launch: Launch | None = None
    for number, known in enumerate(reference.take(most)):
        launch = known.launch
        verdict = _compare(reference, known, candidate, rewritten, tally, payloads_aside)
        if progress:
            progress(number + 1, most)
        if verdict is not None:
            break
    return Examination(
        verdict or _conclusion(tally, rewritten),
        tally.launches,
        tuple(sorted(tally.skipped.items())),
        tuple((f, n, tally.hits[f]) for f, n in sorted(tally.families.items())),
        reference.origin,
        reference.plans,
        tuple(sorted(tally.notes)),
        launch if isinstance(verdict, Refuted) else None,
        reference.kernel.arguments,
    )


def _compare(
    reference: Reference,
    known: Known,
    candidate: str,
    rewritten: Sequence[str],
    tally: _Tally,
    payloads_aside: bool,
) -> Verdict | None:
    """A verdict that ends the comparison, or None after counting the launch."""
    kernel, launch, baseline = reference.kernel, known.launch, known.outcome
    if baseline.fault:
        if baseline.fault.reason == "UNSUPPORTED":
            return Unknown(f"the executor cannot run the baseline: {baseline.fault.what}")
        tally.skipped[baseline.fault.reason] += 1
        return None
    steps = PATIENCE * baseline.instructions + LEAST_STEPS * max(1, launch.threads)
    outcome = run(kernel, candidate, launch, reference.execute, steps=steps)
    verdict = _judge(kernel, launch, baseline, outcome, payloads_aside)
    if (verdict is not None or tally.launches < SELF_CHECKS) and not reference.repeats(known):
        tally.skipped["NOT_DETERMINISTIC"] += 1
        return None
    if verdict is not None:
        return verdict
    tally.launches += 1
    tally.families[launch.family] += 1
    tally.notes.update(baseline.notes, outcome.notes)
    ran = [label for label in rewritten if outcome.executed((label,))]
    tally.runs.update(ran)
    if len(ran) == len(rewritten):
        tally.exercised += 1
        tally.hits[launch.family] += 1
    return None


def _judge(kernel: Kernel, launch: Launch, baseline: Outcome, outcome: Outcome, payloads_aside: bool) -> Verdict | None:
    if outcome.fault:
        if outcome.fault.reason == "UNSUPPORTED":
            return Unknown(f"the executor cannot run the candidate: {outcome.fault.what}")
        return Refuted(f"{_fault(outcome.fault)}; the baseline has no fault on {describe(launch)}", launch.family)
    mine, theirs = baseline.memory, outcome.memory
    if payloads_aside and mine != theirs:
        mine, theirs = without_payloads(mine), without_payloads(theirs)
    if mine != theirs:
        place = first_difference(kernel, launch, mine, theirs)
        return Refuted(f"{place} on {describe(launch)}", launch.family)
    return None


def _fault(error: ExecutionError) -> str:
    where = f" in thread {error.thread} of block {error.block}" if error.thread is not None else ""
    place = f" at {error.where}" if error.where else ""
    return f"the candidate faults with {error.reason}{where}{place} ({error.what})"


def _conclusion(tally: _Tally, rewritten: Sequence[str]) -> Verdict:
    faults = ", ".join(f"{reason} {count}x" for reason, count in sorted(tally.skipped.items()))
    if tally.launches == 0:
        faults = faults or "none made"
        return Unknown(
            f"no launch could be compared; the baseline cannot be relied on ({faults}): give example arguments"
        )
    least = min((tally.runs[label] for label in rewritten), default=tally.launches)
    if least == 0:
        never = ", ".join(label for label in rewritten if not tally.runs[label])
        also = f"; on others the baseline itself faults ({faults})" if faults else ""
        return Unknown(f"not exercised: no launch executed the rewritten {never}{also}")
    families = tuple(sorted(tally.hits or tally.families))
    return Tested(tally.launches, tally.exercised, families, least)
