"""From raw samples to a verdict on speed: no GPU, no clock, nothing but numbers.

What is estimated is log(baseline time / variant time). An ABBA block gives one such number: its two members swap places
within it, so a clock that drifts steadily cancels; blocks come in shuffled order, so what drifts otherwise hits all
pairs alike. Blocks of one round share the code and the graphs that were loaded for it, and where the driver puts those
can be worth more than what is to be found (3 % at 2 us), so blocks are no independent evidence: the unit is the round,
and counts with the median of its blocks.

The interval is the distribution-free one for the median over the rounds of all processes, by order statistics (David &
Nagaraja, Order Statistics, 7.1): exact for any number of rounds, and needing no shape, where a bootstrap of a few dozen
rounds, clustered or not, covers too little and a t interval trusts tails that timings do not have. Variants share one
error rate by Bonferroni.

The baseline raced against itself (the A/A control) gives the noise floor: what this machine shows where nothing
differs. A difference counts only beyond it, and only if each process alone shows it too: what is of a process stays
through all its rounds, and one process may have most of the rounds that are sound.

The number of rounds is fixed before the first, from the budget. Stopping as soon as the interval excludes "same" would
make its error rate a multiple of what it says; a rule that allows for it (a split error rate, or a confidence
sequence) gives wider intervals at the same number of rounds, to save a second or two of a race that takes few.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

CONTROL = "control"
"""The baseline's own bytes, loaded a second time."""

ERROR_RATE = 0.01
"""Of a race, all its variants together: the chance that noise without a pattern makes one ``faster`` or ``slower``."""

MARGIN = 0.005
"""Relative: less than this is called the same, however precisely it was measured."""

LEAST_ROUNDS = 6
"""Of each of the processes. Two make 12, and eight would do for an interval at 99 %."""

MOST_ROUNDS = 100

MOST_BLOCKS = 4
"""Of each pair in a round."""

CHECKS_DURING = 4
"""Blocks of each process that are followed by a comparison of memory."""

CLOCK_SHARE, CLOCK_US = 0.05, 20.0
"""CUDA events and the host's clock must agree on a batch within this share plus so many microseconds."""

