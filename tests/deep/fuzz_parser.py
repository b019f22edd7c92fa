"""A hundred thousand broken PTX texts through the parser, in a child with bounded memory and time; resumable.

Run from the checkout: python -m tests.deep.fuzz_parser [--count N] [--seed N] [--out FILE]
A run that was stopped goes on from its result file. Exit code 1 if any text gave anything but a module or a
diagnostic.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import signal
import subprocess
import sys
from pathlib import Path

from tests.ptx.mutations import mutant
from tests.ptx.surviving import check

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "fuzz_parser.json"
BATCH = 1_000
MEMORY = 2 << 30
"""Bytes of address space a child may use."""
SECONDS = 30
"""CPU seconds one text may take; parsing it takes milliseconds."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=20_261_201)
    arguments.add_argument("--out", type=Path, default=RESULT)
    arguments.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.batch is not None:
        return _batch(given.seed, given.batch, min(BATCH, given.count - given.batch))
    state = _load(given.out, given.seed)
    while state["done"] < given.count:
        _run(state, given.seed, given.count)
        given.out.write_text(json.dumps(state, indent=2) + "\n")
        print(f"{state['done']} of {given.count}: {state['modules']} modules, {state['refused']} refused, "
              f"{len(state['failures'])} failures", flush=True)  # fmt: skip
    return 1 if state["failures"] else 0


def _load(path: Path, seed: int) -> dict:
    fresh = {
        "seed": seed, "done": 0, "modules": 0, "refused": 0, "failures": [], "cpu_seconds": 0.0,
        "python": platform.python_version(),
        "what": "mutant(seed, i) of tests/ptx/mutations.py, i from 0; check() of tests/ptx/surviving.py",
    }  # fmt: skip
    state = json.loads(path.read_text()) if path.exists() else fresh
    return state if state["seed"] == seed else fresh


def _run(state: dict, seed: int, count: int) -> None:
    """One batch in a child; a child that dies is the failure of the text that it was at."""
    first = state["done"]
    command = [sys.executable, "-m", "tests.deep.fuzz_parser", "--batch", str(first), "--seed", str(seed)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    child = subprocess.run([*command, "--count", str(count)], stdout=subprocess.PIPE, text=True, check=False)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    state["cpu_seconds"] = round(state["cpu_seconds"] + spent, 1)
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.endswith("}")]
    for line in lines:
        state["modules"] += line["outcome"] == "module"
        state["refused"] += line["outcome"] == "refused"
        if line["outcome"] not in ("module", "refused"):
            state["failures"].append({"index": line["index"], "outcome": line["outcome"]})
    reached = lines[-1]["index"] + 1 if lines else first
    if child.returncode:
        state["failures"].append({"index": reached, "outcome": f"the process ended with {child.returncode}"})
        reached += 1
    state["done"] = reached


def _batch(seed: int, first: int, count: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for index in range(first, first + count):
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            outcome = "module" if check(mutant(seed, index)) else "refused"
        except Exception as error:
            outcome = f"{type(error).__name__}: {str(error)[:200]}"
        print(json.dumps({"index": index, "outcome": outcome}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
