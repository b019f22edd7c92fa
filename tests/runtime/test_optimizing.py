"""``optimize`` from call to switch on a GPU that does not exist: what is kept, what is raced again, what is checked.

Everything runs but the driver (fake_driver.py) and the race, which stands in with times by variant.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hybridcc
from hybridcc import asking, decisions, judging, optimizing, pipeline, tuning
from hybridcc.passes.verdict import Unknown
from hybridcc.passes.verify.proving import IRREPRODUCIBLE
from hybridcc.records import BASELINE, Selection, Speed
from hybridcc.runtime import device, sass, store
from hybridcc.runtime.race import Deviation, Race
from hybridcc.runtime.race_statistics import Measurement
from tests.runtime import fake_driver
from tests.runtime.fake_driver import H200, RTX4090

pytestmark = pytest.mark.xdist_group("optimizing")

ROOT = Path(__file__).parents[2]
N = 3000


def _example():
    spec = importlib.util.spec_from_file_location("conv1d_example", ROOT / "examples" / "conv1d.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.conv1d


EXAMPLE = _example()


class Races:
    """In the place of the race: ``ratios`` by name of the variant, everything else is the same."""

    def __init__(self):
        self.ratios: dict[str, float] = {}
        self.timed: list[list[str]] = []
        self.checked: list[str] = []
        self.deviates: set[str] = set()
        self.inconclusive: set[str] = set()
        self.void = ""

    def __call__(self, baseline, variants, arguments, launch, device, *, timed=True, **options):
        names = [variant.name for variant in variants]
        if timed:
            self.timed.append([name for name in names if name != "numba"])
        else:
            self.checked += names
        measured = {name: self.measurement(name) for name in names if name not in self.deviates} if timed else {}
        out = tuple(Deviation(name, "byte 0 differs") for name in names if name in self.deviates)
        return Race({} if self.void else measured, None, out, {"l2": "cold"}, (), self.void, "look")

    def measurement(self, name):
        if name in self.inconclusive:
            return Measurement("inconclusive", None, None, 0.99, 8, {}, reason="too noisy", next_step="wait")
        ratio = self.ratios.get(name, 1.0)
        kind = "faster" if ratio > 1 else "slower" if ratio < 1 else "same"
        return Measurement(kind, ratio, (ratio - 0.01, ratio + 0.01), 0.99, 16, {}, 10.0, 10.0 / ratio)


def once(function, key):
    """The function, that computes the same thing only once in all these tests."""
    known = {}

    def remembering(*args, **options):
        found = key(*args)
        if found not in known:
            known[found] = function(*args, **options)
        return known[found]

    return remembering


VERIFY = once(judging._verify, lambda kernel, name, text, rewritten, work: (kernel.ptx, text, work.options.accept))
DISASSEMBLE = once(sass.disassemble, lambda *cubins: tuple(cubin.bytes for cubin in cubins))
REGIONS = once(asking.regions_of, lambda kernel, most=asking.MOST_REGIONS: (kernel.ptx, most))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(judging, "_verify", VERIFY)
    monkeypatch.setattr(sass, "disassemble", DISASSEMBLE)
    for module in (asking, pipeline, optimizing):
        monkeypatch.setattr(module, "regions_of", REGIONS)


@pytest.fixture
def races(monkeypatch):
    standing_in = Races()
    monkeypatch.setattr(tuning, "race", standing_in)
    monkeypatch.setattr(decisions, "race", standing_in)
    return standing_in


@pytest.fixture(autouse=True)
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "cache"))
    yield fake_driver.install(monkeypatch, H200, RTX4090)
    monkeypatch.undo()
    fake_driver.forget()


@pytest.fixture
def kernel():
    """A process's own copy of the example, as after a start of Python."""
    return fresh_kernel()


def fresh_kernel():
    return hybridcc.jit(EXAMPLE.py_func)


def arrays(n=N, taps=31):
    return np.ones(n + taps, np.float32), np.ones(taps, np.float32), np.zeros(n, np.float32)


def optimize(kernel, *args, grid=128, **how):
    how = {"accept": "tested", "examples": lambda: (2, 64, arrays(100)), "answers": 2, **how}
    return kernel[grid, 256].optimize(*(args or arrays()), **how)


def names(*numbers):
    return [f"r0-{number}" for number in numbers]


def test_a_faster_variant_is_switched_to_and_kept(kernel, races, gpu):
    races.ratios = {"r0-1": 5.0, "r0-0": 2.0}
    outcome = optimize(kernel)
    assert (outcome.selection.variant, outcome.from_store) == ("r0-1", False), outcome.text
    (launcher,) = kernel.selected
    assert gpu.libraries[int(launcher.loaded.kernel) - 1][:4] == b"\x7fELF"
    (kept,) = store.decisions()
    assert (kept.kernel, kept.variant, kept.code) == ("conv1d", "r0-1", "FASTER")
    assert kept.cubin == gpu.libraries[int(launcher.loaded.kernel) - 1]
    assert kept.evidence["ratio"] == 5.0
    assert kept.evidence["verdict"] == "tested"
    assert {row.kind for row in store.measurements()} == {"faster"}


