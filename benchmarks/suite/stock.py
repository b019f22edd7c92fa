"""The machine code that Numba itself launches, made with or without a GPU: by link-time optimisation, as Numba does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hybridcc.runtime.race_job import Contender


@dataclass(frozen=True, slots=True)
class _Device:
    """What numba-cuda asks a device for when it compiles a kernel."""

    compute_capability: tuple[int, int]


def contender(name: str, kernel: Any, types: Sequence[Any], arch: str, *, fastmath: bool = False) -> Contender:
    """Numba's own compilation of a jit object's function for these types, free to differ where it is ``fastmath``."""
    from hybridcc.frontends.numba import prepare

    prepare()
    from numba import cuda
    from numba.cuda import dispatcher

    capability = _capability(arch)
    with _as_on(capability):
        options = {**kernel.options, "fastmath": True} if fastmath else kernel.options
        decorated = cuda.jit(**options)(kernel.py_func)
        compiled = dispatcher._Kernel(kernel.py_func, tuple(types), **decorated.targetoptions)
        cubin = compiled._codelibrary.get_cubin(cc=_code_for(capability))
    return Contender(name, bytes(getattr(cubin, "code", cubin)), compiled.entry_name, free=fastmath)


def _capability(arch: str) -> tuple[int, int]:
    found = re.fullmatch(r"sm_(\d+)(\d)", arch)
    assert found is not None, arch
    return int(found[1]), int(found[2])


def _code_for(capability: tuple[int, int]) -> tuple[int, int, str]:
    """What numba-cuda 0.30.4 links for (codegen.py, _ensure_cc): the very architecture where there is such a thing."""
    return (*capability, "a" if capability >= (9, 0) else "")


@contextmanager
def _as_on(capability: tuple[int, int]) -> Iterator[None]:
    """numba-cuda asks the driver for the device's capability, and for nothing else, until it loads the code."""
    from numba.cuda import codegen, dispatcher
    from numba.cuda.core.compiler_lock import global_compiler_lock  # pyright: ignore[reportMissingImports]

    library = codegen.CUDACodeLibrary
    with global_compiler_lock:
        kept = dispatcher.get_current_device, library._ensure_cc
        dispatcher.get_current_device = lambda: _Device(capability)
        library._ensure_cc = lambda self, cc: cc if cc is not None else _code_for(capability)
        try:
            yield
        finally:
            dispatcher.get_current_device, library._ensure_cc = kept
