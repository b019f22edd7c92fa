"""Whatever fails in the drop-in, the build gets what ptxas makes of its input."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hybridcc.dropin import worker
from hybridcc.errors import HybridccError
from hybridcc.runtime.toolchain import find
from tests.ahead.dropin import Outcome, dropin, ptxas, same
from tests.ahead.recorded import SUM, four_at_a_time, record

LINE = ("-arch=sm_80", "-", "-o", "k.cubin")
"""With the input on stdin, which must survive too."""


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return ptxas(tmp_path_factory.mktemp("ptxas"), *LINE, stdin=SUM.read_bytes())


WORKERS = {
    "raises": "raise ZeroDivisionError('fault')",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "leaves at once": "import os; os._exit(0)",
    "writes no JSON": "print('hello')",
    "writes other JSON": "print('{}')",
    "answers with broken PTX": """print('{"ptx": ".version 9.0 .target", "notes": [], "kernels": []}')""",
    "never ends": "import time; time.sleep(600)",
    "never ends, and its child holds the pipes": (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "time.sleep(600)"
    ),
}


@pytest.mark.parametrize("how", WORKERS)
def test_a_worker_that(how: str, wanted: Outcome, tmp_path: Path) -> None:
    patch = f"m.WORKER = ({sys.executable!r}, '-c', {WORKERS[how]!r})"
    got = patched(patch, tmp_path, ptxas_seconds="0.5" if "never" in how else "60")
    assert same(got, wanted)
    assert len(got.notes) == 1


PATCHES = {
    "the command line cannot be read": "m.read = fail",
    "no process can be started": "m.subprocess.Popen = fail",
    "stdin cannot be kept in memory": "m.os.memfd_create = fail",
    "the log cannot be written": "m._ask_worker = lambda *a: {'ptx': None, 'notes': [], 'kernels': []}",
    "the seconds are no number": "import os; os.environ['HYBRIDCC_PTXAS_SECONDS'] = 'many'",
    "memory runs out": "def fail(*a): raise MemoryError\nm._ask_worker = fail",
    "the recursion limit is met": "def fail(*a): raise RecursionError\nm._ask_worker = fail",
}


@pytest.mark.parametrize("what", PATCHES)
def test_where(what: str, wanted: Outcome, tmp_path: Path) -> None:
    got = patched(PATCHES[what], tmp_path, ptxas_log="/proc/nowhere/log")
    assert same(got, wanted)
    assert len(got.notes) == 1


def patched(patch: str, folder: Path, **variables: str) -> Outcome:
    code = (
        "import errno\nimport hybridcc.dropin.main as m\n"
        "def fail(*a, **k): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        f"{patch}\nm.main()"
    )
    command = (sys.executable, "-c", code)
    return dropin(folder, *LINE, stdin=SUM.read_bytes(), command=command, rewriter="replay:none", **variables)


STAGES = (
    "hybridcc.pipeline.regions_of",
    "hybridcc.passes.rewrite.prompt.build",
    "hybridcc.passes.rewrite.answer.check",
    "hybridcc.judging.splice",
    "hybridcc.runtime.limits.check_launch_limits",
    "hybridcc.judging.reference_for",
    "hybridcc.judging.examine",
    "hybridcc.passes.verify.proving.prove",
    "hybridcc.passes.rewrite.open_rewriter",
)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    recording = record(tmp_path_factory.mktemp("recordings") / "sum.jsonl", four_at_a_time())
    return {
        "ptx": SUM.read_text(), "name": "sum.ptx", "arch": "sm_80", "flags": [], "ptxas": str(find("ptxas").path),
        "rewriter": f"replay:{recording}", "seconds": 60,
    }  # fmt: skip


@pytest.mark.parametrize("number", range(len(STAGES)), ids=STAGES)
def test_a_stage_that_fails(number: int, task: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """By an error of its own, or by a fault of hybridcc: test_dropin.py shows that without one it is rewritten."""
    stage = STAGES[number]

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("fault") if number % 2 else HybridccError("fault", next_step="none")

    monkeypatch.delenv("HYBRIDCC_DEBUG", raising=False)
    monkeypatch.setattr(stage, fail)
    answer = worker.improve(task)
    assert answer["ptx"] is None
    (said,) = answer["notes"]
    assert said.startswith("passed through: ")