def test_another_process_takes_the_decision_and_races_nothing(kernel, races, gpu):
    races.ratios = {"r0-0": 5.0}
    optimize(kernel)
    again = fresh_kernel()
    outcome = optimize(again)
    assert outcome.from_store
    assert outcome.switched
    assert len(again.selected) == 1
    assert len(races.timed) == 1
    assert races.checked == []  # it was raced today, on this driver


def test_a_new_candidate_is_raced_alone(kernel, races):
    races.ratios = {"r0-0": 2.0, "r0-1": 0.5}
    optimize(kernel, answers=2)
    assert races.timed == [names(0, 1)]
    races.ratios = {"r0-2": 3.0}
    outcome = optimize(fresh_kernel(), answers=3)
    assert races.timed[1:] == [names(2)]
    assert outcome.selection.variant == "r0-2"
    speeds = {c.name: c.speed.kind for c in outcome.record.architectures[0].candidates}
    assert speeds == {"r0-0": "faster", "r0-1": "slower", "r0-2": "faster"}
    outcome = optimize(fresh_kernel(), answers=3, reuse=False)
    assert races.timed[2:] == [names(0, 1, 2)]


def test_what_won_before_stays_chosen_when_a_new_one_is_slower(kernel, races, gpu):
    races.ratios = {"r0-0": 2.0}
    optimize(kernel, answers=1)
    races.ratios = {"r0-1": 0.5}
    outcome = optimize(fresh_kernel(), answers=2)
    assert outcome.selection.variant == "r0-0"
    assert outcome.selection.measured


@pytest.mark.parametrize(
    "other", ["device", "shape", "alignment", "arguments", "driver", "policy", "seed", "recording"]
)
def test_whatever_a_decision_rests_on_finds_no_row_when_it_differs(kernel, races, gpu, monkeypatch, tmp_path, other):
    races.ratios = {"r0-0": 5.0}
    optimize(kernel, answers=1)
    how, args, grid = {}, arrays(), 128
    match other:
        case "device":
            gpu.ordinal = 1
        case "shape":
            grid = 4096
        case "alignment":
            args = (*args[:2], args[2][1:])  # also another common factor
        case "arguments":
            args = arrays(taps=400)
        case "driver":
            monkeypatch.setattr("cuda.bindings.driver.cuDriverGetVersion", lambda: (fake_driver.OK, 13010))
            fake_driver.forget()
        case "policy":
            how = {"select": "proved"}
        case "seed":
            how = {"seed": 7}
        case "recording":
            lines = (ROOT / "examples" / "conv1d.answers.jsonl").read_text()
            (tmp_path / "conv1d.answers.jsonl").write_text(lines + "\n")
            how = {"rewriter": f"replay:{tmp_path / 'conv1d.answers.jsonl'}"}
    outcome = optimize(fresh_kernel(), *args, grid=grid, answers=1, **how)
    assert not outcome.from_store
    assert len(store.decisions()) == 2
    same_situation = other in ("policy", "seed", "recording")
    assert len(races.timed) == (1 if same_situation else 2)


def test_shapes_of_one_class_share_a_decision(kernel, races):
    races.ratios = {"r0-0": 5.0}
    optimize(kernel, *arrays(3008), answers=1)
    assert optimize(fresh_kernel(), *arrays(3200), grid=130, answers=1).from_store


def test_each_device_of_a_process_has_its_own_decision(kernel, races, gpu):
    races.ratios = {"r0-0": 5.0}
    optimize(kernel, answers=1)
    gpu.ordinal = 1
    races.ratios = {}
    outcome = optimize(kernel, answers=1)
    assert outcome.selection.code == "NOT_FASTER"
    assert [each.ordinal for each in kernel.selected] == [0]
    races.ratios = {"r0-1": 3.0}
    optimize(kernel, answers=2)
    assert [each.ordinal for each in kernel.selected] == [1, 0]


# --- what lasts ---


def test_an_inconclusive_race_is_not_kept_and_raced_again(kernel, races):
    races.inconclusive = {"r0-0", "r0-1"}
    assert optimize(kernel).selection.code == "INCONCLUSIVE"
    assert store.decisions() == ()
    races.inconclusive, races.ratios = {"r0-1"}, {"r0-0": 0.5}
    optimize(kernel)
    assert store.decisions() == ()  # the other one might be faster
    assert [row.kind for row in store.measurements()] == ["slower"]
    races.inconclusive = set()
    optimize(kernel)
    assert [row.code for row in store.decisions()] == ["NOT_FASTER"]
    assert races.timed == [names(0, 1), names(0, 1), names(1)]


def test_a_void_race_keeps_nothing(kernel, races):
    races.void = "the baseline is not deterministic"
    assert not optimize(kernel).switched
    assert store.decisions() == ()
    assert store.measurements() == ()


