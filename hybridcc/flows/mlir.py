"""hybridcc as a pass of MLIR: each ``gpu.module`` becomes a ``gpu.binary`` of selected cubins.

    manager = PassManager.parse("builtin.module(gpu-kernel-outlining)")
    mlir.add_to(manager, FlowOptions(arch=("sm_80", "sm_90")))
    manager.add("gpu-to-llvm")
    manager.run(module.operation)

The pass works with any of MLIR's Python bindings: it takes those that the operation it is given belongs to. The
lowering to PTX is done in a child process, as LLVM may abort.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hybridcc.errors import HybridccError
from hybridcc.flows.module import CompiledModule, FlowOptions, compile_module

MANIFEST = "hybridcc.manifest"
"""The attribute of a ``gpu.binary`` that holds the manifest of its kernels, as JSON."""

DEFAULTS = FlowOptions()


def add_to(pass_manager: Any, options: FlowOptions = DEFAULTS) -> None:
    """Put the pass at the end of a ``PassManager`` on ``builtin.module``.

    Objects stand in the order of the architectures, and MLIR's default handler (``#gpu.select_object``) takes the
    first. A failure is a diagnostic at the ``gpu.module`` and fails the pass; the module is then as it was.
    """
    pass_manager.add(pass_of(options), name="hybridcc")


def pass_of(options: FlowOptions = DEFAULTS) -> Callable[[Any, Any], None]:
    """The pass itself, a function of the module and MLIR's external pass."""

    def hybridcc(operation: Any, external: Any) -> None:
        modules = [each for each in operation.regions[0].blocks[0].operations if each.operation.name == "gpu.module"]
        compiled = []
        for each in modules:
            try:
                compiled.append(compiled_from(each.operation, options))
            except HybridccError as error:
                each.operation.location.emit_error(f"hybridcc [{error.code}]: {error}")
                external.signal_pass_failure()
                return
        for each, (architectures, module) in zip(modules, compiled, strict=True):
            _replace(each.operation, architectures, module)

    return hybridcc


def compiled_from(gpu_module: Any, options: FlowOptions) -> tuple[dict[str, str], CompiledModule]:
    """(architecture -> target attribute as text, the module's cubins). Raises HybridccError."""
    from hybridcc.frontends import mlir

    architectures = _targets(gpu_module, options)
    text = f"module attributes {{gpu.container_module}} {{\n{gpu_module}\n}}\n"
    name = f"gpu.module @{_name(gpu_module)}"
    kernels = [
        mlir.from_text(text, arch, name=name, bare=options.bare_pointers, bindings=(_root(gpu_module),))
        for arch in architectures
    ]
    return architectures, compile_module(kernels, replace(options, arch=tuple(architectures)))


def _targets(gpu_module: Any, options: FlowOptions) -> dict[str, str]:
    """What the options name, else what the module does, else the usual ones."""
    if not options.arch and "targets" in gpu_module.attributes:
        named = {}
        for target in gpu_module.attributes["targets"]:
            chip = re.search(r'#nvvm\.target<.*?chip = "(\w+)"', str(target))
            if chip is not None:
                named[chip[1]] = str(target)
        if named:
            return named
    return {arch: f'#nvvm.target<chip = "{arch}">' for arch in options.architectures}


def _replace(gpu_module: Any, architectures: dict[str, str], compiled: CompiledModule) -> None:
    root = _root(gpu_module)
    ir = importlib.import_module(f"{root}.ir")
    gpu = importlib.import_module(f"{root}.dialects.gpu")
    with gpu_module.context, gpu_module.location:
        objects = [
            gpu.ObjectAttr.get(ir.Attribute.parse(target), gpu.CompilationTarget.Binary.value, compiled.cubins[arch])
            for arch, target in architectures.items()
        ]
        attributes = {
            "sym_name": gpu_module.attributes["sym_name"],
            "objects": ir.ArrayAttr.get(objects),
            # MLIR 23's printer crashes on a binary without one.
            "offloadingHandler": ir.Attribute.parse("#gpu.select_object"),
            MANIFEST: ir.StringAttr.get(json.dumps(compiled.manifest, sort_keys=True)),
        }
        ir.Operation.create("gpu.binary", attributes=attributes, ip=ir.InsertionPoint(gpu_module))
        gpu_module.erase()


def _name(gpu_module: Any) -> str:
    return str(gpu_module.attributes["sym_name"]).strip('"')


def _root(operation: Any) -> str:
    """Where the bindings of an operation are imported from: ``mlir``, ``numba_cuda_mlir._mlir``."""
    return type(operation).__module__.partition("._mlir_libs")[0]
