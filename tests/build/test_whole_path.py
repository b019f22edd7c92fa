"""From a Numba kernel to checked cubins, through every stage, with answers recorded by hand for the test."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybridcc.runtime import bundle

KERNEL = """
import numpy as np
from numba import cuda, float32

def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s

def examples():
    y = np.zeros(300, np.float32)
    w = np.ones(31, np.float32)
    return 3, 128, (np.ones(330, np.float32), w, y)
"""

SIGNATURE = "conv1d(float32[::1], float32[::1], float32[::1])"
ARCHITECTURES = ("sm_80", "sm_90")


def pointer_walk(unroll: int, last: int = 0) -> str:
    """Numba's conv1d loop as two moving pointers; ``last`` is the count at which the remainder stops (0 is right)."""
    lines = [
        ".reg .b64 %px, %pw, %n, %off;",
        *(f".reg .f32 %a{k}, %b{k};" for k in range(unroll)),
        ".reg .pred %p;",
        "shl.b64 %off, %in1, 2;",
        "add.s64 %px, %in3, %off;",
        "mov.b64 %pw, %in4;",
        "mov.b64 %n, %in0;",
        "mov.f32 %out0, 0f00000000;",
        f"setp.lt.s64 %p, %n, {unroll};",
        "@%p bra $REST;",
        "$MAIN:",
        *(f"ld.global.f32 %a{k}, [%px+{4 * k}];\nld.global.f32 %b{k}, [%pw+{4 * k}];" for k in range(unroll)),
        *(f"fma.rn.f32 %out0, %a{k}, %b{k}, %out0;" for k in range(unroll)),
        f"add.s64 %px, %px, {4 * unroll};",
        f"add.s64 %pw, %pw, {4 * unroll};",
        f"add.s64 %n, %n, -{unroll};",
        f"setp.ge.s64 %p, %n, {unroll};",
        "@%p bra $MAIN;",
        "$REST:",
        "setp.le.s64 %p, %n, 0;",
        "@%p bra $DONE;",
        "$ONE:",
        "ld.global.f32 %a0, [%px];",
        "ld.global.f32 %b0, [%pw];",
        "fma.rn.f32 %out0, %a0, %b0, %out0;",
        "add.s64 %px, %px, 4;",
        "add.s64 %pw, %pw, 4;",
        "add.s64 %n, %n, -1;",
        f"setp.gt.s64 %p, %n, {last};",
        "@%p bra $ONE;",
        "$DONE:",
    ]
    return "```ptx\n" + "\n".join(lines) + "\n```\n"


ANSWERS = (pointer_walk(4), pointer_walk(8), pointer_walk(4, last=1), "I would unroll the loop.")


def hybridcc(*arguments: object) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        [sys.executable, "-m", "hybridcc", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "HYBRIDCC_DEBUG": "", "COLUMNS": "140"},
    )
    assert "Traceback" not in run.stdout + run.stderr
    return run


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A folder with the kernel and a recording of ANSWERS beside it, made as a user makes one."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "conv1d.py").write_text(KERNEL)
    prompts, results = folder / "prompts.jsonl", folder / "results.jsonl"
    run = hybridcc(
        "prompts", folder / "conv1d.py", "--signature", SIGNATURE, "--arch", ",".join(ARCHITECTURES), "-o", prompts
    )
    assert run.returncode == 0, run.stderr
    (line,) = prompts.read_text().splitlines()
    asked = json.loads(line)["custom_id"]
    results.write_text("".join(json.dumps({"custom_id": asked, "answer": a}) + "\n" for a in ANSWERS))
    recording = folder / "conv1d.answers.jsonl"
    run = hybridcc("answers", "import", results, "--prompts", prompts, "--model", "by hand", "-o", recording)
    assert run.returncode == 0, run.stderr
    assert "4 answers" in run.stdout
    return folder


