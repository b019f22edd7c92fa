"""Rows, choices and summary of a run: a case raced on the simulated GPU, results read back, the report written."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import benchmarks
from benchmarks.suite import built_file, choices, results
from benchmarks.suite.building import Built, Variant
from benchmarks.suite.case import Case
from benchmarks.suite.racing import race_case
from benchmarks.suite.report import markdown
from hybridcc.errors import InputError
from hybridcc.passes.kernel import Argument, ArrayType, Field
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import race_children
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import Contender
from hybridcc.runtime.race_children import Children
from tests.simulated.gpu import NOISE
from tests.simulated.worker import COMMAND

SIZE = 256
DEVICE = Device(0, "Simulated GPU", "sm_90", "13.0", 132, 1 << 32, 1 << 20, "ab" * 16)


def contender(name, us, **what):
    code = json.dumps({"kernel": "double", "us": us, "size": SIZE, "grid": 4, **what}).encode()
    return Contender(name, code, "k", free=name in ("fastmath", "cuda_cpp"))


def built(**variants):
    made = tuple(
        Variant(contender(name, us), verdict, verdict, ("proved", "tested")[verdict == "tested" :], 32, 0)
        for name, (us, verdict) in variants.items()
    )
    return Built(
        "double", "sm_90", contender("baseline", 20.0), contender("fastmath", 19.0, does="is right for ten calls"),
        contender("cuda_cpp", 10.0), made, {"r0": 0.9}, False, len(made), {}, (), "a recording", 1.0,
    )  # fmt: skip


def case():
    """What racing asks of a Case, for the simulated GPU's one kernel."""
    values = (np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32))
    made = SimpleNamespace(
        name="double", field="made up", has_loop=True, sizes={"large": (SIZE,), "small": (SIZE,)},
        launch=lambda size: Launch((4, 1, 1), (64, 1, 1), values),
        arguments=[Argument(name, ArrayType("float32", 1), (Field("data", ".u64"),)) for name in "xy"],
        cuda_arguments=lambda x, y: (x, y), work=lambda x, y: {"bytes": 2 * x.nbytes, "fp32": SIZE},
    )  # fmt: skip
    return cast(Case, made)


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race_children, "WORKER", COMMAND)
        patch.setenv(NOISE, json.dumps({"sigma": 0.001}))
        with Children() as children:
            some = built(r0=(12.0, "proved"), r1=(8.0, "tested"), r2=(25.0, "proved"))
            none = built()
            yield (
                race_case(case(), some, "large", DEVICE, children, 3.0),
                race_case(case(), none, "small", DEVICE, children, 3.0),
            )


def test_each_policy_chooses_the_fastest_that_it_accepts(rows):
    row, _ = rows
    assert {policy: choice["variant"] for policy, choice in row["choices"].items()} == {"proved": "r0", "tested": "r1"}
    gap = 0.8  # the simulated GPU's own, between launches
    assert row["over_stock"]["proved"] == pytest.approx((20 + gap) / (12 + gap), rel=0.02)
    assert row["over_stock"]["tested"] == pytest.approx((20 + gap) / (8 + gap), rel=0.02)
    assert row["over_cuda_cpp"]["proved"] == pytest.approx((10 + gap) / (12 + gap), rel=0.02)
    assert list(row["differences"]) == ["fastmath"]
    assert row["times"]["baseline"]["lower_quartile_us"] <= row["times"]["baseline"]["median_us"]


def test_without_a_rewrite_stock_is_chosen_and_counts_one(rows):
    _, row = rows
    assert row["choices"]["proved"]["code"] == "NO_ANSWER"
    assert row["over_stock"]["proved"] == 1.0
    assert row["over_cuda_cpp"]["proved"] == pytest.approx(10.8 / 20.8, rel=0.02)


def test_every_key_of_a_row_and_of_the_summary_is_documented(rows):
    text = (Path(benchmarks.__file__).parent / "README.md").read_text()
    documented = set(re.findall(r"`(\w+)`", text))
    assert {key for row in rows for key in row} <= documented
    assert set(results.summary(rows, ["double"])) - {"kernels_in_suite"} <= documented


def test_the_summary_leaves_no_kernel_out(rows):
    found = results.summary(rows, ["double", "other"])
    wanted = rows[0]["over_stock"]["proved"] ** 0.5  # of both sizes
    assert found["geomean_vs_stock_all"] == pytest.approx(wanted)
    assert (found["kernels"], found["proved"], found["losses"], found["min_ratio_vs_stock"]) == (1, 1, 0, 1.0)
    assert found["not_measured"] == ["other large", "other small"]
    assert found["losses_to_cuda_cpp"] == 2


def test_what_an_earlier_run_chose_is_raced_alone(rows, monkeypatch):
    monkeypatch.setattr(race_children, "WORKER", COMMAND)
    monkeypatch.setenv(NOISE, json.dumps({"sigma": 0.001}))
    earlier = {"machine": {"gpu": {"name": "Simulated GPU"}}, "made": "then", "kernels": list(rows)}
    with pytest.raises(InputError, match="for Simulated GPU"):
        choices.of_results(earlier, "another")
    before = choices.of_results(earlier, "Simulated GPU")
    assert before.of("double", "small") == {"proved": "baseline", "tested": "baseline"}
    some = built(r0=(25.0, "proved"), r1=(8.0, "tested"), r2=(12.0, "proved"))  # r0 is slower this time
    with Children() as children:
        row = race_case(case(), some, "large", DEVICE, children, 3.0, before)
        with pytest.raises(InputError, match="no r0"):
            race_case(case(), built(r1=(8.0, "tested")), "large", DEVICE, children, 3.0, before)
    assert set(row["variants"]) == {"r0", "r1"}
    assert row["over_stock"]["proved"] == pytest.approx(20.8 / 25.8, rel=0.02)
    assert results.summary([row], ["double"])["losses"] == 1


def test_results_are_read_back_and_reported(rows, tmp_path):
    machine = {"gpu": {"name": "Simulated GPU"}, "versions": {}, "driver_version": ""}
    failure = {"part": "other: build", "error": "it is made up"}
    data = {
        "suite_format": results.FORMAT, "made": "now", "machine": machine, "rewriter": ["a recording"], "seconds": 1.0,
        "summary": results.summary(rows, ["double", "other"]), "kernels": list(rows), "failures": [failure],
    }  # fmt: skip
    written = results.write(data, tmp_path, "20261201T000000Z")
    assert written.parent.name == "simulated-gpu"
    again = results.read(written.with_name("latest.json"))
    assert again["summary"] == data["summary"]
    text = markdown([again])
    for part in (
        "not met",
        "double",
        "NO_ANSWER",
        "not measured: other large",
        "it is made up",
        "slower than CUDA C++",
    ):
        assert part in text, part
    (tmp_path / "latest.json").write_text("{}")
    with pytest.raises(InputError, match="no result of the suite"):
        results.read(tmp_path / "latest.json")


def test_a_build_reads_back_as_it_was_saved(tmp_path):
    made = built(r0=(12.0, "proved"))
    (variant,) = made.variants
    made = replace(made, variants=(replace(variant, contender=replace(variant.contender, twins=(b"\x00", b"\xff"))),))
    assert built_file.read(built_file.save(made, tmp_path)) == made