SpeedKind: TypeAlias = Literal["faster", "slower", "same", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed batch. ``event_us`` is the batch by CUDA events, ``span_us`` and ``host_us`` the batch with its
    warm-up by events and by the host's clock, ``enqueue_us`` how long the host took to queue it all, ``lead_us`` how
    long the GPU was busy before the timed part began. ``sm_mhz`` is 0 where it cannot be read. ``block`` and ``round``
    count within ``process``."""

    contender: str
    pair: str
    block: int
    launches: int
    event_us: float
    span_us: float
    host_us: float
    enqueue_us: float
    lead_us: float
    sm_mhz: int = 0
    throttled: bool = False
    process: int = 0
    round: int = 0

    @property
    def launch_us(self) -> float:
        return self.event_us / self.launches

    @property
    def fault(self) -> str:
        """Why it says nothing about the kernel; empty if it does."""
        if self.throttled:
            return "throttled"
        if abs(self.host_us - self.span_us) > CLOCK_SHARE * self.span_us + CLOCK_US:
            return "clocks disagree"
        if self.enqueue_us > self.lead_us:
            return "the GPU waited for the host"
        if not self.event_us > 0:
            return "no time passed"
        return ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """``ratio`` is baseline time over variant time with its interval at ``confidence``; None if nothing is known."""

    kind: SpeedKind
    ratio: float | None
    interval: tuple[float, float] | None
    confidence: float
    blocks: int
    discarded: Mapping[str, int]
    baseline_us: float | None = None
    variant_us: float | None = None
    reason: str = ""
    next_step: str = ""
    rounds: int = 0
    """Of all processes, each with one sound block or more: what the interval rests on."""


def schedule(pairs: Sequence[str], blocks: int, seed: int) -> Iterator[tuple[int, str, tuple[bool, bool, bool, bool]]]:
    """(block, pair, order): every pair once per block, in shuffled order; ``order`` says for each of the four places
    whether the variant is there: BVVB or VBBV."""
    chance = random.Random(seed)
    for block in range(blocks):
        shuffled = list(pairs)
        chance.shuffle(shuffled)
        for pair in shuffled:
            first = chance.random() < 0.5
            yield block, pair, (first, not first, not first, first)


def rounds_for(budget_s: float, load_s: float, block_s: float) -> tuple[int, int]:
    """(rounds, blocks of each pair in a round) that a budget affords where loading all contenders anew takes ``load_s``
    and a block of all pairs ``block_s``; (0, 0) if it affords fewer than a verdict needs.

    Decided before the first is run: looking at results to decide when to stop would make the interval too short. Where
    loading is slow, a round has so many blocks that most of its time is measuring, as long as LEAST_ROUNDS remain.
    """
    wanted = math.ceil(load_s / block_s) if block_s > 0 else 1
    for blocks in range(min(max(1, wanted), MOST_BLOCKS), 0, -1):
        round_s = load_s + blocks * block_s
        affordable = int(min(MOST_ROUNDS, budget_s / round_s)) if round_s > 0 else MOST_ROUNDS
        if affordable >= LEAST_ROUNDS:
            return affordable, blocks
    return 0, 0


def measure(samples: Sequence[Sample], variants: Sequence[str]) -> tuple[Measurement, Mapping[str, Measurement]]:
    """(the A/A control, what each variant came to)."""
    confidence = 1 - ERROR_RATE / max(1, len(variants))
    same = paired(samples, CONTROL)
    control = _estimate(same, CONTROL, confidence)
    floor = _floor(control, same)
    found = {name: paired(samples, name) for name in variants}
    return control, {name: _judge(_estimate(each, name, confidence), each, floor) for name, each in found.items()}


def noise_floor(samples: Sequence[Sample], control: Measurement) -> float | None:
    """Relative: the largest difference that the control leaves possible where there is none."""
    floor = _floor(control, paired(samples, CONTROL))
    return None if floor is None else math.expm1(floor)


def _floor(control: Measurement, found: Paired) -> float | None:
    """The farther bound of the control's interval, or the median of one process if that is farther still."""
    if control.interval is None:
        return None
    return max(*(abs(math.log(bound)) for bound in control.interval), *map(abs, _medians(found)))


def _medians(found: Paired) -> list[float]:
    """Of each process: what a process happens to have, an address layout or a clock state, shows in all its rounds."""
    return [statistics.median(units) for units in found.units.values()]


@dataclass(frozen=True, slots=True)
class Paired:
    """One pair's blocks: ``logs`` holds log(baseline time / variant time) of each sound block, by process and round;
    ``samples`` are those of sound blocks, ``discarded`` counts the others by reason."""

    logs: Mapping[tuple[int, int], Sequence[float]]
    samples: Sequence[Sample]
    discarded: Mapping[str, int]

    @property
    def units(self) -> dict[int, list[float]]:
        """By process: the median of each round."""
        found: dict[int, list[float]] = {}
        for (process, _), logs in self.logs.items():
            found.setdefault(process, []).append(statistics.median(logs))
        return found


def paired(samples: Sequence[Sample], pair: str) -> Paired:
    blocks: dict[tuple[int, int, int], list[Sample]] = {}
    for sample in samples:
        if sample.pair == pair:
            blocks.setdefault((sample.process, sample.round, sample.block), []).append(sample)
    logs: dict[tuple[int, int], list[float]] = {}
    kept: list[Sample] = []
    discarded: dict[str, int] = {}
    for (process, of_round, _), block in blocks.items():
        fault = next((sample.fault for sample in block if sample.fault), "" if len(block) == 4 else "cut short")
        if fault:
            discarded[fault] = discarded.get(fault, 0) + 1
            continue
        kept += block
        log = math.log(_mean(block, pair, False) / _mean(block, pair, True))
        logs.setdefault((process, of_round), []).append(log)
    return Paired(logs, kept, discarded)


def _estimate(found: Paired, pair: str, confidence: float) -> Measurement:
    units = [value for of_process in found.units.values() for value in of_process]
    if not units:
        reason = _discard_reason(found.discarded) or "nothing was timed"
        return Measurement("inconclusive", None, None, confidence, 0, found.discarded, reason=reason, next_step=_ADVICE)
    bounds = median_interval(units, confidence)
    return Measurement(
        kind="inconclusive",
        ratio=math.exp(statistics.median(units)),
        interval=None if bounds is None else (math.exp(bounds[0]), math.exp(bounds[1])),
        confidence=confidence,
        blocks=sum(map(len, found.logs.values())),
        discarded=found.discarded,
        baseline_us=statistics.median(s.launch_us for s in found.samples if s.contender != pair),
        variant_us=statistics.median(s.launch_us for s in found.samples if s.contender == pair),
        rounds=len(units),
    )


def median_interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """That holds the median of what ``values`` were drawn from with so much confidence, or a little more; None if they
    are too few. It is that of ``scipy.stats.quantile_test``."""
    rank = _rank(len(values), confidence)
    if rank == 0:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


@cache
def _rank(count: int, confidence: float) -> int:
    """The largest r such that fewer than r of ``count`` fair coins are heads with at most half the error rate; that is
    how often the r-th value is above the median."""
    left, rank = (1 - confidence) / 2 * 2**count, 0
    while (left := left - math.comb(count, rank)) >= 0:
        rank += 1
    return rank


_ADVICE = "race again with a larger budget, on a machine that nothing else uses"


def _judge(measured: Measurement, found: Paired, floor: float | None) -> Measurement:
    def inconclusive(reason: str, next_step: str = _ADVICE) -> Measurement:
        return replace(measured, kind="inconclusive", reason=reason, next_step=next_step)

    if measured.interval is None:
        return inconclusive(measured.reason or f"{measured.rounds} rounds are too few for an interval")
    if floor is None:
        return inconclusive("the control gave no noise floor")
    faulty = sum(measured.discarded.values())
    if faulty > measured.blocks:
        return inconclusive(f"most blocks were discarded: {_discard_reason(measured.discarded)}")
    low, high = (math.log(bound) for bound in measured.interval)
    least = max(floor, MARGIN)
    medians = _medians(found)
    if low > least and min(medians) > least:
        return replace(measured, kind="faster")
    if high < -least and max(medians) < -least:
        return replace(measured, kind="slower")
    if low > least or high < -least:
        each = ", ".join(f"{math.exp(median):.4f}" for median in medians)
        return inconclusive(f"the processes disagree: {each}")
    if -least <= low and high <= least and floor <= 4 * MARGIN:
        return replace(measured, kind="same")
    if floor > 4 * MARGIN:
        return inconclusive(f"this machine's noise floor is {math.expm1(floor):.1%}")
    return inconclusive(f"the interval [{math.exp(low):.4f}, {math.exp(high):.4f}] leaves more than one answer")


def _mean(block: Sequence[Sample], pair: str, variant: bool) -> float:
    return statistics.fmean(s.launch_us for s in block if (s.contender == pair) is variant)


def _discard_reason(discarded: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}x" for reason, count in sorted(discarded.items()))
