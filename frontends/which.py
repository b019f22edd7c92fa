"""Which Numba a kernel is written for: the one whose ``cuda`` its code uses."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

SUCCESSOR = "numba_cuda_mlir"


def is_for_numba_mlir(function: Callable[..., Any]) -> bool:
    """Whether a name that the function reads belongs to numba-cuda-mlir: its ``cuda``, a type, a function of it.
    Imports nothing; a function that uses neither package's names is for numba-cuda."""
    function = getattr(function, "py_func", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    closure = zip(code.co_freevars, function.__closure__ or (), strict=True)
    known = {**function.__globals__, **{name: cell.cell_contents for name, cell in closure if _is_set(cell)}}
    return any(_package(known[name]) == SUCCESSOR for name in _names(code) if name in known)


def _names(code: CodeType) -> set[str]:
    """Global and free names that are read, and what the code imports."""
    return {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF")
    }


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # defined later in the enclosing function
        return False


def _package(value: Any) -> str:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(home, str):
        home = type(value).__module__
    return home.partition(".")[0]
