"""compute-sanitizer: its words read, and the whole call with a tool that is made up."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from hybridcc.errors import ToolchainError
from hybridcc.passes.kernel import Argument, ArrayType, Field
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import race_children, race_sanitize
from hybridcc.runtime.device import Device
from hybridcc.runtime.race_job import Contender
from tests.simulated.worker import COMMAND

FOUND = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at k+0x90
{"event": "failed", "reason": "cuStreamSynchronize gives CUDA_ERROR_LAUNCH_FAILED"}
========= ERROR SUMMARY: 1 error
"""
DONE = '{"event": "done"}\n{"event": "end"}\n'


def test_errors_found():
    found = race_sanitize.read("memcheck", race_sanitize.FOUND, FOUND)
    assert found.clean is False
    assert "Invalid __global__ write" in found.text
    assert "COMPUTE-SANITIZER" not in found.text


def test_nothing_found():
    found = race_sanitize.read(
        "racecheck", 0, "========= COMPUTE-SANITIZER\n" + DONE + "========= ERROR SUMMARY: 0 errors\n"
    )
    assert found.clean is True


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (0, '{"event": "stop", "reason": "no GPU", "next_step": "x"}\n', "no GPU"),
        (1, "========= COMPUTE-SANITIZER\n========= Error: Device not supported\n", "Device not supported"),
        (3, "", "ended with 3"),
        (0, "", "ended with 0"),
    ],
)
def test_a_tool_that_could_not_run_is_not_clean(code, said, why):
    found = race_sanitize.read("memcheck", code, said)
    assert found.clean is None
    assert why in found.text


def test_without_the_tool_there_is_one_clear_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="compute-sanitizer is not on the PATH") as caught:
        race_sanitize.find()
    assert "toolkit" in caught.value.next_step


@pytest.mark.parametrize("finds", [False, True])
def test_each_tool_runs_the_racing_process(monkeypatch, tmp_path, finds):
    """The made-up tool runs the command that it is given, as the real one does, and says what it is told to."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        "code = subprocess.run(sys.argv[5:]).returncode\n"
        f"print('========= ERROR SUMMARY', sys.argv[2])\nsys.exit(97 if {finds} else code)\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(race_children, "WORKER", COMMAND)
    code = json.dumps({"kernel": "double", "us": 20.0, "size": 64}).encode()
    pointers = [Argument(name, ArrayType("float32", 1), (Field("data", ".u64"),)) for name in "xy"]
    launch = Launch((1, 1, 1), (64, 1, 1), (np.ones(64, np.float32), np.zeros(64, np.float32)))
    device = Device(0, "Simulated GPU", "sm_90", "13.0", 132, 1 << 32, 1 << 20, "ab" * 16)
    found = race_sanitize.sanitize(Contender("v", code, "k"), pointers, launch, device, tools=("memcheck", "initcheck"))
    assert [each.tool for each in found] == ["memcheck", "initcheck"]
    assert [each.clean for each in found] == [not finds] * 2, found
    assert "initcheck" in found[1].text


def side(**clean):
    return [{"tool": tool, "clean": each, "text": f"{tool} says"} for tool, each in clean.items()]


@pytest.mark.parametrize(
    ("a", "b", "refuted"),
    [(True, False, True), (True, True, False), (False, False, False), (None, False, False), (True, None, False)],
)
def test_b_is_refuted_by_what_a_is_clean_of(a, b, refuted):
    from hybridcc.contest_sanitize import lines, verdict

    told = {"correctness": {"verdict": "tested", "deviation": ""}, "speed": {}}
    found = {"a": side(memcheck=True, racecheck=a), "b": side(memcheck=True, racecheck=b)}
    judged = verdict(told, found)
    assert (judged["correctness"]["verdict"] == "refuted") is refuted
    assert ("racecheck says" in judged["correctness"]["deviation"]) is refuted
    assert judged["sanitizer"] == found
    assert len(lines(found)) == 4


def test_ab_asks_for_the_tool_before_it_races(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from hybridcc.cli import ab, app
    from tests.cli.test_ab import PTX

    monkeypatch.setattr(ab, "_device", lambda: Device(0, "G", "sm_90", "13.0", 132, 1 << 32, 1 << 20, "ab" * 16))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, trips in (("a", "64"), ("b", "65")):
        (tmp_path / f"{name}.ptx").write_text(PTX.replace("%r4, 64", f"%r4, {trips}"))
    found = CliRunner().invoke(
        app, ["ab", f"{tmp_path}/a.ptx", f"{tmp_path}/b.ptx", "--sanitize", "--assembler", "ptxas"]
    )
    assert found.exit_code == 3
    assert "compute-sanitizer is not on the PATH" in found.output
