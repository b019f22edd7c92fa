"""CUDA C++ to PTX and machine code by NVRTC, which needs no GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Compiled:
    """``cubin`` is NVRTC's own, for one architecture; ``ptx`` is what it made on the way."""

    ptx: str
    cubin: bytes


def compile(source: str, arch: str, name: str = "kernel.cu") -> Compiled:
    """With NVRTC's own defaults (-O3, contraction on), as CuPy compiles. Raises RuntimeError with the log."""
    from cuda.bindings import nvrtc as api

    from hybridcc.runtime import toolchain

    library = toolchain.load("nvrtc")
    for builtins in library.parent.glob("libnvrtc-builtins.so.*"):  # NVRTC looks for it by name, not beside itself
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        status, *rest = function(*arguments)
        if int(status) != 0:
            raise RuntimeError(f"{function.__name__} gives {status}")
        return rest[0] if rest else None

    def taken(size: Callable[..., Any], get: Callable[..., Any]) -> bytes:
        text = b" " * call(size, program)
        call(get, program, text)
        return text

    program = call(api.nvrtcCreateProgram, source.encode(), name.encode(), 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    status, *_ = api.nvrtcCompileProgram(program, len(options), options)
    if int(status) != 0:
        raise RuntimeError(taken(api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog).decode())
    ptx = taken(api.nvrtcGetPTXSize, api.nvrtcGetPTX).decode().rstrip("\0")
    return Compiled(ptx, taken(api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN))
