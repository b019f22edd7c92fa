"""Builds of many kernels: what is built, what is not built again, and why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybridcc import build_job, incremental
from hybridcc.build_job import Extra
from hybridcc.building import Built, Request, build, check_required, plan
from hybridcc.errors import HybridccError, InputError, PolicyError
from hybridcc.runtime import bundle
from hybridcc.runtime.toolchain import find
from hybridcc.work import Options
from tests.ahead.recorded import SUM, four_at_a_time, record

ROOT = Path(__file__).parents[2]

KERNELS = """
import numpy as np
from numba import cuda
import hybridcc

def launch():
    return 1, 32, (np.zeros(32, np.float32),)

@hybridcc.jit("void(float32[::1])", examples=launch)
def twice(x):
    x[cuda.threadIdx.x] *= 2

@hybridcc.jit("void(float32[::1])")
def thrice(x):
    x[cuda.threadIdx.x] *= 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def request(project: Path, *targets: str, **more: Any) -> Request:
    options = Options(**more.pop("options", {}))
    more = {"rewriter": "none", "architectures": ("sm_80",), "extra": Extra(), **more}
    return Request(targets, project / "out", options=options, **more)


def built(*targets: str, **more: Any) -> dict[str, Built]:
    more = {"arch": ("sm_80",), "rewriter": "none", **more}
    return {each.bundle.name: each for each in build(targets or ("kernels.py",), "out", **more)}


def reused(*targets: str, **more: Any) -> dict[str, bool]:
    return {name: each.reused for name, each in built(*targets, **more).items()}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_an_edit_elsewhere_builds_nothing_and_one_kernel_builds_one(project: Path) -> None:
    assert reused() == {"twice": False, "thrice": False}
    before = bytes_of(project / "out")
    assert reused() == {"twice": True, "thrice": True}
    assert bytes_of(project / "out") == before

    first = bundle.load(project / "out" / "twice")
    (project / "kernels.py").write_text("# a comment\n\n\ndef helper():\n    return 5\n" + KERNELS)
    assert reused() == {"twice": True, "thrice": True}
    moved = bundle.load(project / "out" / "twice")
    assert moved.manifest["kernel"].pop("source") != first.manifest["kernel"].pop("source")
    assert moved.manifest == first.manifest
    (project / "kernels.py").write_text(KERNELS.replace("*= 3", "*= 4"))
    assert reused() == {"twice": True, "thrice": False}


CHANGES = (
    ({"options": {"flags": ("-maxrregcount=16",)}}, ("assembler",)),
    ({"options": {"assembler": "ptxas"}}, ("assembler",)),
    ({"architectures": ("sm_80", "sm_89")}, ("kernel",)),
    ({"options": {"select": "proved"}}, ("options",)),
    ({"options": {"seed": 3}}, ("options",)),
    ({"extra": Extra(header=True)}, ("options",)),
    ({"extra": Extra(fatbin=True)}, ("options", "tools")),
    ({"rewriter": "replay:none.jsonl"}, ("rewriter",)),
    ({"inputs": lambda: (1, 32, (np.ones(32, "f4"),))}, ("launches",)),
    ({"fresh": True}, ("fresh",)),
    ({}, ()),
)


def test_what_a_kernel_is_made_from(project: Path) -> None:
    built("kernels.py:twice")
    for change, parts in CHANGES:
        (planned,) = plan(request(project, "kernels.py:twice", **change))
        assert planned.why == parts, change


def test_another_ptxas_builds_what_it_made_and_nothing_else(project: Path) -> None:
    """A ptxas that says it is of another version."""
    other = project / "ptxas"
    other.write_text(f'#!/bin/sh\nexec {find("ptxas").path} "$@" | sed s/V13.0.88/V13.0.99/\n')
    other.chmod(0o755)
    built("kernels.py:twice", ptxas=other)
    built("kernels.py:thrice")
    assert built("kernels.py:twice", ptxas=other)["twice"].reused
    assert "ptxas 13.0.99" in json.dumps(bundle.load(project / "out" / "twice").manifest)
    other.write_text(other.read_text().replace("V13.0.99", "V13.0.77"))
    assert not built("kernels.py:twice", ptxas=other)["twice"].reused
    assert built("kernels.py:thrice")["thrice"].reused


def test_a_recording_that_changes_and_a_bundle_that_was_altered(project: Path) -> None:
    recording = record(project / "sum.jsonl", "I would unroll the loop.")
    line = {"rewriter": f"replay:{recording}"}
    assert not built(str(SUM), **line)["sum"].reused
    assert built(str(SUM), **line)["sum"].reused
    record(recording, "I would not.")
    assert not built(str(SUM), **line)["sum"].reused
    (project / "out" / "sum" / "selected.sm_80.cubin").write_bytes(b"")
    assert not built(str(SUM), **line)["sum"].reused
    assert built(str(SUM), **line)["sum"].reused