@pytest.fixture(scope="module")
def built(project) -> tuple[subprocess.CompletedProcess[str], bundle.Bundle]:
    run = hybridcc(
        "build", project / "conv1d.py", "--signature", SIGNATURE, "--arch", ",".join(ARCHITECTURES),
        "--accept", "tested", "--select", "proved", "-o", project / "out",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run, bundle.load(project / "out" / "conv1d")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_each_answer_meets_its_fate(built, arch):
    _, found = built
    fates = {c["name"]: (c["fate"]["kind"], c["fate"]["code"]) for c in found.entry(arch)["candidates"]}
    assert fates == {
        "r0-0": ("chosen", "UNMEASURED"),
        "r0-1": ("skipped", "NOT_FIRST"),
        "r0-2": ("failed", "REFUTED"),
        "r0-3": ("failed", "SYNTAX"),
    }
    assert found.entry(arch)["selection"]["variant"] == "r0-0"
    assert found.cubin(arch) == found.cubin(arch, "r0-0") != found.cubin(arch, "baseline")


def test_the_verdict_says_what_it_rests_on(built):
    _, found = built
    good, _, wrong, _ = found.entry("sm_80")["candidates"]
    assert good["verdict"]["kind"] == "tested"
    assert 40 < good["verdict"]["exercised"] <= good["verdict"]["inputs"]
    assert good["evidence"]["origin"] == "types"
    families = good["evidence"]["families"]
    assert families["sizes"]["exercised"] > 20
    assert {"values nan", "values infinity", "values subnormal", "aliased", "misaligned", "grid"} <= set(families)
    assert "y[" in wrong["verdict"]["counterexample"]


@pytest.mark.usefixtures("built")
def test_the_counterexample_can_be_run_again(project):
    launch = project / "out" / "conv1d" / "r0-2.sm_80.counterexample.npz"
    after = {}
    for name in ("baseline", "r0-2", "r0-0"):
        run = hybridcc("run", project / "out" / "conv1d" / f"{name}.sm_80.ptx", "--inputs", launch, "--json")
        assert run.returncode == 0, run.stderr
        after[name] = [a["sha256"] for a in json.loads(run.stdout)["arguments"]]
    assert after["r0-0"] == after["baseline"]
    assert after["r0-2"] != after["baseline"]
    run = hybridcc(
        "build", project / "conv1d.py", "--signature", SIGNATURE, "--arch", "sm_80", "--accept", "tested",
        "--inputs", launch, "--answers", "1", "-o", project / "again",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_the_report_says_that_nothing_was_measured(built):
    run, _ = built
    assert "r0-0 selected because of --select proved, its speed is unknown here" in run.stdout
    assert "inputs made from types" in run.stdout
    assert len(run.stdout.splitlines()) <= 50


def test_the_default_policy_proves_and_keeps_the_baseline_until_something_is_measured(project):
    run = hybridcc(
        "build", project / "conv1d.py", "--signature", SIGNATURE, "--arch", "sm_80", "-o", project / "default"
    )
    assert run.returncode == 0, run.stderr
    found = bundle.load(project / "default" / "conv1d")
    good = found.entry("sm_80")["candidates"][0]
    assert good["verdict"]["kind"] == "proved", good
    assert good["evidence"]["families"]["sizes"]["exercised"] > 20
    assert found.entry("sm_80")["selection"]["code"] == "NOT_MEASURED"
    assert found.cubin("sm_80") == found.cubin("sm_80", "baseline")
    assert "--select proved" in run.stdout


def test_examples_are_used_and_said_to_be(project):
    run = hybridcc(
        "build", project / "conv1d.py", "--signature", SIGNATURE, "--arch", "sm_80", "--accept", "tested",
        "--inputs", project / "conv1d.py", "--answers", "1", "-o", project / "examples",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    (candidate,) = bundle.load(project / "examples" / "conv1d").entry("sm_80")["candidates"]
    assert candidate["evidence"]["origin"] == "example"
    assert candidate["verdict"]["exercised"] > 40
    assert candidate["evidence"]["families"]["example"]["exercised"] == 1
    assert "inputs made from the examples given" in run.stdout


def test_the_selected_cubin_is_what_the_assembler_makes_of_the_shipped_ptx(built):
    from hybridcc.runtime.assemble import assemble

    _, found = built
    for variant in ("baseline", "r0-0"):
        assert assemble(found.ptx("sm_90", variant), "sm_90").bytes == found.cubin("sm_90", variant)


def test_regions_are_listed(project):
    run = hybridcc("regions", project / "conv1d.py", "--signature", SIGNATURE, "--json")
    assert run.returncode == 0, run.stderr
    (kernel,) = json.loads(run.stdout)
    assert kernel["kernel"] == "conv1d"
    assert kernel["regions"][0]["weight"] == "hot"
    text = hybridcc("regions", project / "conv1d.py", "--signature", SIGNATURE, "--text").stdout
    assert "%in0" in text
    assert "fma.rn.f32" in text
