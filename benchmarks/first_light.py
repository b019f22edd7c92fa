"""The whole path on a GPU: three kernels as a Numba user writes them, through ``optimize``, against stock and CUDA C++.

Stock Numba, hybridcc and the same algorithm in CUDA C++ (NVRTC, same launch shape) are timed in one run: in every
block each once, in shuffled order, by CUDA events round a batch that follows an equal batch, so that the GPU never
waits for the host. Outputs are poisoned before and compared bit for bit with stock after. L2 policy: every launch of
a kernel uses the same buffers; those of conv1d and colsum are several times the cache, matmul_naive's fit in it.

    python benchmarks/first_light.py [--out FOLDER]     on a machine with a GPU
    python benchmarks/first_light.py --rehearse         everything that needs none

Whatever fails is printed and stands in the JSON under ``failures``; the rest still runs.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import random
import statistics
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from machine import ROOT, facts, use_checkout

use_checkout()

BLOCKS = 25
BATCH_US = 5000.0
NAMES = ("numba", "hybridcc", "cuda c++")

CUDA_CPP = r"""
extern "C" {
__global__ void conv1d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float s = 0; for (int j = 0; j < k; j++) s += x[i + j] * w[j]; y[i] = s; }
}
__global__ void colsum(const float* __restrict__ a, float* __restrict__ y, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < columns) { float s = 0; for (int j = 0; j < rows; j++) s += a[(size_t)j * columns + i]; y[i] = s; }
}
__global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                             int m, int n, int k) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && j < n) { float t = 0; for (int l = 0; l < k; l++) t += a[i * k + l] * b[l * n + j]; c[i * n + j] = t; }
}
}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel: its launch, its arrays (the last is the output), what CUDA C++ takes besides, and how many times
    stock it is expected to reach at least."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]
    expected: float

    def arrays(self) -> list[np.ndarray]:
        generator = np.random.default_rng(1)
        return [*(generator.random(shape, np.float32) for shape in self.shapes[:-1]), np.empty(self.shapes[-1], "f4")]

    @property
    def least_bytes(self) -> int:
        """Each input read once, the output written once."""
        return 4 * sum(int(np.prod(shape)) for shape in self.shapes)