def test_a_failure_is_not_kept(project: Path) -> None:
    """A model that could not be used may answer next time."""
    for _ in range(2):
        one = built("kernels.py:twice", rewriter="replay:none.jsonl")["twice"]
        assert one.error is not None
        assert not one.reused


def test_a_clock_is_not_kept() -> None:
    candidate = {"evidence": {"notes": []}}
    manifest: dict[str, Any] = {"failures": [], "usage": {"ended_by": "48 answers"}}
    manifest["architectures"] = [{"failures": [], "candidates": [candidate, {"evidence": None}]}]
    assert incremental.is_lasting(manifest)
    assert not incremental.is_lasting({**manifest, "usage": {"ended_by": "30 s"}})
    candidate["evidence"]["notes"].append("not proved: timeout: 60 s")
    assert not incremental.is_lasting(manifest)


def two(project: Path) -> list[str]:
    """Kernels that take no compiler."""
    (project / "sum.ptx").write_text(SUM.read_text())
    (project / "total.ptx").write_text(SUM.read_text().replace("sum", "total"))
    return ["sum.ptx", "total.ptx"]


def test_several_processes_make_the_same_files(project: Path) -> None:
    line = two(project)
    built(*line, jobs=2)
    apart = bytes_of(project / "out")
    shutil.rmtree(project / "out")
    built(*line)
    alone = bytes_of(project / "out")
    assert [name for name in apart if apart[name] != alone[name]] == [n for n in apart if n.endswith("log.json")]
    assert apart.keys() == alone.keys()


def test_an_error_in_another_process_is_the_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = two(project)
    with pytest.raises(HybridccError) as here:
        built(*line, flags=("--shiny",))
    with pytest.raises(HybridccError) as apart:
        built(*line, flags=("--shiny",), jobs=2)
    assert (apart.value.code, apart.value.exit_code, str(apart.value)) == (
        here.value.code, here.value.exit_code, str(here.value),
    )  # fmt: skip
    monkeypatch.setattr(build_job, "WORKER", (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(HybridccError, match="ended with signal 9") as killed:
        built(*line, jobs=2)
    assert "-j 1" in killed.value.next_step


def test_the_plan_says_what_would_be_done_and_does_nothing(project: Path) -> None:
    assert [(each.kernel, each.state) for each in plan(request(project, "kernels.py"))] == [
        ("twice", "new"), ("thrice", "new")
    ]  # fmt: skip
    assert not (project / "out").exists()
    recording = record(project / "sum.jsonl", four_at_a_time())
    (one,) = plan(request(project, str(SUM), rewriter=f"replay:{recording}"))
    assert (one.kernel, one.regions, one.rewriter) == ("sum", 1, "replay:sum.jsonl")


def test_modules_lists_and_names_that_meet(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(project))
    assert list(built("kernels:twice")) == ["twice"]
    shutil.copy(project / "kernels.py", project / "others.py")
    assert list(built("kernels.py:twice", "others.py:thrice")) == ["twice", "thrice"]
    with pytest.raises(InputError, match=r"two kernels are called twice: in kernels\.py and in others\.py"):
        built("kernels.py", "others.py")


@pytest.mark.parametrize(
    ("require", "variant", "measured", "kind", "met"),
    [
        ("proved", "r0-0", False, "proved", True),
        ("proved", "r0-0", True, "tested", False),
        ("proved", "baseline", False, "proved", False),
        ("measured", "r0-0", True, "tested", True),
        ("measured", "r0-0", False, "proved", False),
        ("measured", "baseline", True, "proved", False),
    ],
)
def test_what_is_required(
    require: Any, variant: str, measured: bool, kind: str, met: bool, tmp_path: Path
) -> None:
    selection = {"variant": variant, "measured": measured, "reason": "because"}
    candidates = [{"name": "r0-0", "verdict": {"kind": kind}}]
    entry = {"arch": "sm_90", "selection": selection, "candidates": candidates}
    one = Built(None, bundle.Bundle(tmp_path, {"kernel": {"name": "k"}, "architectures": [entry]}))
    if met:
        check_required([one], require)
    else:
        with pytest.raises(PolicyError, match="k sm_90: because"):
            check_required([one], require)


def test_the_verb(project: Path) -> None:
    targets = two(project)

    def hybridcc(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "hybridcc", "build", *targets, "--rewriter", "none", "--arch", "sm_90a"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run([*line, *arguments], env=environment, capture_output=True, text=True, check=False)

    told = hybridcc("--require", "proved")
    assert told.returncode == 1
    assert "no proved rewrite is selected" in told.stderr
    assert (project / "out" / "total" / "selected.sm_90a.cubin").is_file()
    told = hybridcc("--dry-run")
    assert "sum: unchanged, sm_90a" in told.stdout
    assert "0 of 2 kernels would be built" in told.stdout
