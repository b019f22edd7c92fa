"""Host cost of one launch with three device arrays: stock numba.cuda, a selected kernel, and bare launches.

All ways are measured in one run, in shuffled order, many samples each; a sample is the host's time for a number of
launches of a kernel that is over sooner than the host queues the next. The bare launches have their arguments
prepared once and do nothing per call: they are what any way must cost at least.

    python benchmarks/launch_cost.py [--json FILE]

Exit status 1 where a bar is missed: at most 3 us above a bare ``cuda.core.launch``, at most a third of Numba's cost.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import statistics
import struct
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from machine import facts, use_checkout

use_checkout()

from hybridcc.frontends.numba import prepare  # noqa: E402

prepare()

from numba import cuda  # noqa: E402

LAUNCHES, SAMPLES = 400, 30
"""Launches per sample: below the depth of a stream's queue, so that none waits for the GPU."""


def add(a: Any, b: Any, c: Any) -> None:
    i = cuda.grid(1)
    if i < c.shape[0]:
        c[i] = a[i] + b[i]


def ways() -> dict[str, Callable[[], object]]:
    """Each way to launch ``add`` once on three arrays of 256 floats."""
    import numpy as np

    import hybridcc
    from hybridcc.runtime import device
    from hybridcc.runtime.assemble import assemble
    from hybridcc.runtime.launch import Launcher, LoadedKernel

    kernel = hybridcc.jit(add)
    arrays = [cuda.to_device(np.arange(256, dtype=np.float32) + i) for i in range(3)]
    types = kernel.types_of(arrays)
    compiled = kernel.compile_for(types, device.current().arch)
    loaded = LoadedKernel(assemble(compiled.ptx, compiled.arch).bytes, compiled.entry)
    kernel.use(Launcher(loaded, compiled.arguments, types), types)
    stock = kernel.stock
    configured, stock_configured = kernel[1, 256], stock[1, 256]
    kernel[1, 256](*arrays)
    if not np.array_equal(arrays[2].copy_to_host(), 2 * np.arange(256, dtype=np.float32) + 1):
        raise RuntimeError("the selected kernel gave a wrong sum")
    found: dict[str, Callable[[], object]] = {
        "numba kernel[grid, block](...)": lambda: stock[1, 256](*arrays),
        "numba configured(...)": lambda: stock_configured(*arrays),
        "hybridcc kernel[grid, block](...)": lambda: kernel[1, 256](*arrays),
        "hybridcc configured(...)": lambda: configured(*arrays),
    }
    flat = kernel.selected[0].read(arrays)
    assert flat is not None
    for name, make in (("cuda.core.launch", _core), ("cuda.bindings cuLaunchKernel", _bindings), ("ctypes", _ctypes)):
        found[f"bare {name}, prepared"] = make(loaded, compiled, flat)
    for name, others in _others(arrays).items():
        configured(*others)
        found[f"hybridcc configured, {name}"] = lambda others=others: configured(*others)
        found[f"numba configured, {name}"] = lambda others=others: stock_configured(*others)
    found |= _on_streams(kernel, arrays)
    return found


