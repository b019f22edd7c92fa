"""Some modules of numba-cuda's own tests in one way, outcome by outcome into a file; started by numba_suite.py.

    python benchmarks/numba_suite_worker.py WAY MODULE,MODULE OUTCOMES [--only FILE] [--skip FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import types
import unittest
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from machine import use_checkout

use_checkout()

DEAD_CONTEXT = 7
"""Exit status: a test has left the GPU context unusable, and the next one needs a fresh process."""

SAMPLED = {"atomics": 4, "intrinsics": 4}
"""Of these modules every so many-th test runs: they have one test per type and operation."""

_STICKY = ("ILLEGAL_ADDRESS", "LAUNCH_FAILED", "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS", "ASSERT", "HARDWARE_STACK")


_STAND_INS = {
    "filecheck": {
        "matcher": ["Matcher"], "options": ["Options"], "parser": ["Parser", "pattern_for_opts"], "finput": ["FInput"],
    },
    "cffi": {"": ["FFI"]},
}  # fmt: skip
"""What numba.cuda.testing and single tests import without being asked: package, modules, names."""


def stand_in_for_what_is_missing() -> None:
    """The tests that use a package that is not installed are skipped, and not the whole module."""
    for module in ("numba.cuda.typing.cffi_utils", "numba.core.typing.cffi_utils"):
        import_module(module)  # Numba looks for the real one here

    for package, modules in _STAND_INS.items():
        if find_spec(package) is not None:
            continue

        def skip(*_: Any, package: str = package, **__: Any) -> None:
            raise unittest.SkipTest(f"{package} is not installed")

        sys.modules[package] = types.ModuleType(package)
        for name, members in modules.items():
            full = f"{package}.{name}" if name else package
            module = sys.modules.setdefault(full, types.ModuleType(full))
            for member in members:
                setattr(module, member, skip)


def put_in_place(way: str) -> list[int]:
    """Put ``hybridcc.jit`` where ``numba.cuda.jit`` is; returns [launches of variants], which then counts."""
    count = [0]
    from hybridcc.frontends.numba import prepare

    prepare()
    if way == "stock":
        return count
    import hybridcc

    import_module("numba.cuda").__dict__["jit"] = hybridcc.jit
    if way == "variant":
        select_everything(count)
    return count


def select_everything(count: list[int]) -> None:
    """Every kernel that hybridcc can compile launches hybridcc's own unchanged compilation of it, through the path
    that a selected variant takes."""
    from hybridcc.errors import HybridccError
    from hybridcc.runtime import device
    from hybridcc.runtime.assemble import assemble
    from hybridcc.runtime.dispatcher import Configured
    from hybridcc.runtime.launch import Launcher, LoadedKernel

    class Counting(Launcher):
        def launch(self, geometry: Any, flat: Any) -> str:
            trouble = super().launch(geometry, flat)
            count[0] += not trouble
            return trouble

    original = Configured.__call__

    def launch(self: Configured, *args: Any) -> None:
        kernel = self.dispatcher
        tried: set[Any] = kernel.__dict__.setdefault("_tried", set())
        try:
            found = kernel.types_of(args)
            if found not in tried and not kernel.targetoptions["debug"]:
                tried.add(found)
                compiled = kernel.compile_for(found, device.current().arch)
                loaded = LoadedKernel(assemble(compiled.ptx, compiled.arch).bytes, compiled.entry)
                kernel.use(Counting(loaded, compiled.arguments, found, lenient=kernel.converts), found)
        except HybridccError:
            pass  # such a kernel stays with Numba in real use too
        original(self, *args)

    Configured.__call__ = launch  # pyright: ignore[reportAttributeAccessIssue]


class Outcomes(unittest.TestResult):
    """One JSON line when a test begins and one when it ends."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("a", buffering=1)
        self._begin = 0.0
        self._told = False

    def tell(self, test: Any, outcome: str, why: str = "") -> None:
        self._told = True
        seconds = round(time.perf_counter() - self._begin, 3)
        self.line(test=test.id(), outcome=outcome, why=why, seconds=seconds)
        if any(word in why for word in _STICKY) and "CUDA" in why:
            self._file.flush()
            os._exit(DEAD_CONTEXT)

    def line(self, **data: Any) -> None:
        self._file.write(json.dumps(data) + "\n")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._begin, self._told = time.perf_counter(), False
        self.line(begin=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:
        if not self._told:
            self.tell(test, "passed")
        super().stopTest(test)

    def addError(self, test: Any, err: Any) -> None:
        self.tell(test, "failed", _last(err))

    def addFailure(self, test: Any, err: Any) -> None:
        self.tell(test, "failed", _last(err))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None and not self._told:
            self.tell(test, "failed", _last(err))

    def addSkip(self, test: Any, reason: str) -> None:
        self.tell(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.tell(test, "passed", "as expected, it fails")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.tell(test, "failed", "it was expected to fail, and did not")


def _last(err: Any) -> str:
    kind, value, trace = err
    frames = []
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{kind.__name__}: {str(value)[-1200:]} [{' < '.join(reversed(frames[-5:]))}]"


def tests_of(suite: unittest.TestSuite) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        else:
            yield each


def sampled(module: str) -> list[Any]:
    """The module's tests, or every so many-th of them."""
    found = list(tests_of(unittest.defaultTestLoader.loadTestsFromName(module)))
    return found[:: SAMPLED.get(module.rpartition("test_")[2], 1)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["stock", "hybridcc", "variant"])
    parser.add_argument("modules")
    parser.add_argument("outcomes", type=Path)
    parser.add_argument("--only", type=Path)
    parser.add_argument("--skip", type=Path)
    given = parser.parse_args()
    count = put_in_place(given.way)
    stand_in_for_what_is_missing()
    try:
        from numba.cuda.testing import CUDATestCase

        CUDATestCase._dump_failed_filechecks = False  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        pass
    only = set(given.only.read_text().split("\n")) if given.only else None
    skip = set(given.skip.read_text().split("\n")) if given.skip else set()
    found = [test for module in given.modules.split(",") for test in sampled(module)]
    chosen = [t for t in found if t.id() not in skip and (only is None or t.id() in only)]
    result = Outcomes(given.outcomes)
    unittest.TestSuite(chosen).run(result)
    result.line(variant_launches=count[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
