"""A part of numba-cuda's own test-suite with ``numba.cuda.jit``, and again with ``hybridcc.jit`` in its place.

The tests are those that the numba-cuda wheel brings (``numba.cuda.tests``): what is listed in MODULES, for kernels,
launches and arrays. Ways: ``stock`` is Numba; ``hybridcc`` puts ``hybridcc.jit`` there; ``variant`` also launches
hybridcc's own compilation of every kernel that it can compile, through the path of a selected variant. Each module
runs in a process of its own in each way. A test that passes in one way and not in another is run again in all ways, and
is listed with the reason. Exit status 0 when there is none, 1 otherwise.

    python benchmarks/numba_suite.py [--ways stock,hybridcc,variant] [--processes 12] [--budget-s 330] [--json FILE]

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import facts, use_checkout

use_checkout()

WORKER = Path(__file__).with_name("numba_suite_worker.py")
WAYS = ("stock", "hybridcc", "variant")
MODULE_S = 150.0
"""A module that takes longer in one way is ended; Numba's slowest here takes a third of it."""

_CUDAPY = (
    "atomics", "vectorize", "dispatcher", "errors", "device_func", "inspect", "forall", "serialize", "array",
    "array_args", "array_methods", "array_alignment", "alignment", "boolean", "casting", "complex_kernel",
    "constmem", "cooperative_groups", "cuda_array_interface", "cuda_jit_no_types", "datetime", "debug", "enums",
    "exception", "extending", "fastmath", "freevar", "globals", "gufunc", "gufunc_scalar", "idiv", "intrinsics",
    "iterators", "lang", "laplace", "launch_config_sensitive", "lineinfo", "localmem", "mandel", "matmul", "minmax",
    "montecarlo", "multithreads", "multiprocessing", "nondet", "operator", "optimization", "overload", "powi",
    "print", "py2_div_issue", "random", "record_dtype", "recursion", "reduction", "retrieve_autoconverted_arrays",
    "slicing", "sm", "sm_creation", "ssa", "stream_api", "sync", "transpose", "typeinfer", "userexc", "vector_type",
    "vectorize_device", "warning", "warp_ops", "caching", "blackscholes", "device_array_capture", "const_string",
    "frexp_ldexp", "flow_control", "tracing", "ufuncs",
)  # fmt: skip
_CUDADRV = (
    "cuda_ndarray", "cuda_array_slicing", "streams", "events", "context_stack", "cuda_auto_context",
    "cuda_devicerecord", "array_attr", "linker", "pinned", "module_callbacks", "linkable_code", "select_device",
    "reset_device", "deallocations", "profiler",
)  # fmt: skip
_EXAMPLES = (
    "cg", "cpointer", "laplace", "matmul", "montecarlo", "random", "reduction", "sessionize", "ufunc", "vecadd",
    "globals",
)  # fmt: skip
MODULES = (
    *(f"numba.cuda.tests.cudapy.test_{name}" for name in _CUDAPY),
    *(f"numba.cuda.tests.cudadrv.test_{name}" for name in _CUDADRV),
    *(f"numba.cuda.tests.doc_examples.test_{name}" for name in _EXAMPLES),
    *("numba.cuda.tests.core.test_serialize", "numba.cuda.tests.nrt.test_nrt"),
)
"""Left out: what never sees ``jit`` (NVVM, NVRTC, the mangler), what asks for managed memory, FileCheck of debug
information, and tests that take minutes each."""

REHEARSED = ("forall", "laplace", "lang", "device_func")


@dataclass(slots=True)
class Ran:
    """One module in one way: outcome and reason by test."""

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
            left = min(MODULE_S, deadline - time.monotonic())
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


def run_all(modules: Sequence[str], ways: Sequence[str], processes: int, deadline: float) -> list[Ran]:
    """All ways of a module go side by side, so that what runs out of time does so in all of them."""
    jobs = [(module, way) for module in modules for way in ways]
    count, lock = Counter[str](), threading.Lock()

    def one(job: tuple[str, str]) -> Ran:
        ran = run_module(*job, deadline)
        with lock:
            count["done"] += 1
            short = ran.module.removeprefix("numba.cuda.tests.")
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
    unfinished = {(ran.module, ran.way) for ran in rans if ran.trouble}
    found = []
    for test, outcomes in table.items():
        for way in ways:
            if way not in outcomes and (modules[test], way) not in unfinished:
                outcomes[way] = ("missing", "")
        if len({outcome for outcome, _ in outcomes.values()}) > 1:
            found.append({"test": test, "module": modules[test], "outcomes": outcomes})
    return found


def again(found: Sequence[dict[str, Any]], ways: Sequence[str], deadline: float) -> None:
    """Run what differed once more, each module alone; ``again`` is added, and ``differs`` where it differed again."""
    for module in sorted({each["module"] for each in found}):
        mine = [each for each in found if each["module"] == module]
        rans = {way: run_module(module, way, deadline, [each["test"] for each in mine]) for way in ways}
        for each in mine:
            each["again"] = {
                way: ran.outcomes[each["test"]] for way, ran in rans.items() if each["test"] in ran.outcomes
            }
    for each in found:
        outcomes = {outcome for outcome, _ in each.get("again", {}).values()}
        each["differs"] = len(outcomes) > 1 or len(each.get("again", {})) < len(ways)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--modules", help="a comma-separated part of the list, by the ends of their names")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--budget-s", type=float, default=330.0)
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
    rans = run_all(modules, ways, given.processes, begin + given.budget_s)
    found = differences(rans, ways)
    again(found, ways, begin + given.budget_s + 60)
    seconds = round(time.monotonic() - begin, 1)
    _tell(rans, found, ways, seconds)
    if given.json:
        data = {
            "machine": facts(),
            "rehearsal": given.rehearse,
            "seconds": seconds,
            "ways": {way: _counts(rans, way) for way in ways},
            "differences": found,
            "modules": [
                {"module": r.module, "way": r.way, "seconds": r.seconds, "trouble": r.trouble, "tests": len(r.outcomes)}
                for r in rans
            ],
            "not_passed": {t: o for r in rans if r.way == "stock" for t, o in r.outcomes.items() if o[0] != "passed"},
        }
        given.json.write_text(json.dumps(data, indent=1) + "\n")
    return 1 if any(each["differs"] for each in found) else 0


def _counts(rans: Sequence[Ran], way: str) -> dict[str, int]:
    mine = [ran for ran in rans if ran.way == way]
    outcomes = Counter(outcome for ran in mine for outcome, _ in ran.outcomes.values())
    unfinished = sum(bool(ran.trouble) for ran in mine)
    launches = sum(ran.variant_launches for ran in mine)
    return {**outcomes, "variant_launches": launches, "modules": len(mine), "modules_unfinished": unfinished}


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
