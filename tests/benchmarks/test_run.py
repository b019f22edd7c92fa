"""A whole run, its races on the simulated GPU, within the time given and beyond it."""

import json

import pytest

from benchmarks.suite import outputs, results, run
from hybridcc.errors import DeviceError
from hybridcc.runtime import race_children
from tests.benchmarks.test_racing import DEVICE, built, case
from tests.simulated.gpu import NOISE
from tests.simulated.worker import COMMAND


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setattr(race_children, "WORKER", COMMAND)
    monkeypatch.setenv(NOISE, json.dumps({"sigma": 0.001}))
    monkeypatch.setattr(run, "load", lambda name: case())
    monkeypatch.setattr(run, "facts", lambda: {"gpu": {"name": "Simulated GPU"}, "versions": {}})
    monkeypatch.setattr(run, "MOST_RACE_S", 2.0)
    monkeypatch.setattr(outputs, "check", lambda case, built: {"errors": {}, "right": True})
    monkeypatch.setattr(outputs, "stock_is_numbas", lambda *_: True)


def options(tmp_path, seconds):
    return run.Options(("double",), "recorded", 1, seconds, 1, tmp_path, tmp_path / "built")


def test_a_run_races_both_sizes_and_writes_what_it_found(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "read_all", lambda *_: ({"double": built(r0=(12.0, "proved"))}, {"other": "not there"}))
    data = run.run(options(tmp_path, 100.0), DEVICE, lambda message: None)
    assert [row["size"] for row in data["kernels"]] == ["large", "small"]
    assert data["failures"] == [{"part": "other: build", "error": "not there"}]
    assert data["summary"]["geomean_vs_stock_all"] == pytest.approx(20.8 / 12.8, rel=0.02)
    written = results.read(tmp_path / "simulated-gpu" / "latest.json")
    assert written["done"] is True
    assert written["summary"] == data["summary"]


def test_a_race_that_was_given_too_little_time_is_held_again(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MOST_RACE_S", 0.3)
    monkeypatch.setattr(run, "read_all", lambda *_: ({"double": built(r0=(12.0, "proved"))}, {}))
    data = run.run(options(tmp_path, 100.0), DEVICE, lambda message: None)
    assert [row["budget_s"] for row in data["kernels"]] == [0.9, 0.9]
    assert data["summary"]["not_measured"] == []


def test_what_there_is_no_time_for_is_listed_and_a_fault_loses_nothing(tmp_path, monkeypatch):
    def fault(case, built):
        raise DeviceError("it is made up", next_step="none")

    monkeypatch.setattr(outputs, "check", fault)
    monkeypatch.setattr(run, "OVERHEAD_S", 0.0)
    monkeypatch.setattr(run, "LEAST_RACE_S", 4.8)
    monkeypatch.setattr(run, "read_all", lambda *_: ({"double": built(r0=(12.0, "proved"))}, {}))
    data = run.run(options(tmp_path, run.OUTPUTS_S + 5.0), DEVICE, lambda message: None)
    parts = [failure["part"] for failure in data["failures"]]
    assert parts == ["time", "double: outputs"]
    assert data["summary"]["not_measured"] == ["double small"]
