"""Kernels in a Python file: those decorated with ``hybridcc.jit``, or any function whose signature is given."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from hybridcc.errors import HybridccError, InputError


@dataclass(frozen=True, slots=True)
class Found:
    """One kernel of a file. ``function`` is the object as the file has it (frontends.numba.compile takes it);
    ``signatures`` are in the order written; ``examples`` makes launches."""

    name: str
    function: Any
    signatures: tuple[Any, ...]
    examples: Callable[[], object] | None
    line: int


def find(path: str | Path, name: str | None = None, signature: Any = None) -> tuple[Found, ...]:
    """The kernels of ``path`` in source order, or the one called ``name``.

    With ``signature`` the kernel may be any function, or carry no signature of its own; without ``name`` it then must
    be the file's only kernel. Raises InputError when the file cannot be run or holds nothing that fits.
    """
    path = Path(path)
    module = load(path)
    kernels = _kernels(module)
    if name is not None:
        kernels = [_named(module, kernels, name, path)]
    elif signature is not None and not kernels:
        kernels = _functions(module)
    if not kernels:
        raise InputError(
            "no kernel is declared here",
            where=str(path),
            next_step="decorate one with @hybridcc.jit(signature), or type one: --signature 'NAME(float32[::1])'",
        )
    if signature is not None:
        return (_with_signature(kernels, signature, path),)
    bare = [kernel.name for kernel in kernels if not kernel.signatures]
    ready = tuple(kernel for kernel in kernels if kernel.signatures)
    if not ready:
        raise InputError(
            f"{', '.join(bare)}: no signature, so nothing says which types to compile for",
            where=str(path),
            next_step="write @hybridcc.jit('void(float32[::1])'), or give --signature",
        )
    return ready


def load(path: Path) -> ModuleType:
    """Run a Python file as a module called like the file. Its folder can be imported from while it runs.

    Raises InputError with the line that failed; what the file itself raises is never shown as a traceback.
    """
    from hybridcc.frontends.numba import prepare

    if not path.is_file():
        raise InputError("no such file", where=str(path), next_step="check the path")
    prepare()
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError("not a Python file", where=str(path), next_step="give a file that ends in .py")
    module = module_from_spec(spec)
    try:
        with _visible(module, path.resolve().parent):
            spec.loader.exec_module(module)
    except HybridccError:
        raise
    except (Exception, SystemExit) as error:  # a user's file can raise anything
        raise _failed(path, error) from error
    return module


@contextmanager
def _visible(module: ModuleType, folder: Path) -> Iterator[None]:
    """While the file runs it finds itself in sys.modules (dataclasses ask) and its neighbours on sys.path."""
    shadowed = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        if shadowed is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = shadowed


def _failed(path: Path, error: BaseException) -> InputError:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return InputError(f"syntax error: {error.msg}", where=f"{path}:{error.lineno}", next_step="mend the file")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    step = "mend the file; `python` on it shows the whole traceback"
    if "CudaSupportError" in what or "driver init" in what:
        step = "numba.cuda.jit with a signature needs a GPU; hybridcc.jit with the same signature does not"
    elif isinstance(error, ModuleNotFoundError):
        step = f"pip install {error.name}, or run from where {error.name} can be imported"
    return InputError(what, where=f"{path}:{lines[-1]}" if lines else str(path), next_step=step)


def _kernels(module: ModuleType) -> list[Found]:
    """Jit objects that were made in this file, not imported into it, without device functions."""
    found: dict[int, Found] = {}
    for value in vars(module).values():
        function = getattr(value, "py_func", None)
        options = getattr(value, "options", None) or getattr(value, "targetoptions", None) or {}
        if isinstance(function, FunctionType) and function.__module__ == module.__name__ and not options.get("device"):
            found.setdefault(id(value), _found(value, function))
    return sorted(found.values(), key=lambda kernel: kernel.line)


def _functions(module: ModuleType) -> list[Found]:
    return [
        _found(value, value)
        for value in vars(module).values()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]


def _found(value: Any, function: FunctionType) -> Found:
    signatures = tuple(getattr(value, "signatures", None) or ()) if value is not function else ()
    examples = getattr(value, "examples", None)
    return Found(function.__name__, value, signatures, examples, function.__code__.co_firstlineno)


def _named(module: ModuleType, kernels: list[Found], name: str, path: Path) -> Found:
    for kernel in kernels:
        if kernel.name == name:
            return kernel
    value = getattr(module, name, None)
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        return _found(value, function)
    known = ", ".join(kernel.name for kernel in kernels) or "none"
    raise InputError(f"no function called {name} (kernels: {known})", where=str(path), next_step="check the name")


def _with_signature(kernels: list[Found], signature: Any, path: Path) -> Found:
    if len(kernels) > 1:
        raise InputError(
            f"one signature for {len(kernels)} functions: {', '.join(kernel.name for kernel in kernels)}",
            where=str(path),
            next_step=f"name one: {path}:{kernels[0].name}",
        )
    (kernel,) = kernels
    return Found(kernel.name, kernel.function, (signature,), kernel.examples, kernel.line)
