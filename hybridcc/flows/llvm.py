"""LLVM IR to selected cubins, as one step of a compiler that makes IR."""

from __future__ import annotations

from hybridcc.flows.module import CompiledModule, FlowOptions, compile_module

DEFAULTS = FlowOptions()


def run(module: str | bytes, options: FlowOptions = DEFAULTS, *, name: str = "<module>") -> CompiledModule:
    """Every kernel of a device module, given as IR text or bitcode, through the whole path.

    Raises InputError with LLVM's own message and its position, ``name`` standing for the file, and other kinds of
    HybridccError. LLVM runs in a child process: where it aborts, ToolchainError is raised here.
    """
    from hybridcc.frontends import llvm

    return compile_module([llvm.from_module(module, arch, name=name) for arch in options.architectures], options)
