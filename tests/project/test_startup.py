"""Starting costs nothing: no heavy import until it is needed."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "networkx", "numba", "scipy", "torch", "rich", "typer", "transformers", "jinja2", "cuda")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def milliseconds(*arguments: str) -> float:
    """Median processor time over seven processes, after one to warm the caches. What else the machine does is not
    in it; nor is waiting, of which starting does none."""
    times = []
    for _ in range(8):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, env=ENVIRONMENT, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3)
    return statistics.median(times[1:])


def loaded_by(code: str) -> set[str]:
    report = "import sys; print(' '.join({name.split('.')[0] for name in sys.modules}))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT, cwd=ROOT)
    return set(done.stdout.split()) & set(HEAVY)


@pytest.mark.parametrize("module", ["hybridcc", "hybridcc.ptx", "hybridcc.errors", "hybridcc.passes.kernel"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def test_import_takes_under_50_ms() -> None:
    assert milliseconds("-c", "import hybridcc") - milliseconds("-c", "pass") < 50


def test_help_takes_under_200_ms() -> None:
    """Interpreter and all."""
    assert milliseconds("-m", "hybridcc", "--help") < 200


def test_help_loads_no_library_of_the_work() -> None:
    code = "import sys; sys.argv = ['hybridcc', '--help']\nfrom hybridcc.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass"
    assert loaded_by(code) <= {"rich", "typer"}
