"""Three sources of one profile: what each marks first, what is refused, what is said of it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hybridcc.errors import ProfileError
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.passes.profile.executed import executed
from hybridcc.passes.profile.hot import hot_regions
from hybridcc.passes.profile.marks import marked
from hybridcc.passes.profile.profile import disagreements, from_json
from hybridcc.passes.verify.launch import Launch
from hybridcc.profiling import profile
from hybridcc.ptx import parse

EXAMPLE = Path(__file__).parents[2] / "examples" / "conv1d.py"

TWO_LOOPS = Path(__file__).with_name("two_loops.ptx").read_text()


def two_loops() -> tuple[Kernel, Launch]:
    arguments = (
        Argument("out", ArrayType("float32", 1), (Field("data", ".u64"),)),
        Argument("n", ScalarType("uint32"), (Field("value", ".u32"),)),
    )
    kernel = Kernel("k", "k", TWO_LOOPS, "sm_90", "test", arguments)
    return kernel, Launch((2, 1, 1), (32, 1, 1), (np.zeros(64, np.float32), np.uint32(5)))


def test_the_loop_that_runs_is_first_though_the_other_is_longer() -> None:
    kernel, launch = two_loops()
    launch = replace(launch, grid=(1, 1, 1))
    for wanted in ("executed", "estimated"):
        found = profile(kernel, launch, wanted)
        assert found.best.origin == wanted
        first, second = found.hot
        assert "2000" in first.region.text, wanted
        assert len(second.region.text) > len(first.region.text)
        assert first.share > 0.7 > 0.3 > second.share


def test_a_region_that_could_bring_next_to_nothing_is_not_asked_about() -> None:
    from hybridcc.asking import regions_of

    kernel, _ = two_loops()
    hot, little = regions_of(replace(kernel, ptx=TWO_LOOPS.replace("2000", "40000")))
    assert hot.eligible
    assert little.ineligible is not None
    assert str(little.ineligible).startswith("BELOW_BOUND: were it free, the kernel would gain ")


def test_counts_are_the_executors() -> None:
    kernel, launch = two_loops()
    (hot, cold) = hot_regions(kernel, executed(kernel, replace(launch, grid=(1, 1, 1))))
    assert (hot.executions, cold.executions) == (32 * 1000, 32 * 3)


@pytest.mark.parametrize(
    ("control", "trips"),
    [
        ("mov.u32 %r2, 0;|add.s32 %r2, %r2, 2; setp.lt.s32 %p1, %r2, 2000; @%p1 bra $HOT;", 1000),
        ("mov.u32 %r2, 7;|add.s32 %r2, %r2, -1; setp.eq.s32 %p1, %r2, 0; @!%p1 bra $HOT;", 7),
        ("mov.u32 %r2, 1;|shl.b32 %r2, %r2, 1; setp.ne.s32 %p1, %r2, 0; @%p1 bra $HOT;", 32),
        ("mov.u32 %r2, 9; mov.u32 %r3, 4;|sub.s32 %r3, %r3, 1; mov.u32 %r2, %r3; "
         "setp.gt.s32 %p1, %r2, 0; @%p1 bra $HOT;", 4),
        ("mov.u32 %r2, %r4;|add.s32 %r2, %r2, -1; setp.ne.s32 %p1, %r2, 0; @%p1 bra $HOT;", None),
        ("mov.u32 %r2, 0;|add.s32 %r2, %r2, 0; setp.eq.s32 %p1, %r2, 0; @%p1 bra $HOT;", None),
        ("mov.u32 %r2, 5;|add.s32 %r2, %r2, -1; setp.ne.s32 %p1, %r2, %r4; @%p1 bra $HOT;", None),
    ],
)  # fmt: skip
def test_trips_that_constants_decide(control: str, trips: int | None) -> None:
    from hybridcc.passes.analysis import cfg as cfg_module
    from hybridcc.passes.analysis.loops import natural_loops
    from hybridcc.passes.profile.trips import constant_trips

    start, turn = control.split("|")
    text = TWO_LOOPS.replace("mov.u32 %r2, 0;", start).replace(
        "add.s32 %r2, %r2, 2; setp.lt.s32 %p1, %r2, 2000; @%p1 bra $HOT;", turn
    )
    module = parse(text)
    cfg = cfg_module.build(module.entries[0], module)
    assert constant_trips(cfg, natural_loops(cfg)[1]) == trips


def test_marks_survive_a_round_trip_and_change_nothing() -> None:
    kernel, launch = two_loops()
    taken = executed(kernel, replace(launch, grid=(1, 1, 1)))
    text = marked(kernel, taken, hot_regions(kernel, taken))
    assert str(parse(text)) == text
    assert text.count("hybridcc.region begin") == text.count("hybridcc.region end") == 2
    assert executed(replace(kernel, ptx=text), replace(launch, grid=(1, 1, 1))) == taken


def test_a_profile_of_other_ptx_is_refused_and_another_size_is_said() -> None:
    kernel, launch = two_loops()
    one = replace(launch, grid=(1, 1, 1))
    taken = from_json(json.loads(json.dumps(executed(kernel, one).to_json())))
    assert taken.used_at(one) == ()
    (said,) = taken.used_at(replace(one, values=(np.zeros(32, np.float32), np.uint32(5))))
    assert "taken at" in said
    with pytest.raises(ProfileError) as caught:
        hot_regions(replace(kernel, ptx=TWO_LOOPS.replace("2000", "2002")), taken)
    assert caught.value.reason == "OTHER_PTX"
    renamed = replace(kernel, ptx=TWO_LOOPS.replace("%f", "%g"))
    assert hot_regions(renamed, taken)[0].share == hot_regions(kernel, taken)[0].share


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 99}'])
def test_what_is_no_profile_is_bad_input(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "hybridcc", "profile", str(EXAMPLE), "--profile", str(tmp_path / "p.json")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "FORMAT" in done.stderr
    assert "Traceback" not in done.stderr


def test_disagreement_is_reported() -> None:
    assert disagreements([("measured", {"r0": 0.9}), ("estimated", {"r0": 0.5}), ("executed", {"r0": 0.85})]) == (
        "r0: 90 % measured, 50 % estimated",
        "r0: 50 % estimated, 85 % executed",
    )


def test_the_command_line_from_a_python_file(tmp_path: Path) -> None:
    page, ptx, saved = tmp_path / "heat.html", tmp_path / "marked.ptx", tmp_path / "p.json"
    command = [sys.executable, "-m", "hybridcc", "profile", str(EXAMPLE)]
    done = subprocess.run(
        [*command, "--json", "--html", str(page), "--annotate", str(ptx), "--save", str(saved)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    data = json.loads(done.stdout)
    assert data["origin"] in ("executed", "measured")
    source = EXAMPLE.read_text().splitlines()
    line = int(data["regions"][0]["line"].removeprefix("line "))
    assert "for k in range" in source[line - 1] or "s +=" in source[line - 1]
    assert "hybridcc.region begin r0" in ptx.read_text()
    assert "<script" not in page.read_text()
    assert "28,672" in page.read_text()
    again = subprocess.run([*command, "--profile", str(saved), "--json"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["regions"] == data["regions"]
