"""Starting costs nothing: no heavy import until it is needed."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "networkx", "numba", "scipy", "torch", "rich", "typer", "transformers", "jinja2", "cuda")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def milliseconds(*arguments: str) -> float:
    """Median over seven processes, after one to warm the caches."""
    times = []
    for _ in range(8):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, env=ENVIRONMENT, cwd=ROOT)
        times.append((time.perf_counter() - begin) * 1e3)
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
    """Net of the interpreter's own start. The bound leaves a busy machine twice the 50 ms promised."""
    assert milliseconds("-c", "import hybridcc") - milliseconds("-c", "pass") < 100


def test_help_takes_under_200_ms() -> None:
    """As a user waits for it, interpreter and all; the bound leaves a busy machine twice the 200 ms promised."""
    assert milliseconds("-m", "hybridcc", "--help") < 400


def test_help_loads_no_library_of_the_work() -> None:
    code = "import sys; sys.argv = ['hybridcc', '--help']\nfrom hybridcc.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass"
    assert loaded_by(code) <= {"rich", "typer"}
