"""What is available on this machine, found by using it, and what each absence costs."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Literal, TypeAlias

from hybridcc.errors import HybridccError
from hybridcc.runtime import toolchain

State: TypeAlias = Literal["ok", "missing", "broken"]
Group: TypeAlias = Literal["machine", "toolkit", "frontends", "proof", "models"]

PROBE_PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry probe() { ret; }\n"
LEAST_DRIVER = (13, 0)
"""The CUDA that a driver must speak to load cubins of toolkit 13.0: the 580 series."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One part. ``detail`` is what was found; ``cost`` what cannot be done without it ("" where all is well) and
    ``next_step`` what brings it."""

    group: Group
    name: str
    state: State
    detail: str
    cost: str = ""
    next_step: str = ""


def examine() -> tuple[Finding, ...]:
    """Every part, in the order a reader wants them. Needs no GPU; takes about a second."""
    return (
        *_machine(),
        *_toolkit(),
        *_frontends(),
        *_solvers(),
        *_models(),
    )


def can_build(findings: tuple[Finding, ...]) -> bool:
    """Whether baselines can be compiled and assembled here: what ``hybridcc build`` needs at the least."""
    needed = {"nvjitlink", "ptxas", "nvvm", "libdevice", "numba-cuda"}
    return all(finding.state == "ok" for finding in findings if finding.name in needed)


def _machine() -> Iterator[Finding]:
    yield Finding("machine", "python", "ok", f"{platform.python_version()} on {platform.machine()}")
    yield _gpu()
    yield _store()
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        if os.environ.get(name):
            yield Finding("machine", name, "ok", f"{os.environ[name]}: not used, the toolkit comes from the wheels")


def _gpu() -> Finding:
    from hybridcc.runtime import device

    cost = "kernels cannot be launched or raced: builds are not_measured, and the baseline is selected"
    try:
        found = device.current()
    except HybridccError as error:
        return Finding("machine", "gpu", "missing", error.what, cost, "run on a machine with an NVIDIA GPU and driver")
    detail = f"{found.name} ({found.arch}), driver for CUDA {found.driver}"
    numbers = [int(number) for number in re.findall(r"\d+", found.driver)[:2]]
    if tuple(numbers) < LEAST_DRIVER:
        wanted = ".".join(map(str, LEAST_DRIVER))
        return Finding("machine", "gpu", "broken", detail, "cubins may not load", f"install a driver for CUDA {wanted}")
    return Finding("machine", "gpu", "ok", detail)


def _store() -> Finding:
    from hybridcc.runtime import store, store_file

    path = store.default_path()
    cost = "what races find is forgotten when the process ends"
    try:
        with store_file.writing(path) as connection:
            (count,) = connection.execute("SELECT count(*) FROM decisions").fetchone()
        changes = "".join(f"; {what}" for _, what in store.history(path)[-1:])
    except HybridccError as error:
        return Finding("machine", "store", "broken", error.what, cost, error.next_step)
    network = store_file.network_type(path)
    if network:
        journal = f"on a network file system ({network}), so it keeps a DELETE journal"
        step = f"set {store_file.VARIABLE} to a folder on a disk of this machine"
        return Finding("machine", "store", "ok", f"{count} decisions in {path}, {journal}; better: {step}{changes}")
    return Finding("machine", "store", "ok", f"{count} decisions in {path}, write-ahead log{changes}")


def _toolkit() -> Iterator[Finding]:
    for name, part in toolchain.PARTS.items():
        try:
            tool = toolchain.find(name)
        except HybridccError as error:
            yield Finding("toolkit", name, "missing", error.what, f"nothing {part.purpose}", error.next_step)
            continue
        yield _assembling(tool) if name in ("nvjitlink", "ptxas") else Finding("toolkit", name, "ok", tool.version)


def _assembling(tool: toolchain.Tool) -> Finding:
    from hybridcc.runtime.assemble import assemble

    begin = time.perf_counter()
    try:
        assemble(PROBE_PTX, "sm_90", tool.name)  # type: ignore[arg-type]
    except HybridccError as error:
        cost = f"{tool.name} assembles nothing"
        return Finding("toolkit", tool.name, "broken", f"{tool.version}: {error.what}", cost, error.next_step)
    took = (time.perf_counter() - begin) * 1e3
    return Finding("toolkit", tool.name, "ok", f"{tool.version}, assembled a kernel in {took:.0f} ms")


def _frontends() -> Iterator[Finding]:
    yield _numba()
    yield _package(
        "frontends", "numba-cuda-mlir", "numba_cuda_mlir", ".mlir files and numba-cuda-mlir kernels are not read",
        "pip install 'hybridcc[mlir]'",
    )  # fmt: skip


def _numba() -> Finding:
    from hybridcc.frontends import numba

    cost = "Numba kernels cannot be compiled; .ptx files can be built"

    def probe(x):
        x[0] = 1

    try:
        numba.compile(probe, "void(float32[::1])", "sm_90")
        version = metadata.version("numba-cuda")
    except HybridccError as error:
        state: State = "missing" if find_spec("numba_cuda") is None else "broken"
        return Finding("frontends", "numba-cuda", state, error.what, cost, error.next_step)
    return Finding("frontends", "numba-cuda", "ok", f"{version}, compiled a kernel")


def _solvers() -> Iterator[Finding]:
    cost = "no rewrite can be proved; --accept tested can still be met"
    yield _package("proof", "bitwuzla", "bitwuzla", cost, "pip install 'bitwuzla>=0.8'")
    cost = "no sums of integers in proofs (grid-stride loops), and no second solver for certificates"
    yield _package("proof", "z3-solver", "z3", cost, "pip install 'z3-solver>=4.13'")


def _models() -> Iterator[Finding]:
    cost = "a local model (transformers:DIR) cannot be used; recorded answers and endpoints can"
    for name in ("torch", "transformers", "safetensors"):
        yield _package("models", name, name, cost, "pip install 'hybridcc[model]'")
    yield _package("models", "openai", "openai", "endpoints cannot be asked", "pip install openai")


def _package(group: Group, name: str, module: str, cost: str, step: str) -> Finding:
    """Whether it is installed; it is not imported, which may take seconds."""
    if find_spec(module) is None:
        return Finding(group, name, "missing", "not installed", cost, step)
    try:
        return Finding(group, name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(group, name, "ok", "installed, of no known version")
