"""Verdicts on speed from samples whose truth is known, because they were made."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.runtime.race_statistics import (
    CONTROL,
    LEAST_ROUNDS,
    MOST_BLOCKS,
    MOST_ROUNDS,
    Sample,
    measure,
    median_interval,
    noise_floor,
    rounds_for,
    schedule,
)


def made(true_us, blocks=30, noise=0.002, seed=0, drift=0.0, outliers=0.0, launches=10):
    """Samples of a race, a block in each round: ``true_us`` maps contenders (``baseline`` and the control among them)
    to their time."""
    random = np.random.default_rng(seed)
    samples = []
    pairs = [name for name in true_us if name != "baseline"]
    for number, (block, pair, order) in enumerate(schedule(pairs, blocks, seed)):
        for place, variant in enumerate(order):
            name = pair if variant else "baseline"
            clock = 1 + drift * (4 * number + place) / (4 * blocks * len(pairs))
            time = true_us[name] * clock * math.exp(random.normal(0, noise))
            if random.random() < outliers:
                time *= random.uniform(1.5, 4)
            event = time * launches
            samples.append(Sample(name, pair, block, launches, event, 2 * event, 2 * event + 5, 10, event, round=block))
    return samples


def verdict(samples, name="v"):
    _, found = measure(samples, [name])
    return found[name]


def interval_of(measured):
    assert measured.interval is not None
    return measured.interval


def test_each_block_is_abba_and_each_order_occurs():
    rows = list(schedule(["a", "b", CONTROL], 40, seed=1))
    assert Counter(pair for _, pair, _ in rows) == {"a": 40, "b": 40, CONTROL: 40}
    assert {order for *_, order in rows} == {(True, False, False, True), (False, True, True, False)}
    firsts = [rows[3 * block][1] for block in range(40)]
    assert len(set(firsts)) == 3
    assert list(schedule(["a", "b"], 10, seed=1)) == list(schedule(["a", "b"], 10, seed=1))
    assert list(schedule(["a", "b"], 10, seed=1)) != list(schedule(["a", "b"], 10, seed=2))


@pytest.mark.parametrize(("factor", "kind"), [(0.2, "faster"), (0.98, "faster"), (1.02, "slower"), (3.0, "slower")])
def test_a_difference_beyond_the_noise_is_found(factor, kind):
    for seed in range(10):
        found = verdict(made({"baseline": 100, CONTROL: 100, "v": 100 * factor}, seed=seed))
        assert found.kind == kind
        low, high = interval_of(found)
        assert found.ratio is not None
        assert low <= found.ratio <= high
        assert found.ratio == pytest.approx(1 / factor, rel=0.01)


def test_equal_times_are_the_same_and_never_faster_or_slower():
    kinds = Counter(verdict(made({"baseline": 100, CONTROL: 100, "v": 100}, seed=seed)).kind for seed in range(100))
    assert kinds["faster"] + kinds["slower"] == 0
    assert kinds["same"] > 95


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.14])
def test_noise_makes_doubt_and_not_a_false_winner(noise):
    """The scatter of raw pairs seen on short kernels; blocks of four are as noisy here as single samples there."""
    kinds = Counter(
        verdict(made({"baseline": 7, CONTROL: 7, "v": 7}, noise=noise, seed=seed)).kind for seed in range(100)
    )
    assert kinds["faster"] + kinds["slower"] <= 1


def test_outliers_do_not_decide():
    found = verdict(made({"baseline": 100, CONTROL: 100, "v": 90}, outliers=0.05, seed=3))
    assert found.kind == "faster"
    assert found.ratio == pytest.approx(1 / 0.9, rel=0.02)


def test_a_clock_that_drifts_cancels():
    """A tenth slower by the end: phase-separated timing would call the later one slower."""
    kinds = {
        verdict(made({"baseline": 100, CONTROL: 100, "v": 100}, drift=0.1, noise=0.0005, seed=seed)).kind
        for seed in range(30)
    }
    assert kinds == {"same"}


def test_a_control_that_is_off_raises_the_bar():
    """The baseline against itself shows 4 %: then 3 % of a variant mean nothing."""
    samples = made({"baseline": 100, CONTROL: 96, "v": 97}, noise=0.001)
    control, found = measure(samples, ["v"])
    assert noise_floor(samples, control) == pytest.approx(0.04, abs=0.005)
    assert found["v"].kind == "inconclusive"
    assert "noise floor" in found["v"].reason
    assert verdict(made({"baseline": 100, CONTROL: 96, "v": 50}, noise=0.001)).kind == "faster"


def test_many_variants_share_one_error_rate():
    names = [f"v{i}" for i in range(10)]
    samples = made({"baseline": 100, CONTROL: 100, **dict.fromkeys(names, 100)}, blocks=40)
    _, found = measure(samples, names)
    alone = verdict([s for s in samples if s.pair in ("v0", CONTROL)], "v0")
    assert found["v0"].confidence > alone.confidence
    assert interval_of(found["v0"])[0] <= interval_of(alone)[0]
    assert interval_of(found["v0"])[1] >= interval_of(alone)[1]


def test_the_interval_covers_the_truth_as_often_as_it_says():
    misses = 0
    for seed in range(400):
        found = verdict(made({"baseline": 100, CONTROL: 100, "v": 100}, noise=0.02, blocks=20, seed=seed))
        low, high = interval_of(found)
        misses += not low <= 1 <= high
    assert misses <= 12  # 1 % of 400 is 4; the chance of more than 12 is below 1e-3


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"throttled": True}, "throttled"),
        ({"host_us": 1.0}, "clocks disagree"),
        ({"host_us": 1e6}, "clocks disagree"),
        ({"enqueue_us": 1e5}, "the GPU waited for the host"),
    ],
)
def test_a_bad_sample_takes_its_block_out_and_is_counted(change, fault):
    samples = made({"baseline": 100, CONTROL: 100, "v": 80})
    bad = next(index for index, sample in enumerate(samples) if sample.pair == "v")
    samples[bad] = replace(samples[bad], **change)
    found = verdict(samples)
    assert (found.blocks, dict(found.discarded), found.kind) == (29, {fault: 1}, "faster")


def test_when_most_blocks_are_bad_nothing_is_said():
    samples = [replace(s, throttled=s.block < 20) for s in made({"baseline": 100, CONTROL: 100, "v": 50})]
    found = verdict(samples)
    assert found.kind == "inconclusive"
    assert "throttled 20x" in found.reason
    assert found.next_step


def test_too_few_blocks_make_no_interval():
    found = verdict(made({"baseline": 100, CONTROL: 100, "v": 50}, blocks=5))
    assert (found.kind, found.interval) == ("inconclusive", None)
    assert "5 rounds are too few" in found.reason


def test_nothing_timed_is_inconclusive():
    control, found = measure([], ["v"])
    assert (control.interval, found["v"].kind, found["v"].ratio) == (None, "inconclusive", None)


def test_a_block_cut_short_is_left_out():
    samples = made({"baseline": 100, CONTROL: 100, "v": 80})
    last = max(i for i, s in enumerate(samples) if s.pair == "v")
    found = verdict(samples[:last] + samples[last + 1 :])
    assert dict(found.discarded) == {"cut short": 1}


def test_a_round_counts_once_however_many_blocks_it_has():
    """Blocks of a round share what is to be averaged out: six of them are no more evidence than one."""
    once = made({"baseline": 100, CONTROL: 100, "v": 98}, blocks=12)
    thrice = [replace(s, block=3 * s.block + again) for again in range(3) for s in once]
    few, many = verdict(once), verdict(thrice)
    assert (few.rounds, few.blocks, many.rounds, many.blocks) == (12, 12, 12, 36)
    assert many == replace(few, blocks=36)


@given(
    values=st.lists(st.floats(-1, 1), min_size=1, max_size=80),
    confidence=st.sampled_from([0.9, 0.99, 1 - 0.01 / 3, 0.999]),
)
@settings(max_examples=100, deadline=None)
def test_the_interval_is_scipys(values, confidence):
    from scipy.stats import quantile_test

    low, high = quantile_test(values, q=0, p=0.5).confidence_interval(confidence)
    expected = (low, high) if math.isfinite(low) and math.isfinite(high) else None
    assert median_interval(values, confidence) == expected


@given(budget=st.floats(0, 1e4), load=st.floats(0, 1e3), block=st.floats(1e-6, 1e3))
@settings(max_examples=100, deadline=None)
def test_the_number_of_rounds_is_decided_beforehand_and_within_the_budget(budget, load, block):
    rounds, blocks = rounds_for(budget, load, block)
    assert rounds == 0 or LEAST_ROUNDS <= rounds <= MOST_ROUNDS
    assert blocks <= MOST_BLOCKS
    assert rounds * (load + blocks * block) <= budget * (1 + 1e-9)
    assert rounds or LEAST_ROUNDS * (load + block) > budget * (1 - 1e-9)


def test_rounds_have_more_blocks_where_loading_is_slow():
    """Milliseconds as on an H200 and with slow modules; few rounds rather than none."""
    assert rounds_for(0.5, 0.010, 0.018) == (17, 1)
    assert rounds_for(0.5, 0.030, 0.018) == (7, 2)
    assert rounds_for(0.5, 0.060, 0.018) == (6, 1)
    assert rounds_for(0.5, 0.100, 0.018) == (0, 0)


# --- noise as GPUs make it: the same against itself must stay the same ---


class Clock:
    """The state of a simulated GPU that all contenders share: what a batch takes longer than it should."""

    def __init__(self, random, sigma, *, drift=0.0, modes=0.0, switch=0.0, wander=0.0, outliers=0.0, skewed=0.0):
        self.random, self.sigma = random, sigma
        self.drift, self.modes, self.switch, self.wander = drift, modes, switch, wander
        self.outliers, self.skewed = outliers, skewed
        self.slow, self.walk, self.batches = False, 0.0, 0

    def factor(self):
        self.batches += 1
        self.slow ^= self.random.random() < self.switch
        self.walk += self.random.normal(0, self.wander)
        log = self.random.normal(0, self.sigma) + self.walk + self.drift * self.batches / 1000
        log += self.modes * self.slow + self.random.exponential(self.skewed)
        if self.random.random() < self.outliers:
            log += self.random.uniform(0.3, 1.5)
        return math.exp(log)


NOISES = {
    "white": {},
    "a steady drift": {"drift": 0.1},
    "a random walk": {"wander": 0.002},
    "two clock states, seldom changed": {"modes": 0.05, "switch": 0.01},
    "two clock states, often changed": {"modes": 0.03, "switch": 0.3},
    "outliers": {"outliers": 0.05},
    "a long tail": {"skewed": 0.02},
    "all of it": {"drift": 0.05, "wander": 0.001, "modes": 0.03, "switch": 0.02, "outliers": 0.02, "skewed": 0.005},
}


def simulated_race(seed, noise, ratio=1.0, sigma=0.004, rounds=15, instance=0.0, of_process=0.0):
    """``instance`` is the sigma of a factor that each contender draws in each round, ``of_process`` of one that it
    draws in each of two processes."""
    random = np.random.default_rng(seed)
    samples = []
    names = ("baseline", CONTROL, "v")
    for process in (1, 2):
        clock = Clock(random, sigma, **noise)
        lasting = {name: random.normal(0, of_process) for name in names}
        own: dict[int, dict[str, float]] = {}
        for block, pair, order in schedule(["v", CONTROL], rounds, 2 * seed + process):
            if block not in own:
                own[block] = {name: math.exp(lasting[name] + random.normal(0, instance)) for name in names}
            for variant in order:
                name = pair if variant else "baseline"
                event = 1000 * own[block][name] * clock.factor() / (ratio if name == "v" else 1)
                samples.append(
                    Sample(name, pair, block, 10, event, 2 * event, 2 * event, 10, event, process=process, round=block)
                )
    return verdict(samples)


RACES = 100
FALSE_AT_MOST = 5
"""At a rate of 1 % more than five of a hundred have a chance of 0.05 %; the rate that races keep is far lower."""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sigma", [0.001, 0.02])
def test_no_pattern_of_noise_makes_a_winner(noise, sigma):
    kinds = Counter(simulated_race(seed, NOISES[noise], sigma=sigma).kind for seed in range(RACES))
    assert kinds["faster"] + kinds["slower"] <= FALSE_AT_MOST, kinds


@pytest.mark.parametrize("of_process", [0.001, 0.003, 0.01])
def test_what_one_process_happens_to_have_makes_no_winner(of_process):
    """An address layout that suits one contender in one process: both processes have to agree beyond the control."""
    kinds = Counter(simulated_race(seed, {}, sigma=0.001, of_process=of_process).kind for seed in range(RACES))
    assert kinds["faster"] + kinds["slower"] <= (FALSE_AT_MOST if of_process < 0.01 else RACES * 0.2), kinds


# What an H200 showed: sigma of a block, and of what a load leaves, by kernel (300 races).
SCALE: dict[str, Any] = {"sigma": 0.0024, "instance": 0.021}
MANDELBROT: dict[str, Any] = {"sigma": 0.0033, "instance": 0.0006}
LOOP: dict[str, Any] = {"sigma": 0.0002, "instance": 0.0002}


@pytest.mark.parametrize("instance", [0.0, 0.003, 0.01, 0.03])
def test_where_code_happens_to_lie_makes_no_winner(instance):
    kinds = Counter(simulated_race(seed, {}, sigma=0.0024, instance=instance).kind for seed in range(2 * RACES))
    assert kinds["faster"] + kinds["slower"] <= 1, kinds
    if instance == 0:
        assert kinds["same"] >= 2 * RACES - 2, kinds


def test_the_interval_covers_one_where_code_happens_to_lie():
    found = [interval_of(simulated_race(seed, {}, **SCALE)) for seed in range(2 * RACES)]
    assert sum(not low <= 1 <= high for low, high in found) <= 5  # 1 % of them is one


@pytest.mark.parametrize("kernel", [MANDELBROT, LOOP, {"sigma": 0.0024, "instance": 0.003}])
def test_two_percent_are_found_where_code_matters_little(kernel):
    for ratio, right in ((1.02, "faster"), (1 / 1.02, "slower")):
        kinds = Counter(simulated_race(seed, {}, ratio, **kernel).kind for seed in range(20))
        assert set(kinds) <= {right, "inconclusive"}, kinds
        assert kinds[right] >= 19, kinds


def test_two_percent_are_never_the_other_way_round_where_code_matters_much():
    kinds = Counter(simulated_race(seed, {}, 1.02, **SCALE).kind for seed in range(RACES))
    assert kinds["slower"] == 0, kinds


def test_two_processes_that_disagree_are_inconclusive():
    slow = [s for s in made({"baseline": 100, CONTROL: 100, "v": 90}, blocks=40)]
    quick = [replace(s, process=1) for s in made({"baseline": 100, CONTROL: 100, "v": 100}, blocks=15)]
    found = verdict(slow + quick)
    assert found.kind == "inconclusive"
    assert "processes disagree" in found.reason


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("ratio", "kind"), [(1.02, "faster"), (1 / 1.02, "slower")])
def test_two_percent_are_found_under_any_of_it(noise, ratio, kind):
    """At the noise of batches of a millisecond: never the wrong way round, and found where the noise allows."""
    kinds = Counter(simulated_race(seed, NOISES[noise], ratio, sigma=0.001).kind for seed in range(20))
    assert set(kinds) <= {kind, "inconclusive"}, kinds
    if noise in ("white", "a steady drift", "a random walk", "two clock states, seldom changed", "outliers"):
        assert kinds[kind] >= 19, kinds
