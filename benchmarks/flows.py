"""One matrix product from five inputs on the GPU here, and linalg through MLIR's pass manager to a launch.

    python benchmarks/flows.py [--out FILE]

Each input of tests/flows/matmul goes through `hybridcc build`; the selected cubin is launched and its result compared
bit for bit with the executor's and with every other input's. Without a GPU all but the launches is done, for sm_90.
Ends with exit status 1 where any bit differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import hybridcc  # noqa: E402
from hybridcc import sources  # noqa: E402
from hybridcc.passes.arguments import flatten  # noqa: E402
from hybridcc.passes.kernel import ArrayType, Kernel  # noqa: E402
from hybridcc.ptx import parse  # noqa: E402
from hybridcc.runtime import device  # noqa: E402

INPUTS = ("matmul_numba_cuda.py", "matmul_numba_cuda_mlir.py", "matmul.mlir", "matmul.ll", "matmul.cu")
N = 67
GRID, BLOCK = (5, 9), (16, 8)


def values(kernel: Kernel) -> tuple[list[object], np.ndarray]:
    """(a call's arguments as the kernel knows them, the array that it writes)."""
    random = np.random.default_rng(7)
    a, b = (random.random((N, N), np.float32) - np.float32(0.5) for _ in range(2))
    c = np.full((N, N), np.nan, np.float32)
    given: list[object] = []
    for argument, value in zip(kernel.arguments, (a, b, c, N), strict=True):
        if isinstance(argument.type, ArrayType):
            assert isinstance(value, np.ndarray)
            given.append(value if argument.type.ndim == 2 else value.reshape(-1))
        else:
            given.append(np.dtype(argument.type.dtype).type(value))
    return given, c


def on_the_executor(kernel: Kernel, ptx: str) -> np.ndarray:
    given, c = values(kernel)
    hybridcc.execute(ptx, entry_of(ptx), GRID, BLOCK, flatten(kernel.arguments, given))
    return c


def on_the_device(kernel: Kernel, cubin: bytes, entry: str) -> np.ndarray:
    from hybridcc.runtime.driver import bindings, call, use_primary_context
    from hybridcc.runtime.launch import LoadedKernel

    use_primary_context()
    driver = bindings()
    given, c = values(kernel)
    arrays = [value for value in given if isinstance(value, np.ndarray)]
    addresses = {id(array): int(call(driver.cuMemAlloc, array.nbytes)) for array in arrays}
    for array in arrays:
        call(driver.cuMemcpyHtoD, addresses[id(array)], array.ctypes.data, array.nbytes)
    flat = flatten(kernel.arguments, given, lambda array: np.uint64(addresses[id(array)]))
    cells = [np.array([value]) for value in flat]
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    loaded = LoadedKernel(cubin, entry)
    sizes = (*GRID, 1, *BLOCK, 1)
    call(driver.cuLaunchKernel, loaded.function, *sizes, 0, driver.CUstream(0), pointers.ctypes.data, 0)
    call(driver.cuCtxSynchronize)
    call(driver.cuMemcpyDtoH, c.ctypes.data, addresses[id(arrays[2])], c.nbytes)
    for address in addresses.values():
        call(driver.cuMemFree, address)
    return c


def entry_of(ptx: str) -> str:
    (entry,) = parse(ptx).entries
    return entry.name


def one(file: str, arch: str, folder: Path) -> tuple[dict[str, Any], list[bytes]]:
    path = ROOT / "tests" / "flows" / "matmul" / file
    (built,) = hybridcc.build(path, folder / path.stem / path.suffix[1:], arch=(arch,), rewriter="none")
    (source,) = sources.load(str(path), (arch,))
    ptx = (built.bundle.folder / f"baseline.{arch}.ptx").read_text()
    results = [on_the_executor(source.kernels[0], ptx)]
    if device.available() is not None:
        cubin = (built.bundle.folder / f"selected.{arch}.cubin").read_bytes()
        results.append(on_the_device(source.kernels[0], cubin, entry_of(ptx)))
    row = {"input": file, "frontend": built.record.frontend, "launched": len(results) > 1}
    return row, [result.tobytes() for result in results]


def main() -> None:
    options = argparse.ArgumentParser(description="one matrix product from five inputs")
    options.add_argument("--out", type=Path)
    out = options.parse_args().out
    here = device.available()
    arch = here.arch if here else "sm_90"
    rows: list[dict[str, Any]] = []
    first: bytes | None = None
    with tempfile.TemporaryDirectory() as folder:
        for file in INPUTS:
            row, results = one(file, arch, Path(folder))
            first = first or results[0]
            row["same_bits"] = all(result == first for result in results)
            print(f"{file:28} {row['frontend']:34} launched {row['launched']!s:5} same bits {row['same_bits']}")
            rows.append(row)
    linalg = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "linalg.py")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    print(linalg.stdout + linalg.stderr, end="")
    found = {
        "device": here.name if here else device.why_none(),
        "arch": arch,
        "matmul": rows,
        "linalg": {"exit_status": linalg.returncode, "said": linalg.stdout.splitlines()},
    }
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n")
    if linalg.returncode or not all(row["same_bits"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
