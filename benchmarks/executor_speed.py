"""Thread-instructions a second of the executor on one core: Numba's conv1d loop and mandelbrot in f64.

    python benchmarks/executor_speed.py [--threads 65536] [--repeats 5] [--json FILE]

Prints the median and the range of the repeats, with and without the watch for data races.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, types

from hybridcc.passes.execute import execute
from hybridcc.ptx import parse


def conv1d(x: Any, w: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = np.float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s


def mandelbrot(out: Any, width: Any, limit: Any) -> None:
    i = cuda.grid(1)
    if i < out.shape[0]:
        cr, ci = (i % width) / width * 3.0 - 2.0, (i // width) / width * 2.0 - 1.0
        zr, zi, n = 0.0, 0.0, 0
        while n < limit and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            n += 1
        out[i] = n


def flattened(array: np.ndarray) -> list[Any]:
    """A one-dimensional array as Numba's kernels take it."""
    size, step = np.int64(array.size), np.int64(array.itemsize)
    return [np.uint64(0), np.uint64(0), size, step, array, size, step]


def compiled(function: Callable[..., None], signature: Any) -> str:
    return cuda.compile_ptx(function, signature, cc=(9, 0))[0]


def launches(threads: int) -> dict[str, tuple[str, list[Any]]]:
    random = np.random.default_rng(1)
    w, y = random.random(31, np.float32), np.zeros(threads, np.float32)
    x = random.random(y.size + w.size - 1, np.float32)
    one = types.float32[::1]
    conv = compiled(conv1d, types.void(one, one, one))
    mandel = compiled(mandelbrot, types.void(types.int32[::1], types.int32, types.int32))
    count = np.zeros(threads, np.int32)
    return {
        "conv1d, 31 taps": (conv, [*flattened(x), *flattened(w), *flattened(y)]),
        "mandelbrot f64, limit 300": (mandel, [*flattened(count), np.int32(256), np.int32(300)]),
    }


def measure(ptx: str, arguments: list[Any], threads: int, repeats: int, detect_races: bool) -> dict[str, float]:
    entry = parse(ptx).entries[0].name
    rates, instructions = [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        result = execute(ptx, entry, -(-threads // 256), 256, arguments, detect_races=detect_races)
        rates.append(result.instructions / (time.perf_counter() - start))
        instructions = result.instructions
    return {
        "thread_instructions": instructions,
        "median_per_s": statistics.median(rates),
        "least_per_s": min(rates),
        "most_per_s": max(rates),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=65536)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    results: dict[str, Any] = {"python": platform.python_version(), "numpy": np.__version__, "threads": options.threads}
    for name, (ptx, arguments) in launches(options.threads).items():
        for watched in (False, True):
            found = measure(ptx, arguments, options.threads, options.repeats, watched)
            label = f"{name}, {'races watched' if watched else 'races not watched'}"
            results[label] = found
            rates = [found[key] / 1e6 for key in ("median_per_s", "least_per_s", "most_per_s")]
            print(f"{label:50} {rates[0]:7.1f} M/s ({rates[1]:.1f} to {rates[2]:.1f})")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
