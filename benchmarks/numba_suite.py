"""A part of numba-cuda's own test-suite with ``numba.cuda.jit``, and again with ``hybridcc.jit`` in its place.

The tests are those that the numba-cuda wheel brings (``numba.cuda.tests``): what is listed in MODULES, for kernels,
launches and arrays. Ways: ``stock`` is Numba; ``hybridcc`` puts ``hybridcc.jit`` there; ``variant`` also launches
hybridcc's own compilation of every kernel that it can compile, through the path of a selected variant. Modules go
in batches, each in a process of its own in each way. A test that passes in one way and not in another is run again in
all ways, and is listed with the reason. The JSON file is written anew after each batch. Exit status 0 when no test
differs, 1 otherwise.

    python benchmarks/numba_suite.py [--ways stock,hybridcc,variant] [--processes 14] [--budget-s 300] [--json FILE]

Without a GPU, ``--rehearse`` runs a few modules on Numba's simulator: it tries this program, not hybridcc.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from machine import facts, use_checkout

use_checkout()

from numba_suite_worker import SAMPLED  # noqa: E402

WORKER = Path(__file__).with_name("numba_suite_worker.py")
WAYS = ("stock", "hybridcc", "variant")
PROCESS_S = 120.0
"""A process that takes longer is ended, and what it had not run yet goes to another."""

BATCH = 24
"""About so many tests share a process: starting one costs seconds, and ending one early costs its tests."""

AGAIN_S = 45.0
"""Of the budget, kept for what differs."""

_CUDAPY = (
    "dispatcher", "errors", "forall", "launch_config_sensitive", "cuda_jit_no_types", "device_func", "inspect",
    "serialize", "extending", "warning", "debug", "exception", "userexc", "array", "array_args", "array_methods",
    "array_alignment", "alignment", "retrieve_autoconverted_arrays", "cuda_array_interface", "record_dtype",
    "slicing", "localmem", "sm", "sm_creation", "constmem", "sync", "cooperative_groups", "stream_api",
    "multithreads", "multiprocessing", "transpose", "reduction", "matmul", "laplace", "mandel", "montecarlo",
    "blackscholes", "lang", "globals", "freevar", "boolean", "casting", "complex_kernel", "datetime", "enums",
    "idiv", "py2_div_issue", "nondet", "optimization", "fastmath", "lineinfo", "print", "recursion", "iterators",
    "vector_type", "vectorize", "gufunc_scalar", "atomics", "intrinsics", "device_array_capture", "const_string",
)  # fmt: skip
_CUDADRV = (
    "cuda_ndarray", "cuda_array_slicing", "streams", "events", "context_stack", "cuda_auto_context",
    "cuda_devicerecord", "array_attr", "pinned",
)  # fmt: skip
MODULES = (
    *(f"numba.cuda.tests.cudapy.test_{name}" for name in _CUDAPY),
    *(f"numba.cuda.tests.cudadrv.test_{name}" for name in _CUDADRV),
    *("numba.cuda.tests.core.test_serialize", "numba.cuda.tests.doc_examples.test_cg"),
)
"""Kernels, launches and arrays. Left out: what never sees ``jit`` (NVVM, NVRTC, the mangler), what asks for managed
memory, linking of other code, the disk cache, ufuncs, and what is about the language alone. Of the modules in
numba_suite_worker.SAMPLED, which have many tests alike, only every so many-th test runs."""

REHEARSED = ("forall", "laplace", "lang", "device_func")


@dataclass(slots=True)
class Ran:
    """A batch of modules (their names, with commas) in one way: outcome and reason by test."""

    module: str
    way: str
    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)
    variant_launches: int = 0
    seconds: float = 0.0
    trouble: str = ""


def run_module(module: str, way: str, deadline: float, only: Sequence[str] = ()) -> Ran:
    """In fresh processes until every test has an outcome: one that crashes or hangs is given that for an outcome."""
    ran = Ran(module, way)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hybridcc-suite-") as folder:
        place = Path(folder)
        for _ in range(12):
            left = min(PROCESS_S, deadline - time.monotonic())
            if left <= 1:
                ran.trouble = "not finished: the time was up"
                break
            status, said = _worker(module, way, place, left, only, tuple(ran.outcomes))
            running = _read(place / "outcomes", ran)
            if status == 0:
                break
            if running:
                ran.outcomes[running] = ("failed", f"the process ended with {status}: {said}")
            elif status != 7:
                ran.trouble = f"the process ended with {status}: {said}"
                break
    ran.seconds = round(time.monotonic() - begin, 1)
    return ran


def _worker(
    module: str, way: str, place: Path, left_s: float, only: Sequence[str], done: Sequence[str]
) -> tuple[int, str]:
    """(exit status, last line of its standard error)."""
    command = [sys.executable, str(WORKER), way, module, str(place / "outcomes")]
    for option, names in (("--only", only), ("--skip", done)):
        if names:
            (place / option).write_text("\n".join(names))
            command += [option, str(place / option)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(place / "cache"), "HYBRIDCC_CACHE": str(place / "store")}
    with (place / "said").open("wb") as said:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, cwd=place,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = child.wait(left_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with whatever processes its tests have started
            child.wait()
            return -9, f"ended after {left_s:.0f} s"
    lines = (place / "said").read_text(errors="replace").strip().splitlines()
    return status, lines[-1][-300:] if lines else ""


def _read(path: Path, ran: Ran) -> str:
    """The outcomes so far into ``ran``; returns the test that was running when the process ended."""
    running = ""
    for line in path.read_text().splitlines() if path.exists() else []:
        told = json.loads(line)
        if "begin" in told:
            running = told["begin"]
        elif "test" in told:
            ran.outcomes[told["test"]] = (told["outcome"], told["why"])
            running = ""
        else:
            ran.variant_launches = told["variant_launches"]
    return running if running not in ran.outcomes else ""


def batches(modules: Sequence[str]) -> list[str]:
    """Modules packed to about BATCH tests, the largest first: what takes longest must not begin last."""
    sizes = sorted(((_size(module), module) for module in modules), reverse=True)
    packed: list[tuple[int, list[str]]] = []
    for size, module in sizes:
        place = next((k for k, (taken, _) in enumerate(packed) if taken + size <= BATCH), None)
        if place is None:
            packed.append((size, [module]))
        else:
            packed[place] = (packed[place][0] + size, [*packed[place][1], module])
    return [",".join(names) for _, names in packed]


def _size(module: str) -> int:
    """How many tests its text holds; a guess, for packing."""
    package = find_spec("numba_cuda")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / f"{module.replace('.', '/')}.py"
    if not path.exists():
        return 1
    return path.read_text().count("    def test_") // SAMPLED.get(module.rpartition("test_")[2], 1)


def run_all(
    jobs: Sequence[tuple[str, str]], processes: int, deadline: float, finished: Callable[[Ran], None]
) -> list[Ran]:
    """Batches in ways, in this order."""
    count, lock = Counter[str](), threading.Lock()

    def one(job: tuple[str, str]) -> Ran:
        ran = run_module(*job, deadline)
        with lock:
            count["done"] += 1
            finished(ran)
            short = " ".join(name.rpartition("test_")[2] for name in ran.module.split(","))
            outcomes = dict(Counter(outcome for outcome, _ in ran.outcomes.values()))
            done = f"{count['done']:4d}/{len(jobs)}"
            print(f"{done} {short} {ran.way} {ran.seconds} s {outcomes} {ran.trouble}", flush=True)
        return ran

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(one, jobs))


def differences(rans: Sequence[Ran], ways: Sequence[str]) -> list[dict[str, Any]]:
    """Tests that do not come out alike in all ways, with each way's outcome and reason. A module that one way did not
    finish says nothing about the tests that are missing there."""
    table: dict[str, dict[str, tuple[str, str]]] = {}
    modules: dict[str, str] = {}
    for ran in rans:
        for test, outcome in ran.outcomes.items():
            table.setdefault(test, {})[ran.way] = outcome
            modules[test] = ran.module
    finished = {(ran.module, ran.way) for ran in rans if not ran.trouble}
    found = []
    for test, outcomes in table.items():
        for way in ways:
            if way not in outcomes and (modules[test], way) in finished:
                outcomes[way] = ("missing", "")
        if len({outcome for outcome, _ in outcomes.values()}) > 1:
            found.append({"test": test, "module": modules[test], "outcomes": outcomes})
    return found


def again(found: Sequence[dict[str, Any]], ways: Sequence[str], processes: int, deadline: float) -> None:
    """Run what differed once more, with few processes at a time; ``again`` is added, and ``differs`` where it differed
    again or there was no time to see."""
    batch: dict[str, list[str]] = {}
    for each in found:
        batch.setdefault(each["module"], []).append(each["test"])
    jobs = [(module, way) for module in sorted(batch) for way in ways]
    with ThreadPoolExecutor(min(4, processes)) as pool:
        ran = pool.map(lambda job: run_module(job[0], job[1], deadline, batch[job[0]]), jobs)
        rans = dict(zip(jobs, ran, strict=True))
    for each in found:
        outcomes = {way: rans[each["module"], way].outcomes.get(each["test"]) for way in ways}
        each["again"] = {way: outcome for way, outcome in outcomes.items() if outcome is not None}
        each["differs"] = len({outcome for outcome, _ in each["again"].values()}) > 1 or len(each["again"]) < len(ways)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--modules", help="a comma-separated part of the list, by the ends of their names")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--budget-s", type=float, default=300.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    ways = tuple(given.ways.split(","))
    modules = MODULES
    if given.rehearse:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        ways = ("stock", "hybridcc")
        given.modules = given.modules or ",".join(REHEARSED)
    if given.modules:
        ends = tuple(f"test_{name}" for name in given.modules.split(","))
        modules = tuple(module for module in MODULES if module.endswith(ends))
    begin = time.monotonic()
    jobs = [(batch, way) for batch in batches(modules) for way in ways]  # ways side by side: short of time, all are
    rans: list[Ran] = []

    def write(found: Sequence[dict[str, Any]]) -> None:
        if given.json:
            data = _data(rans, found, ways, len(jobs), round(time.monotonic() - begin, 1), given.rehearse)
            given.json.with_suffix(".part").write_text(json.dumps(data, indent=1) + "\n")
            given.json.with_suffix(".part").replace(given.json)

    def finished(ran: Ran) -> None:
        rans.append(ran)
        write(differences(rans, ways))

    run_all(jobs, given.processes, begin + given.budget_s - AGAIN_S, finished)
    found = differences(rans, ways)
    again(found, ways, given.processes, begin + given.budget_s)
    write(found)
    _tell(rans, found, ways, round(time.monotonic() - begin, 1))
    return 1 if any(each["differs"] for each in found) else 0


_machine = cache(facts)


def _data(
    rans: Sequence[Ran],
    found: Sequence[dict[str, Any]],
    ways: Sequence[str],
    jobs: int,
    seconds: float,
    rehearsal: bool,
) -> dict[str, Any]:
    """What is known so far; ``jobs_left`` is 0 when it is all."""
    return {
        "machine": _machine(),
        "rehearsal": rehearsal,
        "seconds": seconds,
        "jobs_left": jobs - len(rans),
        "sampled": dict(SAMPLED),
        "ways": {way: _counts(rans, way) for way in ways},
        "differences": found,
        "batches": [
            {"modules": r.module, "way": r.way, "seconds": r.seconds, "trouble": r.trouble, "tests": len(r.outcomes)}
            for r in rans
        ],
        "not_passed": {t: o for r in rans if r.way == "stock" for t, o in r.outcomes.items() if o[0] != "passed"},
    }


def _counts(rans: Sequence[Ran], way: str) -> dict[str, int]:
    mine = [ran for ran in rans if ran.way == way]
    outcomes = Counter(outcome for ran in mine for outcome, _ in ran.outcomes.values())
    unfinished = sum(bool(ran.trouble) for ran in mine)
    launches = sum(ran.variant_launches for ran in mine)
    return {**outcomes, "variant_launches": launches, "batches": len(mine), "batches_unfinished": unfinished}


def _tell(rans: Sequence[Ran], found: Sequence[dict[str, Any]], ways: Sequence[str], seconds: float) -> None:
    for way in ways:
        print(f"{way}: {_counts(rans, way)}")
    real = [each for each in found if each["differs"]]
    print(f"{seconds} s; {len(real)} tests differ between the ways, {len(found) - len(real)} more did once")
    for each in real:
        print(each["test"])
        for way, (outcome, why) in each.get("again", each["outcomes"]).items():
            print(f"    {way}: {outcome} {why[-300:]}")


if __name__ == "__main__":
    sys.exit(main())