def test_what_the_device_refuted_is_remembered(kernel, races):
    races.deviates = {"r0-0"}
    optimize(kernel)
    races.deviates = set()
    outcome = optimize(fresh_kernel(), answers=3)
    assert races.timed == [names(0, 1), names(2)]
    fates = {c.name: c.fate.code for c in outcome.record.architectures[0].candidates}
    assert fates["r0-0"] == "REFUTED_ON_DEVICE"


def test_a_proof_that_ran_out_of_time_is_tried_again(kernel, races):
    """A baseline that was selected only because a proof took too long is no decision; a variant that won is one."""
    outcome = optimize(kernel)
    (architecture,) = outcome.record.architectures
    first, *rest = architecture.candidates
    timeout = f"{IRREPRODUCIBLE}: 60 s of wall clock"
    cases = [
        replace(first.evidence, notes=(f"not proved: {timeout}",)),
        replace(first.evidence, verdict=Unknown(timeout)),
    ]
    baseline = Selection(BASELINE, "NOT_FASTER", "", measured=True)
    assert decisions.lasts(baseline, architecture)
    for evidence in cases:
        late = replace(architecture, candidates=(replace(first, evidence=evidence), *rest))
        assert not decisions.lasts(baseline, late)
        assert decisions.lasts(Selection("r0-1", "FASTER", "", measured=True), late)
    noisy = replace(first, speed=Speed("inconclusive", "noise"))
    assert not decisions.lasts(baseline, replace(architecture, candidates=(noisy, *rest)))


# --- a kept variant, later ---


def backdate(day="2020-01-01", driver=None):
    (kept,) = store.decisions()
    store.mark_checked(kept.key, day, kept.checked_driver if driver is None else driver)
    return kept.key


@pytest.mark.parametrize("change", [{"day": "2020-01-01"}, {"day": decisions.today(), "driver": "1.0"}])
def test_on_another_day_or_driver_it_is_compared_before_it_runs_and_once(kernel, races, change):
    races.ratios = {"r0-0": 5.0}
    optimize(kernel, answers=1)
    backdate(**change)
    assert optimize(fresh_kernel(), answers=1).from_store
    assert races.checked == names(0)
    assert optimize(fresh_kernel(), answers=1).from_store
    assert races.checked == names(0)


def test_one_that_differs_now_is_forgotten_and_tuned_afresh(kernel, races, caplog):
    races.ratios = {"r0-0": 5.0, "r0-1": 2.0}
    optimize(kernel)
    backdate()
    races.deviates = {"r0-0"}
    again = fresh_kernel()
    outcome = optimize(again)
    assert "a kept variant is dropped: byte 0 differs" in caplog.text
    assert not outcome.from_store
    assert races.timed[1:] == [names(0, 1)]
    assert outcome.selection.variant == "r0-1"


def test_one_that_cannot_be_checked_does_not_run(kernel, races):
    races.ratios = {"r0-0": 5.0}
    optimize(kernel, answers=1)
    key = backdate()
    races.void = "no memory"
    again = fresh_kernel()
    outcome = optimize(again, answers=1)
    assert outcome.selection.variant == "r0-0"  # measured before, and the store's measurement holds
    assert [row.key for row in store.decisions()] == [key]


def test_a_store_that_cannot_be_used_costs_only_the_memory(kernel, races, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "file" / "below"))
    races.ratios = {"r0-0": 5.0}
    outcome = optimize(kernel, answers=1)
    assert outcome.switched
    assert {f.stage for f in outcome.failures if f.code == "OUTPUT"} == {"store"}


# --- what cannot be optimized ---


def test_not_while_a_graph_is_captured(kernel, races, gpu):
    from hybridcc.errors import DeviceError

    gpu.capturing = True
    with pytest.raises(DeviceError, match="while a CUDA graph is captured"):
        optimize(kernel)


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((8, 0), "sm_80"), ((8, 6), "sm_86"), ((8, 7), "sm_86"), ((8, 9), "sm_89"), ((9, 0), "sm_90")],
)
def test_what_a_device_has_compiled(gpu, capability, arch):
    gpu.devices = (("a GPU", capability),)
    fake_driver.forget()
    assert optimizing.arch_for(device.current()) == arch


def test_the_whole_path_is_for_that_architecture(kernel, races, gpu):
    gpu.devices = (("a GPU", (8, 7)),)
    fake_driver.forget()
    outcome = optimize(kernel, answers=1)
    assert [a.arch for a in outcome.record.architectures] == ["sm_86"]


@pytest.mark.parametrize("capability", [(7, 5), (10, 0)])
def test_a_device_of_no_known_architecture_gets_the_baseline_and_is_told_why(kernel, races, gpu, capability):
    gpu.devices = (("a GPU", capability),)
    fake_driver.forget()
    outcome = optimize(kernel)
    assert outcome.selection.code == "UNKNOWN_ARCH"
    assert "known are sm_80" in outcome.text
