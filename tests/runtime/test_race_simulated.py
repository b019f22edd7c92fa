"""The whole race, parent and child processes, on a simulated GPU: who is thrown out, and what is said of the rest."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from hybridcc.passes.kernel import Argument, ArrayType, Field
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import race_children, race_job
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import COMPARED, Contender, race
from hybridcc.runtime.race_children import Children
from hybridcc.runtime.race_roofline import Work
from hybridcc.runtime.race_statistics import CONTROL, LEAST_ROUNDS, paired
from tests.simulated.gpu import NOISE
from tests.simulated.worker import COMMAND

SIZE = 256
DEVICE = Device(0, "Simulated GPU", "sm_90", "13.0", 132, 1 << 32, 1 << 20, "ab" * 16)


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setattr(race_children, "WORKER", COMMAND)
    monkeypatch.setenv(NOISE, json.dumps({"sigma": 0.001}))


def code(us=20.0, **what):
    return json.dumps({"kernel": "double", "us": us, "size": SIZE, "grid": 4, **what}).encode()


def contender(name, us=20.0, **what):
    return Contender(name, code(us, **what), "k")


@pytest.fixture(scope="module")
def pool():
    with Children() as children:
        yield children


def arguments():
    """Two bare pointers, as a PTX file's."""
    return [Argument(name, ArrayType("float32", 1), (Field("data", ".u64"),)) for name in "xy"]


def run(*variants, baseline=None, **options):
    values = (np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32))
    launch = Launch((4, 1, 1), (64, 1, 1), values)
    options = {"budget_s": 0.5, **options}
    return race(baseline or contender("baseline"), variants, arguments(), launch, DEVICE, **options)


def test_faster_slower_and_the_same():
    raced = run(contender("fast", 10.0), contender("slow", 21.0), contender("equal", 20.0), budget_s=2.0)
    assert not raced.void
    assert {name: m.kind for name, m in raced.measurements.items()} == {
        "fast": "faster", "slow": "slower", "equal": "same",
    }  # fmt: skip
    assert all(count >= COMPARED for count in raced.compared.values())
    assert {sample.process for sample in raced.samples} == {1, 2}
    assert min(s.event_us for s in raced.samples) >= 1000


@pytest.mark.parametrize(
    "does",
    [
        *("writes out of bounds", "faults", "reads uninitialised shared memory", "skips repeated pointers"),
        *("is right for ten calls", "does nothing", "is wrong elsewhere"),
    ],
)
def test_a_variant_that_misbehaves_is_out_and_the_others_are_raced(does):
    raced = run(contender("bad", does=does), contender("good"))
    assert not raced.void, raced.void
    assert [d.contender for d in raced.deviations] == ["bad"], raced.deviations
    assert set(raced.measurements) == {"good"}


def test_one_that_is_free_to_differ_races_on_and_its_difference_is_told():
    other = replace(contender("other", 10.0, does="is right for ten calls"), free=True)
    raced = run(other, contender("good"), budget_s=2.0)
    assert not raced.void, raced.void
    assert raced.deviations == ()
    assert raced.measurements["other"].kind == "faster"
    assert "byte 0 of buffer 1 holds" in raced.differences["other"]
    assert set(raced.differences) == {"other"}


def test_one_that_is_free_to_differ_is_out_where_it_leaves_its_buffers():
    raced = run(replace(contender("bad", does="writes out of bounds"), free=True), contender("good"))
    assert [d.contender for d in raced.deviations] == ["bad"], raced.deviations


def test_a_contender_may_have_parameters_of_its_own():
    """Here the same two pointers; and the other way round, where it writes what it should read."""
    values = (np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32))
    launch = Launch((4, 1, 1), (64, 1, 1), values)
    same = replace(contender("same"), parameters=race_job.packed(values, launch))
    turned = replace(contender("turned"), parameters=race_job.packed(values[::-1], launch))
    raced = race(contender("baseline"), [same, turned], arguments(), launch, DEVICE, budget_s=0.5)
    assert [d.contender for d in raced.deviations] == ["turned"], raced.deviations
    assert raced.compared["same"] >= COMPARED


def test_a_variant_that_never_ends_is_killed(monkeypatch):
    monkeypatch.setattr(race_children, "SILENCE_S", 6.0)
    raced = run(contender("bad", does="never ends"), contender("good"))
    assert [d.contender for d in raced.deviations] == ["bad"]
    assert "did not end" in raced.deviations[0].what
    assert set(raced.measurements) == {"good"}


def test_a_baseline_that_is_not_deterministic_voids_the_race():
    raced = run(contender("v"), baseline=contender("baseline", does="is random"))
    assert "not deterministic" in raced.void
    assert raced.next_step


@pytest.mark.parametrize("does", ["faults elsewhere", "leaves its buffers elsewhere"])
def test_a_baseline_that_lives_at_one_launch_shape_is_raced_there(does):
    raced = run(contender("v"), baseline=contender("baseline", does=does))
    assert not raced.void
    assert "v" in raced.measurements
    assert "the baseline itself fails there" in raced.notes["another launch shape"]