def _on_streams(kernel: Any, arrays: list[Any]) -> Mapping[str, Callable[[], object]]:
    """CuPy arrays on a stream of their own, and arrays of one stream launched on another, which waits for it."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        return {}
    others = [cupy.asarray(a) for a in arrays]
    own, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    configured = {name: kernel[1, 256, stream] for name, stream in (("own", own), ("other", other))}

    def launch(name: str) -> Callable[[], object]:
        def on_own() -> None:
            own.use()
            configured[name](*others)
            cupy.cuda.Stream.null.use()

        return on_own

    return {"hybridcc, CuPy on a stream": launch("own"), "hybridcc, CuPy from another stream": launch("other")}


def _others(arrays: list[Any]) -> Mapping[str, list[Any]]:
    """The same memory through other libraries, where they are installed."""
    found: dict[str, list[Any]] = {}
    try:
        cupy = import_module("cupy")
        found["CuPy arrays"] = [cupy.asarray(a) for a in arrays]
    except ImportError:
        pass
    try:
        import torch

        if torch.cuda.is_available():
            found["PyTorch tensors"] = [torch.as_tensor(a, device="cuda") for a in arrays]
    except ImportError:
        pass
    return found


def _core(loaded: Any, compiled: Any, flat: list[Any]) -> Callable[[], object]:
    from hybridcc.runtime.assemble import assemble

    core = import_module("cuda.core")
    device = core.Device()
    device.set_current()
    code = core.ObjectCode.from_cubin(assemble(compiled.ptx, compiled.arch).bytes)
    kernel = code.get_kernel(compiled.entry)
    stream, config, launch = device.default_stream, core.LaunchConfig(grid=1, block=256), core.launch
    arguments = [int(value) for value in flat]
    return lambda: (launch(stream, config, kernel, *arguments), code)


def _bindings(loaded: Any, compiled: Any, flat: list[Any]) -> Callable[[], object]:
    from hybridcc.runtime.driver import bindings
    from hybridcc.runtime.launch import geometry
    from hybridcc.runtime.parameters import ParameterBuffer, format_of

    layout = format_of(compiled.arguments)
    buffer = ParameterBuffer(layout)
    struct.pack_into(layout, buffer.memory, 0, *flat)
    launch, shape, function = bindings().cuLaunchKernel, geometry(1, 256), loaded.function
    return lambda: launch(function, *shape, buffer.address, 0)


def _ctypes(loaded: Any, compiled: Any, flat: list[Any]) -> Callable[[], object]:
    from hybridcc.runtime.parameters import ParameterBuffer, format_of

    layout = format_of(compiled.arguments)
    buffer = ParameterBuffer(layout)
    struct.pack_into(layout, buffer.memory, 0, *flat)
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    function = int(loaded.function)
    return lambda: launch(function, 1, 1, 1, 256, 1, 1, 0, None, buffer.address, None)


def measure(samples: int = SAMPLES, launches: int = LAUNCHES) -> dict[str, dict[str, float]]:
    """Median and quartiles in microseconds for each way, from samples in shuffled order."""
    found = ways()
    for way in found.values():  # compile, load, warm
        for _ in range(50):
            way()
    cuda.synchronize()
    order = [name for name in found for _ in range(samples)]
    random.Random(0).shuffle(order)
    taken: dict[str, list[float]] = {name: [] for name in found}
    for name in order:
        way = found[name]
        begin = time.perf_counter_ns()
        for _ in range(launches):
            way()
        taken[name].append((time.perf_counter_ns() - begin) / launches / 1000)
        cuda.synchronize()
    return {name: _summary(values) for name, values in taken.items()}


def _summary(values: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median_us": middle, "lower_quartile_us": low, "upper_quartile_us": high, "samples": len(values)}


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    lines = [f"{'host cost of one launch, three arrays':45s} {'median us':>10s} {'quartiles':>16s}"]
    for name, row in found.items():
        spread = f"{row['lower_quartile_us']:.2f} to {row['upper_quartile_us']:.2f}"
        lines.append(f"{name:45s} {row['median_us']:10.2f} {spread:>16s}")
    return "\n".join(lines)


MOST_ABOVE_US, MOST_OF_NUMBA = 3.0, 1 / 3


def bars(found: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """What a launch with Numba's device arrays has to keep, each with what was measured."""
    bare = found["bare cuda.core.launch, prepared"]["median_us"]
    told = []
    for way in ("kernel[grid, block](...)", "configured(...)"):
        mine, numbas = found[f"hybridcc {way}"]["median_us"], found[f"numba {way}"]["median_us"]
        told.append({"bar": f"{way}: us above bare", "most": MOST_ABOVE_US, "is": mine - bare})
        told.append({"bar": f"{way}: of Numba's", "most": MOST_OF_NUMBA, "is": mine / numbas})
    return [{**each, "kept": each["is"] <= each["most"]} for each in told]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    from hybridcc.runtime import device

    if device.available() is None:
        print(f"nothing can be measured: {device.why_none()}")
        return 3
    found = measure()
    kept = bars(found)
    print(table(found))
    for bar in kept:
        print(f"{'kept' if bar['kept'] else 'MISSED'}: {bar['bar']} {bar['is']:.2f}, at most {bar['most']:.2f}")
    if given.json:
        data = {"machine": facts(), "launch_cost": found, "bars": kept}
        given.json.write_text(json.dumps(data, indent=1) + "\n")
    return 0 if all(bar["kept"] for bar in kept) else 1


if __name__ == "__main__":
    sys.exit(main())
