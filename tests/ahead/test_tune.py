"""What a bundle holds, raced: the race itself stands in with times by variant (test_load_gpu.py has a real one)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hybridcc
from hybridcc.cli import app
from hybridcc.runtime import bundle
from hybridcc.runtime.race import Deviation, Race
from hybridcc.runtime.race_statistics import Measurement
from tests.runtime import fake_driver
from tests.runtime.fake_driver import H200

INPUTS = """
import numpy as np
def examples():
    return 1, 32, (np.zeros(32, "f4"), np.zeros(64, "f4"), np.int32(5))
"""
pytestmark = pytest.mark.xdist_group("ahead")


@pytest.fixture
def place(out: Path, tmp_path: Path) -> Path:
    """A bundle with a variant that is proved, and selected unmeasured, and one that was refuted."""
    shutil.copytree(out / "folder" / "sum", tmp_path / "sum")
    (tmp_path / "inputs.py").write_text(INPUTS)
    return tmp_path / "sum"


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """An H200 on which variants run as told: name -> how many times as fast."""
    fake_driver.install(monkeypatch, H200)
    told: dict[str, Any] = {"ratio": {"r0-0": 2.0}, "names": [], "launches": [], "deviates": ()}

    def race(baseline: Any, variants: Any, arguments: Any, launch: Any, device: Any, **options: Any) -> Race:
        told["names"].append([baseline.name, *(v.name for v in variants)])
        told["launches"].append(launch)
        found = {}
        for name, ratio in told["ratio"].items():
            kind = "faster" if ratio > 1 else "slower"
            found[name] = Measurement(kind, ratio, (ratio - 0.1, ratio + 0.1), 0.99, 9, {}, 10.0, 10.0 / ratio)
        return Race(found, None, tuple(Deviation(name, "y[3] differs") for name in told["deviates"]), {})

    monkeypatch.setattr("hybridcc.runtime.race.race", race)
    yield told
    fake_driver.forget()


def tune(place: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["tune", str(place), "--inputs", str(place.parent / "inputs.py"), "--json", *more])


def test_the_selection_is_written_back(place: Path, raced: dict[str, Any]) -> None:
    raced["ratio"] = {"r0-0": 0.5}
    assert tune(place).exit_code == 0
    before = bundle.load(place)
    assert before.entry("sm_90a")["selection"]["code"] == "NOT_FASTER"
    assert before.cubin("sm_90a") == before.cubin("sm_90a", "baseline")
    assert b"sm_90a: baseline" in before.read("sum.h")
    raced["ratio"] = {"r0-0": 2.0}
    done = tune(place)
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)["kernels"]
    assert (told["arch"], told["selection"]["variant"]) == ("sm_90a", "r0-0")
    assert raced["names"] == [["baseline", "r0-0"]] * 2  # what was refuted does not race
    after = bundle.load(place)
    good, *others = after.entry("sm_90a")["candidates"]
    assert (good["fate"]["kind"], good["speed"]["ratio"], good["speed"]["device"]) == ("chosen", 2.0, "NVIDIA H200")
    assert others == before.entry("sm_90a")["candidates"][1:]
    assert after.cubin("sm_90a") == after.cubin("sm_90a", "r0-0") != after.cubin("sm_90a", "baseline")
    assert after.entry("sm_80") == before.entry("sm_80")
    assert after.cubin("sm_90a") in after.read("sum.fatbin")
    assert b"sm_90a: r0-0" in after.read("sum.h")


@pytest.mark.parametrize("how", ["slower", "deviates"])
def test_a_variant_that_loses_or_differs_leaves_the_baseline(how: str, place: Path, raced: dict[str, Any]) -> None:
    raced["ratio"] = {"r0-0": 0.5 if how == "slower" else 2.0}
    raced["deviates"] = ("r0-0",) if how == "deviates" else ()
    assert tune(place).exit_code == 0
    entry = bundle.load(place).entry("sm_90a")
    assert entry["selection"]["variant"] == "baseline"
    code = "SLOWER" if how == "slower" else "REFUTED_ON_DEVICE"
    assert entry["candidates"][0]["fate"]["code"] == code
    again = tune(place)
    assert again.exit_code == (0 if how == "slower" else 2), "what the device refuted does not race again"


def test_a_file_aside_leaves_the_bundle_as_it_is(place: Path, raced: dict[str, Any]) -> None:
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    chosen = place.parent / "chosen.json"
    raced["ratio"] = {"r0-0": 0.5}
    for _ in range(2):
        assert tune(place, "-o", str(chosen)).exit_code == 0
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    kernel = hybridcc.load(place, selections=chosen)["sum"]
    assert kernel.code((9, 0))[1] == bundle.load(place).cubin("sm_90a", "baseline")
    assert hybridcc.load(place)["sum"].code((9, 0))[1] == bundle.load(place).cubin("sm_90a", "r0-0")


def test_a_device_without_code_of_its_own_is_not_tuned(
    place: Path, raced: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_driver.install(monkeypatch, ("NVIDIA L4", (8, 9)))
    done = tune(place)
    assert done.exit_code == 2
    assert "--arch sm_89" in done.stderr
    assert not raced["names"]


def test_the_first_call_races_on_its_own_values(place: Path, raced: dict[str, Any], monkeypatch: Any) -> None:
    from cuda.bindings import driver as real

    contents = {0x1000: np.arange(64, dtype="f4"), 0x2000: np.zeros(32, "f4")}

    def fetch(target: int, address: int, size: int) -> tuple[Any, ...]:
        import ctypes

        ctypes.memmove(target, contents[address].ctypes.data, size)
        return (fake_driver.OK,)

    monkeypatch.setattr(real, "cuMemcpyDtoH", fetch)
    monkeypatch.setattr(real, "cuCtxSynchronize", lambda: (fake_driver.OK,))
    kernel = hybridcc.load(place, tune=True)["sum"]
    for _ in range(2):
        kernel[1, 32](shown(0x2000, 32), shown(0x1000, 64), 5)
    (launch,) = raced["launches"]
    y, x, n = launch.values
    assert (x.tolist(), y.tolist(), int(n)) == (list(range(64)), [0.0] * 32, 5)
    assert (launch.grid, launch.block) == ((1, 1, 1), (32, 1, 1))
    loaded = kernel.loaded()
    assert loaded.entry == "sum"
    assert raced["names"] == [["baseline", "r0-0"]]


def shown(address: int, count: int) -> Any:
    interface = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 3, "strides": None}
    return type("Array", (), {"__cuda_array_interface__": interface})()