def test_the_second_launch_shape_is_named():
    assert run(contender("v")).notes["grid 8x1x1, block 32x1x1"] == ""


@pytest.mark.parametrize("memory", [60_000, 200_000])
def test_arguments_that_do_not_fit_say_so(monkeypatch, memory):
    monkeypatch.setenv("HYBRIDCC_SIMULATED_MEMORY", str(memory))
    raced = run(contender("v"))
    assert raced.void.startswith("memory")
    assert "smaller inputs" in raced.next_step


def twins(optimized, plain):
    return code(**optimized), code(**plain)


def test_minus_o0_that_leaves_other_memory_refutes():
    """As if the assembler had mistaken the variant at -O3."""
    good = Contender("baseline", code(), "k", twins=twins({}, {}))
    bad = Contender("bad", code(), "k", twins=twins({}, {"does": "is wrong elsewhere", "grid": 5}))
    fine = Contender("fine", code(), "k", twins=twins({}, {}))
    raced = run(bad, fine, baseline=good)
    assert [d.contender for d in raced.deviations] == ["bad"]
    assert "-O0" in raced.deviations[0].what
    assert raced.notes["-O0 of fine"] == ""


def test_minus_o0_of_a_baseline_that_differs_is_no_evidence():
    odd = Contender("baseline", code(), "k", twins=twins({}, {"does": "is wrong elsewhere", "grid": 5}))
    raced = run(Contender("v", code(), "k", twins=twins({}, {})), baseline=odd)
    assert not raced.deviations
    assert "other memory" in raced.notes["-O0 of baseline"]


def test_minus_o0_that_cannot_be_launched_is_not_compared():
    raced = run(
        Contender("v", code(), "k", twins=twins({}, {"most_threads": 32})),
        baseline=Contender("baseline", code(), "k", twins=twins({}, {})),
    )
    assert not raced.deviations
    assert "LAUNCH_OUT_OF_RESOURCES" in raced.notes["-O0 of v"]


def test_guard_hits_are_told():
    raced = run(Contender("v", code(), "k", counted=code(does="counts", counts=[250, 6])))
    assert raced.guards == {"v": ((250, 6),)}


def test_one_process_takes_many_jobs_and_leaves_nothing_behind(pool):
    pids = set()
    for _ in range(3):
        raced = run(contender("v"), children=pool)
        assert raced.measurements["v"].kind in ("same", "inconclusive")
        pids.add(tuple(id(child) for child in pool._idle.values()))
    assert len(pids) == 1
    run(contender("bad", does="does nothing"), children=pool)
    assert tuple(id(child) for child in pool._idle.values()) not in pids


def test_what_a_load_happens_to_have_is_drawn_anew_in_each_round(monkeypatch):
    """Code that is 2 % (sigma) faster or slower wherever it comes to lie, as kernels of 2 us on an H200."""
    monkeypatch.setenv(NOISE, json.dumps({"sigma": 0.0001, "instance": 0.02}))
    raced = run(contender("v", 5.0), baseline=contender("baseline", 5.0), budget_s=0.6)
    assert raced.measurements["v"].kind in ("same", "inconclusive")
    assert raced.control is not None
    assert raced.control.rounds >= 2 * LEAST_ROUNDS
    for units in paired(raced.samples, CONTROL).units.values():
        assert np.std(units) > 0.008
    times: dict[tuple, list[float]] = {}
    for s in raced.samples:
        times.setdefault((s.process, s.round, s.contender), []).append(s.launch_us)
    assert all(max(each) < 1.001 * min(each) for each in times.values())


def test_short_budgets_say_what_to_do():
    raced = run(contender("v"), budget_s=0.01)
    assert "too few rounds" in raced.void
    assert raced.next_step


def test_under_mps_nothing_is_raced(monkeypatch):
    monkeypatch.setenv("HYBRIDCC_SIMULATED_MPS", "1")
    raced = run(contender("v"))
    assert "MPS" in raced.void
    assert "nvidia-cuda-mps-control" in raced.next_step


def test_a_time_that_the_gpu_cannot_reach_is_no_measurement():
    """Memory of this GPU moves 4.8 TB/s: 1 GB takes 208 us."""
    raced = run(contender("v"), baseline=contender("baseline", 300.0), work=Work(bytes=10**9))
    assert raced.measurements["v"].kind == "inconclusive"
    assert "GB/s" in raced.measurements["v"].reason
    assert "GB/s" in run(contender("v"), work=Work(bytes=10**9)).void


def test_a_guard_that_never_holds_makes_the_race_void():
    raced = run(Contender("v", code(10.0), "k", counted=code(does="counts", counts=[0, 256])))
    assert raced.measurements["v"].kind == "inconclusive"
    assert "no guard held" in raced.measurements["v"].reason
