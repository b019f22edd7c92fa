"""NVIDIA's tools and libraries, taken from the installed wheels and from nowhere else.

Nothing on PATH, in CUDA_HOME, CUDA_PATH, CONDA_PREFIX or /usr/local/cuda is ever used, so that one set of
versions, pinned with the package, makes the same machine code on every machine.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from hybridcc.errors import ToolchainError


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the toolkit: where the wheel ``distribution`` keeps it, and what it is good for."""

    name: str
    distribution: str
    file: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A part that is installed; ``version`` is its wheel's ("13.0.88")."""

    name: str
    path: Path
    version: str


PARTS: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part("nvjitlink", "nvidia-nvjitlink", "nvidia/cu13/lib/libnvJitLink.so.13", "assembles PTX in process"),
        Part("ptxas", "nvidia-cuda-nvcc", "nvidia/cu13/bin/ptxas", "assembles PTX as a command"),
        Part("nvvm", "nvidia-nvvm", "nvidia/cu13/lib/libnvvm.so.4", "compiles Numba's LLVM IR to PTX"),
        Part("libdevice", "nvidia-nvvm", "nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "math functions for kernels"),
        Part("nvrtc", "nvidia-cuda-nvrtc", "nvidia/cu13/lib/libnvrtc.so.13", "compiles CUDA C++ in process"),
        Part("nvdisasm", "nvidia-cuda-nvdisasm", "nvidia/cu13/bin/nvdisasm", "shows machine code"),
        Part("cuobjdump", "nvidia-cuda-cuobjdump", "nvidia/cu13/bin/cuobjdump", "shows what a cubin holds"),
        Part("fatbinary", "nvidia-cuda-nvcc", "nvidia/cu13/bin/fatbinary", "joins cubins to one fatbin"),
    )
}

LIBRARIES = ("nvjitlink", "nvvm", "nvrtc")
"""Parts that are loaded into the process, by ``load``."""

_PINNED = {
    "nvidia-nvjitlink": "==13.0.*",
    "nvidia-cuda-nvcc": "==13.0.*",
    "nvidia-nvvm": "==13.0.*",
    "nvidia-cuda-nvrtc": "==13.0.*",
}
_SYSTEM_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CONDA_PREFIX", "LD_LIBRARY_PATH")


def find(name: str) -> Tool:
    """The installed part called ``name`` (a key of PARTS). Raises ToolchainError with the pip command if it is not."""
    part = PARTS[name]
    try:
        distribution = metadata.distribution(part.distribution)
    except metadata.PackageNotFoundError:
        raise _missing(part, "is not installed") from None
    path = Path(str(distribution.locate_file(part.file)))
    if not path.is_file():
        raise _missing(part, f"{distribution.version} is installed but holds no {part.file}")
    return Tool(name, path, distribution.version)


def versions() -> dict[str, str | None]:
    """Every part's version; None for one that is missing."""
    found: dict[str, str | None] = {}
    for name in PARTS:
        try:
            found[name] = find(name).version
        except ToolchainError:
            found[name] = None
    return found


def environment() -> dict[str, str]:
    """The environment for a tool that runs as a command: the caller's, without any pointer to a system CUDA."""
    return {name: value for name, value in os.environ.items() if name not in _SYSTEM_VARIABLES}


@cache
def load(name: str) -> Path:
    """Load the wheel's library into the process, so that cuda.bindings and Numba find that one; returns its path.

    Raises ToolchainError when another copy of the same library is in the process already: its version would
    decide the machine code.
    """
    tool = find(name)
    others = [path for path in _mapped(tool.path.name) if not _same_file(path, tool.path)]
    if others:
        raise ToolchainError(
            f"another {tool.path.name} is loaded already: {others[0]}",
            next_step="import hybridcc before the library that loads it, or remove it from LD_LIBRARY_PATH",
        )
    try:
        ctypes.CDLL(str(tool.path), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    except OSError as error:
        raise ToolchainError(
            f"{tool.path} cannot be loaded: {error}", next_step=_command(PARTS[name], "--force-reinstall ")
        ) from error
    return tool.path


def prepare_numba() -> None:
    """Make numba-cuda take libnvvm and libdevice from the wheels, whatever the environment says.

    numba-cuda 0.30 prefers a conda environment's toolkit to the wheels'. It looks once and keeps the answer, so
    it is made to look while no variable points elsewhere. Works round NumPy 2.5 too, which dropped a name that
    numba-cuda 0.30.4 imports.
    """
    import numpy

    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack  # pyright: ignore[reportAttributeAccessIssue]
    load("nvvm")
    load("nvjitlink")
    libdevice = find("libdevice").path
    with hidden_system_cuda():
        from numba.cuda.cuda_paths import get_cuda_paths

        chosen = get_cuda_paths()["libdevice"].info
    if chosen is None or not _same_file(Path(str(chosen)), libdevice):
        raise ToolchainError(
            f"Numba took libdevice from {chosen}, not from {libdevice}",
            next_step="import hybridcc before numba.cuda is used",
        )


_hiding = threading.Lock()


@contextmanager
def hidden_system_cuda() -> Iterator[None]:
    """While this holds, no variable of this process points to a system CUDA."""
    with _hiding:
        kept = {name: os.environ.pop(name) for name in _SYSTEM_VARIABLES if name in os.environ}
        try:
            yield
        finally:
            os.environ.update(kept)


def _missing(part: Part, why: str) -> ToolchainError:
    return ToolchainError(f"{part.name} ({part.purpose}): {part.distribution} {why}", next_step=_command(part))


def _command(part: Part, options: str = "") -> str:
    return f"pip install {options}'{part.distribution}{_PINNED.get(part.distribution, '')}'"


def _mapped(file_name: str) -> set[Path]:
    """The files of that name that are mapped into this process."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:  # not Linux: nothing to ask
        return set()
    return {Path(line.split(maxsplit=5)[5]) for line in maps.splitlines() if line.endswith("/" + file_name)}


def _same_file(left: Path, right: Path) -> bool:
    return left.exists() and right.exists() and left.samefile(right)