N = 1 << 26
CASES = (
    Case("conv1d", ((N - 64) // 256,), (256,), ((N,), (31,), (N - 64,)), (N - 64, 31), 5.0),
    Case("colsum", (64,), (256,), ((4096, 16384), (16384,)), (4096, 16384), 3.0),
    Case("matmul_naive", (32, 128), (32, 8), ((1024, 1024),) * 3, (1024, 1024, 1024), 4.0),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--rehearse", action="store_true", help="run every part that needs no GPU")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of racing per kernel")
    parser.add_argument("--accept", choices=["proved", "tested"], default="proved", help="the least verdict that races")
    parser.add_argument("--only", choices=[case.name for case in CASES])
    given = parser.parse_args()
    results: dict[str, Any] = {"accept": given.accept, "machine": {}, "kernels": {}, "failures": []}
    cases = [case for case in CASES if given.only in (None, case.name)]
    attempt(results, "machine", lambda: results.update(machine=facts()))
    for case in cases:
        part = rehearse if given.rehearse else measure
        attempt(results, case.name, lambda case=case, part=part: part(case, results, given))
    if not given.rehearse:
        attempt(results, "launch cost", lambda: launch_cost(results))
        attempt(results, "machine", lambda: results.update(machine_after=facts()))
        write(results, given.out)
    summary(results)
    return 1 if results["failures"] else 0


def attempt(results: dict[str, Any], part: str, action: Callable[[], object]) -> None:
    """Run one part; what it raises is recorded, and the others still run."""
    try:
        action()
    except Exception as error:  # a benchmark's parts are independent, and a run on a lent GPU must not be lost
        traceback.print_exc()
        results["failures"].append({"part": part, "error": f"{type(error).__name__}: {error}"})
        print(f"FAILED {part}: {error}", flush=True)


def show(progress: str) -> None:
    if ", input " not in progress:  # one line per launch of the executor
        print(f"  {progress}", flush=True)


def kernel_of(case: Case) -> Any:
    """The example's decorated kernel; its recording lies beside it."""
    from hybridcc.frontends.numba import prepare

    prepare()
    return getattr(importlib.import_module(case.name), case.name)


# --- with a GPU ---


def measure(case: Case, results: dict[str, Any], given: argparse.Namespace) -> None:
    from numba import cuda

    print(f"\n== {case.name}", flush=True)
    row: dict[str, Any] = {"expected_at_least": case.expected, "least_bytes": case.least_bytes}
    results["kernels"][case.name] = row
    kernel = kernel_of(case)
    host = case.arrays()
    arrays = [cuda.to_device(array) for array in host]
    stock = kernel.stock[case.grid, case.block]
    outcome = kernel[case.grid, case.block].optimize(
        *arrays, accept=given.accept, budget_s=given.budget, reuse=False, progress=show
    )
    print(outcome.text, flush=True)
    row["optimize"] = optimize_facts(outcome)
    launches: dict[str, Callable[[], object]] = {"numba": lambda: stock(*arrays)}
    configured = kernel[case.grid, case.block]
    launches["hybridcc"] = lambda: configured(*arrays)
    try:
        launches["cuda c++"] = cuda_cpp(case, arrays)
    except Exception as error:  # the other two are still worth their time
        results["failures"].append({"part": f"{case.name} cuda c++", "error": f"{type(error).__name__}: {error}"})
        print(f"FAILED {case.name} cuda c++: {error}", flush=True)
    before = outputs(launches, arrays[-1])
    row["times"] = times(launches)
    after = outputs(launches, arrays[-1])
    wanted = before["numba"]
    row["bit_for_bit_with_stock"] = {
        name: {"before": np.array_equal(before[name], wanted), "after": np.array_equal(after[name], wanted)}
        for name in launches
    }
    row["largest_relative_difference_from_stock"] = {
        name: float(np.max(np.abs(before[name].view("f4") / wanted.view("f4") - 1))) for name in launches
    }
    median = {name: row["times"][name]["median_us"] for name in launches}
    row["speedup_over_stock"] = {name: median["numba"] / median[name] for name in launches}
    row["bytes_per_second"] = {name: case.least_bytes / median[name] * 1e6 for name in launches}


def optimize_facts(outcome: Any) -> dict[str, Any]:
    from dataclasses import asdict

    raced = outcome.race
    record = outcome.record
    return {
        "selection": asdict(outcome.selection),
        "seconds": outcome.seconds,
        "failures": [asdict(failure) for failure in outcome.failures],
        "candidates": [] if record is None else [
            {
                "name": c.name, "fate": asdict(c.fate), "speed": asdict(c.speed),
                "verdict": None if c.evidence is None else str(c.evidence.verdict),
                "registers": None if c.machine is None else c.machine.cubin.registers,
            }
            for c in record.architectures[0].candidates
        ],
        "race": None if raced is None else {
            "void": raced.void, "facts": dict(raced.facts), "noise_floor": raced.noise_floor, "checks": raced.checks,
            "control": None if raced.control is None else asdict(raced.control),
            "measurements": {name: asdict(m) for name, m in raced.measurements.items()},
            "deviations": [asdict(d) for d in raced.deviations],
            "samples": len(raced.samples),
        },
    }  # fmt: skip


def cuda_cpp(case: Case, arrays: Sequence[Any]) -> Callable[[], object]:
    """The kernel in CUDA C++ at the same launch shape, its parameters prepared."""
    from benchmarks import cuda_cpp as compiler
    from hybridcc.runtime.device import current
    from hybridcc.runtime.driver import bindings, call
    from hybridcc.runtime.launch import LoadedKernel, geometry

    loaded = LoadedKernel(compiler.compile(CUDA_CPP, current().arch).cubin, case.name)
    addresses = [array.__cuda_array_interface__["data"][0] for array in arrays]
    layout = f"@{len(addresses)}Q{len(case.extents)}i"
    memory = ctypes.create_string_buffer(struct.pack(layout, *addresses, *case.extents))
    base = ctypes.addressof(memory)
    offsets = [8 * i for i in range(len(addresses))]
    offsets += [8 * len(addresses) + 4 * i for i in range(len(case.extents))]
    pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
    shape, address = geometry(case.grid, case.block), ctypes.addressof(pointers)
    launch = bindings().cuLaunchKernel
    keep = (memory, pointers)
    return lambda: (call(launch, loaded.function, *shape, address, 0), keep)


def outputs(launches: dict[str, Callable[[], object]], output: Any) -> dict[str, np.ndarray]:
    """What each leaves in a poisoned output, as bits."""
    from numba import cuda

    poison = np.full(output.shape, np.nan, np.float32)
    found: dict[str, np.ndarray] = {}
    for name, launch in launches.items():
        output.copy_to_device(poison)
        launch()
        cuda.synchronize()
        found[name] = output.copy_to_host().view(np.uint32)
    return found


def times(launches: dict[str, Callable[[], object]]) -> dict[str, Any]:
    """Microseconds per launch; every block times each once, in shuffled order."""
    from hybridcc.runtime.clocks import open_clocks
    from hybridcc.runtime.device import current

    clocks = open_clocks(current().uuid)
    watch = Events()
    batch = {name: max(2, round(BATCH_US / watch.batch(launch, 2, 2)["us"])) for name, launch in launches.items()}
    chance = random.Random(0)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in launches}
    for _ in range(BLOCKS):
        for name in chance.sample(list(launches), len(launches)):
            sample = watch.batch(launches[name], batch[name], batch[name])
            reading = clocks.read() if clocks is not None else None
            sample["sm_mhz"] = reading.sm_mhz if reading is not None else 0
            samples[name].append(sample)
    return {name: time_summary(rows, batch[name]) for name, rows in samples.items()}


def time_summary(rows: Sequence[dict[str, float]], launches: int) -> dict[str, Any]:
    values = [row["us"] for row in rows]
    low, middle, high = statistics.quantiles(values, n=4)
    return {
        "median_us": middle, "lower_quartile_us": low, "upper_quartile_us": high, "samples": len(values),
        "launches_per_sample": launches,
        "host_bound_samples": sum(row["enqueue_us"] > row["lead_us"] for row in rows),
        "clock_disagreements": sum(abs(row["host_us"] - row["span_us"]) > 0.05 * row["span_us"] + 20 for row in rows),
        "sm_mhz": sorted({int(row["sm_mhz"]) for row in rows}),
    }  # fmt: skip


class Events:
    """CUDA events on the default stream, where all three launch."""

    def __init__(self) -> None:
        from hybridcc.runtime.driver import bindings, call

        self._driver, self._call = bindings(), call
        self._events = [call(self._driver.cuEventCreate, 0) for _ in range(3)]

    def batch(self, launch: Callable[[], object], warm: int, timed: int) -> dict[str, float]:
        """``us`` per launch of ``timed`` launches that follow ``warm`` of the same."""
        first, start, end = self._events
        record = self._driver.cuEventRecord
        self._call(self._driver.cuCtxSynchronize)
        begin = time.perf_counter_ns()
        self._call(record, first, 0)
        for _ in range(warm):
            launch()
        self._call(record, start, 0)
        for _ in range(timed):
            launch()
        self._call(record, end, 0)
        queued = time.perf_counter_ns()
        self._call(self._driver.cuEventSynchronize, end)
        finished = time.perf_counter_ns()

        def between(one: Any, other: Any) -> float:
            return float(self._call(self._driver.cuEventElapsedTime, one, other)) * 1000

        return {
            "us": between(start, end) / timed,
            "lead_us": between(first, start),
            "span_us": between(first, end),
            "enqueue_us": (queued - begin) / 1000,
            "host_us": (finished - begin) / 1000,
        }


def launch_cost(results: dict[str, Any]) -> None:
    import launch_cost as cost

    results["launch_cost"] = cost.measure()
    print("\n" + cost.table(results["launch_cost"]), flush=True)


# --- without ---


def rehearse(case: Case, results: dict[str, Any], given: argparse.Namespace) -> None:
    """Compile, replay, splice, check and assemble for sm_90; run the kernel on the executor; compile the CUDA C++."""
    from benchmarks import cuda_cpp as compiler
    from hybridcc.building import build

    print(f"\n== {case.name} (rehearsal)", flush=True)
    row: dict[str, Any] = {}
    results["kernels"][case.name] = row
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (built,) = build(
            ROOT / "examples" / f"{case.name}.py", folder, arch=("sm_90",), accept=given.accept, select="proved",
            progress=show,
        )  # fmt: skip
    (architecture,) = built.record.architectures
    row["selection"] = architecture.selection.reason
    row["candidates"] = {c.name: f"{c.fate.kind} {c.fate.code} {c.fate.detail}" for c in architecture.candidates}
    print(f"  {architecture.selection.reason}")
    for name, fate in row["candidates"].items():
        print(f"  {name}: {fate}")
    row["cuda_cpp_bytes"] = len(compiler.compile(CUDA_CPP, "sm_90").cubin)
    kernel = kernel_of(case)
    grid, block, arguments = kernel.examples()
    kernel[grid, block].execute(*arguments)
    row["executed"] = float(np.sum(arguments[-1]))
    print(f"  executed on the CPU, the output sums to {row['executed']:.6g}")


# --- results ---


def write(results: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    gpu = (results["machine"].get("gpu") or {}).get("name", "unknown").replace(" ", "-").lower()
    path = folder / f"first_light-{gpu}.json"
    path.write_text(json.dumps(results, indent=1, default=str) + "\n")
    print(f"\nwritten to {path}", flush=True)


def summary(results: dict[str, Any]) -> None:
    heads = "".join(f"{name + ' us':>14s}" for name in NAMES)
    print(f"\n{'kernel':14s}{heads}{'over stock':>12s}  bits  target")
    for name, row in results["kernels"].items():
        timed = row.get("times")
        if not timed:
            print(f"{name:14s} {row.get('selection', 'not measured')}")
            continue
        cells = "".join(f"{timed[n]['median_us']:14.1f}" if n in timed else f"{'-':>14s}" for n in NAMES)
        same = all(row["bit_for_bit_with_stock"]["hybridcc"].values())
        gain = row["speedup_over_stock"]["hybridcc"]
        reached = gain >= row["expected_at_least"]
        print(f"{name:14s}{cells}{gain:11.2f}x  {'same' if same else 'DIFFER'}  {'met' if reached else 'not met'}")
    for failure in results["failures"]:
        print(f"failed: {failure['part']}: {failure['error'].splitlines()[0]}")


if __name__ == "__main__":
    sys.exit(main())
