"""A process that lowers MLIR to PTX. Run as a script; nothing imports it.

LLVM ends its process with SIGABRT on some inputs (a PTX version too low for the chip, a malformed attribute), so it
never runs in the user's. Reads one JSON object from stdin, {"text", "arch", "toolkit", "bindings",
"bare"}, and writes one to
stdout: {"modules": [{"ptx", "kernels": [{"name", "arguments", "block"}]}], "bare"} or {"error", "kind"}.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

PTX_FEATURE = "+ptx90"
"""The newest that the assembler of CUDA 13.0 reads; every chip that MLIR knows can be had with it."""

BARE = "hybridcc.bare_pointers"
"""An attribute of the outermost module: memrefs are passed as one pointer each."""

PIPELINE = (
    "builtin.module(gpu-kernel-outlining,"
    "nvvm-attach-target{{chip={arch} features={feature} O=3}},"
    "convert-nvgpu-to-nvvm,convert-scf-to-cf,convert-nvvm-to-llvm,expand-strided-metadata,lower-affine,"
    "gpu.module(convert-gpu-to-nvvm{{index-bitwidth=64 use-bare-ptr-memref-call-conv={bare}}},"
    "canonicalize,cse,reconcile-unrealized-casts))"
)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # LLVM's own words go to stderr
    request = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = lower(request)
    except ImportError as error:
        answer = {"kind": "missing", "error": str(error)}
    except Exception as error:  # MLIR's bindings raise their own MLIRError, of a module chosen at run time
        answer = {"kind": type(error).__name__, "error": str(error)}
    json.dump(answer, answers)
    answers.close()


def lower(request: dict[str, Any]) -> dict[str, Any]:
    root = bindings(request["bindings"])
    ir = importlib.import_module(f"{root}.ir")
    passmanager = importlib.import_module(f"{root}.passmanager")
    gpu = importlib.import_module(f"{root}.dialects.gpu")
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(request["text"])
        run(passmanager, module, "builtin.module(gpu-kernel-outlining)")
        kernels = described(ir, module)
        forget_targets(module)
        bare = request["bare"] or BARE in module.operation.attributes
        convention = "true" if bare else "false"
        run(passmanager, module, PIPELINE.format(arch=request["arch"], feature=PTX_FEATURE, bare=convention))
        run(passmanager, module, f"builtin.module(gpu-module-to-binary{{format=isa toolkit={request['toolkit']}}})")
        modules = [
            {"ptx": text(ir, gpu, operation), "kernels": kernels[name(ir, operation)]}
            for operation in module.body.operations
            if operation.operation.name == "gpu.binary"
        ]
        return {"modules": modules, "bare": bare}


def forget_targets(module: Any) -> None:
    """A gpu.module may name targets of its own; here each is lowered for the one that was asked for."""
    for operation in module.body.operations:
        if operation.operation.name == "gpu.module" and "targets" in operation.operation.attributes:
            del operation.operation.attributes["targets"]


def bindings(wanted: list[str]) -> str:
    for root in wanted:
        try:
            importlib.import_module(f"{root}.ir")
        except ImportError:
            continue
        return root
    raise ImportError(f"none of {', '.join(wanted)}")


def run(passmanager: Any, module: Any, pipeline: str) -> None:
    passmanager.PassManager.parse(pipeline).run(module.operation)


def name(ir: Any, operation: Any) -> str:
    return ir.StringAttr(operation.operation.attributes["sym_name"]).value


def text(ir: Any, gpu: Any, operation: Any) -> str:
    first = gpu.ObjectAttr(ir.ArrayAttr(operation.operation.attributes["objects"])[0])
    return first.object.decode().rstrip("\0")


def described(ir: Any, module: Any) -> dict[str, list[dict[str, Any]]]:
    """The kernels of each gpu.module, with their argument types, before lowering takes the types away."""
    return {
        name(ir, operation): [
            kernel(ir, inner.operation)
            for inner in operation.operation.regions[0].blocks[0].operations
            if inner.operation.name == "gpu.func" and is_kernel(inner.operation.attributes)
        ]
        for operation in module.body.operations
        if operation.operation.name == "gpu.module"
    }


def is_kernel(attributes: Any) -> bool:
    """The attribute is called ``kernel`` since MLIR 23, ``gpu.kernel`` before."""
    return "kernel" in attributes or "gpu.kernel" in attributes


def kernel(ir: Any, function: Any) -> dict[str, Any]:
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    attributes = function.attributes
    block = None
    if "known_block_size" in attributes:
        block = list(ir.DenseI32ArrayAttr(attributes["known_block_size"]))
    return {
        "name": name(ir, function),
        "arguments": [argument(ir, type_) for type_ in signature.inputs],
        "block": block,
    }


def argument(ir: Any, type_: Any) -> dict[str, Any]:
    if not str(type_).startswith("memref<"):
        return {"type": str(type_)}
    memref = ir.MemRefType(type_)
    shape = [None if memref.is_dynamic_dim(axis) else memref.get_dim_size(axis) for axis in range(memref.rank)]
    identity = "strided" not in str(type_) and "affine_map" not in str(type_)
    return {"type": str(type_), "element": str(memref.element_type), "shape": shape, "identity": identity}


if __name__ == "__main__":
    main()
