"""A user's own launches: from a callable beside the kernel, a Python file, or an .npz file.

A launch is ``(grid, block, arguments)`` or ``(grid, block, arguments, shared_bytes)``; grid and block are an int or
up to three ints, arguments one NumPy array or scalar per kernel argument. A callable gives one launch or several.
A Python file defines ``examples`` (or a function called ``examples_<kernel>``, which wins). An .npz file holds
``grid``, ``block`` and either the kernel's argument names or ``arg0``, ``arg1`` …
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import HybridccError, InputError
from hybridcc.passes.arguments import check
from hybridcc.passes.kernel import Kernel, ScalarType
from hybridcc.passes.verify import stored
from hybridcc.passes.verify.launch import Launch, as_block, as_shape

FORM = "a launch is (grid, block, arguments), for example (64, 256, (x, w, y))"


def from_callable(make: Callable[[], Any], kernel: Kernel, where: str = "") -> tuple[Launch, ...]:
    """Raises InputError when the callable fails or gives something that cannot be launched."""
    try:
        given = make()
        found = [given] if _is_launch(given) else list(given)
    except HybridccError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"the examples of {kernel.name} failed: {type(error).__name__}: {error}", where=where, next_step=FORM
        ) from error
    if not found:
        raise InputError(f"the examples of {kernel.name} are empty", where=where, next_step=FORM)
    return tuple(as_launch(launch, kernel, where) for launch in found)


def from_file(path: str | Path, kernel: Kernel) -> tuple[Launch, ...]:
    """Launches from ``FILE.py`` or ``FILE.npz``. Raises InputError."""
    path = Path(path)
    if not path.is_file():
        raise InputError("no such file", where=str(path), next_step="check the path given to --inputs")
    match path.suffix:
        case ".py":
            return _from_python(path, kernel)
        case ".npz":
            return (as_launch(stored.read(path, kernel), kernel, str(path)),)
        case other:
            raise InputError(
                f"inputs are a .py or .npz file, not {other or path.name!r}", where=str(path), next_step=FORM
            )


def as_launch(given: Any, kernel: Kernel, where: str = "") -> Launch:
    """One launch with its scalars in the kernel's own types."""
    if isinstance(given, Launch):
        return given
    if not _is_launch(given):
        raise InputError(f"not a launch: {type(given).__name__}", where=where, next_step=FORM)
    grid, block, values, *shared = given
    if len(values) != len(kernel.arguments):
        raise InputError(
            f"{kernel.name} takes {len(kernel.arguments)} arguments, the example has {len(values)}",
            where=where,
            next_step=FORM,
        )
    typed: list[object] = []
    for argument, value in zip(kernel.arguments, values, strict=True):
        if isinstance(argument.type, ScalarType) and np.ndim(value) == 0:
            value = _scalar(value, np.dtype(argument.type.dtype), argument.name, where)
        check(argument, value, where)
        typed.append(value)
    try:
        return Launch(as_shape(grid), as_block(block), tuple(typed), shared_bytes=int(shared[0]) if shared else 0)
    except (TypeError, ValueError) as error:
        raise InputError(f"not a launch: {error}", where=where, next_step=FORM) from None


def _scalar(value: Any, dtype: np.dtype, name: str, where: str) -> np.generic:
    """Raises InputError for what the type cannot hold."""
    try:
        return dtype.type(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"argument {name} is a {dtype}: {error}", where=where, next_step="give a number of that type"
        ) from None


def _is_launch(given: Any) -> bool:
    """``(grid, block, arguments[, shared_bytes])``; a list of launches is told apart by its first element."""
    if isinstance(given, Launch):
        return True
    if not isinstance(given, tuple) or len(given) not in (3, 4):
        return False
    return _is_size(given[0]) and _is_size(given[1]) and isinstance(given[2], tuple | list)


def _is_size(value: Any) -> bool:
    whole = (int, np.integer)
    return isinstance(value, whole) or (isinstance(value, tuple | list) and all(isinstance(v, whole) for v in value))


def _from_python(path: Path, kernel: Kernel) -> tuple[Launch, ...]:
    try:
        names = runpy.run_path(str(path), run_name="hybridcc.inputs")
    except SyntaxError as error:
        raise InputError(
            f"syntax error: {error.msg}", where=f"{path}:{error.lineno}", next_step="mend the file"
        ) from None
    except (Exception, SystemExit) as error:
        raise InputError(
            f"fails when run: {type(error).__name__}: {error}",
            where=str(path),
            next_step="mend the file; `python` on it shows the whole traceback",
        ) from error
    make = names.get(f"examples_{kernel.name}") or names.get("examples")
    if make is None:
        raise InputError(
            f"defines neither examples nor examples_{kernel.name}",
            where=str(path),
            next_step=f"define a function that returns launches: {FORM}",
        )
    found: Iterable[Any] | Callable[[], Any] = make
    return from_callable(found if callable(found) else (lambda: found), kernel, str(path))
