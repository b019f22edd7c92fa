"""A matrix product from linalg to a running kernel, by MLIR's pass manager with hybridcc as one of its passes.

    python examples/linalg.py [--arch sm_90]

Needs the extra ``mlir``. Without a GPU it ends at the ``gpu.binary`` and says how it would be launched. Everything that
is launched comes from the binary: its cubin, and the launch that ``gpu.launch_func`` describes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

PIPELINE = (
    "builtin.module(func.func(convert-linalg-to-parallel-loops,"
    "scf-parallel-loop-tiling{parallel-loop-tile-sizes=8,8},gpu-map-parallel-loops,convert-parallel-loops-to-gpu),"
    "lower-affine,gpu-kernel-outlining,canonicalize)"
)
SHAPES = ((64, 48), (48, 64), (64, 64))


def compiled(arch: str) -> tuple[bytes, str, dict[str, Any], tuple[list[int], list[int | None]]]:
    """(cubin, entry, manifest, (grid and block, kernel arguments: numbers, or None for each memref))."""
    from numba_cuda_mlir._mlir import ir, passmanager
    from numba_cuda_mlir._mlir.dialects import gpu

    from hybridcc.flows import FlowOptions, mlir

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(Path(__file__).with_name("linalg.mlir").read_text())
        manager = passmanager.PassManager.parse(PIPELINE)
        mlir.add_to(manager, FlowOptions(arch=(arch,)))
        manager.run(module.operation)
        (binary,) = (each.operation for each in module.body.operations if each.operation.name == "gpu.binary")
        cubin = bytes(gpu.ObjectAttr(ir.ArrayAttr(binary.attributes["objects"])[0]).object)
        manifest = json.loads(ir.StringAttr(binary.attributes[mlir.MANIFEST]).value)
        (function,) = (each for each in module.body.operations if each.operation.name == "func.func")
        (launch,) = (each for each in function.regions[0].blocks[0].operations if each.name == "gpu.launch_func")
        entry = str(launch.attributes["kernel"]).rpartition("@")[2]
        numbers = [_number(operand, ir) for operand in launch.operands]
        return cubin, entry, manifest, ([n for n in numbers[:6] if n is not None], numbers[6:])


def _number(operand: Any, ir: Any) -> int | None:
    """A constant's value; None for an argument of the function."""
    owner = operand.owner
    if isinstance(owner, ir.Block):
        return None
    return ir.IntegerAttr(owner.attributes["value"]).value


def launch(cubin: bytes, entry: str, sizes: list[int], given: list[int | None]) -> float:
    """Run it, and give the largest difference from NumPy's product."""
    from hybridcc.runtime.driver import bindings, call, use_primary_context
    from hybridcc.runtime.launch import LoadedKernel

    use_primary_context()
    driver = bindings()
    random = np.random.default_rng(0)
    a, b = (random.random(shape, np.float32) - np.float32(0.5) for shape in SHAPES[:2])
    arrays = [a, b, np.zeros(SHAPES[2], np.float32)]
    addresses = [call(driver.cuMemAlloc, array.nbytes) for array in arrays]
    for address, array in zip(addresses, arrays, strict=True):
        call(driver.cuMemcpyHtoD, address, array.ctypes.data, array.nbytes)
    parameters: list[int] = []
    memrefs = iter(zip(addresses, arrays, strict=True))
    for number in given:
        if number is not None:
            parameters.append(number)
            continue
        address, array = next(memrefs)
        strides = [stride // array.itemsize for stride in array.strides]
        parameters += [int(address), int(address), 0, *array.shape, *strides]
    values = np.array(parameters, np.int64)
    pointers = np.array([values.ctypes.data + 8 * index for index in range(len(values))], np.uint64)
    loaded = LoadedKernel(cubin, entry)
    call(driver.cuLaunchKernel, loaded.function, *sizes, 0, driver.CUstream(0), pointers.ctypes.data, 0)
    call(driver.cuCtxSynchronize)
    call(driver.cuMemcpyDtoH, arrays[2].ctypes.data, addresses[2], arrays[2].nbytes)
    for address in addresses:
        call(driver.cuMemFree, address)
    return float(np.abs(arrays[2] - a @ b).max())


def main() -> None:
    from hybridcc.runtime import device

    here = device.available()
    options = argparse.ArgumentParser(description="linalg to a running kernel")
    options.add_argument("--arch", default=here.arch if here else "sm_90")
    arch = options.parse_args().arch
    cubin, entry, manifest, (sizes, given) = compiled(arch)
    selected = manifest["kernels"][0]["architectures"][0]["selection"]["variant"]
    print(f"gpu.binary: {len(cubin)} bytes of cubin for {arch}, {selected} of {entry}")
    print(f"launch: grid {tuple(sizes[:3])}, block {tuple(sizes[3:])}, {len(given)} arguments")
    if here is None:
        print(f"not launched: {device.why_none()}")
        return
    difference = launch(cubin, entry, sizes, given)
    print(f"launched on {here.name}: largest difference from NumPy {difference:.2e}")
    if difference > 1e-4:
        raise SystemExit("the product is wrong")


if __name__ == "__main__":
    main()
