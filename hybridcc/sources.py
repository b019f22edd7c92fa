"""From what the command line names to kernels: each compiled once per architecture."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from hybridcc.errors import HybridccError, InputError
from hybridcc.passes.kernel import Kernel

NEXT_DECORATE = "decorate it with @hybridcc.jit(signature), or give --signature 'name(float32[::1], int64)'"


@dataclass(frozen=True, slots=True)
class Source:
    """One kernel: its compilations (one per architecture, in the order asked), and its author's examples."""

    name: str
    path: str
    kernels: tuple[Kernel, ...]
    examples: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A Numba kernel as a Python file declares it, before any compilation."""

    name: str
    function: Callable[..., object]
    signatures: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    examples: Callable[[], object] | None = None


def load(
    target: str, architectures: Sequence[str], *, signature: str | None = None, entry: str | None = None
) -> tuple[Source, ...]:
    """``file.py``, ``file.py:name``, ``file.ptx``, ``file.mlir``. Raises InputError and its kin."""
    if not architectures:
        raise InputError("no architecture is named", next_step="give --arch, for example --arch sm_90")
    text, _, name = target.rpartition(":")
    path = Path(text if name.isidentifier() and text else target)
    wanted = name if text and name.isidentifier() else entry
    if path.is_dir():
        raise InputError("this is a folder, not a file", where=str(path), next_step="name a file in it")
    if not path.is_file():
        raise InputError("no such file", where=str(path), next_step="check the path")
    match path.suffix:
        case ".py":
            return tuple(_numba(path, architectures, signature, wanted))
        case ".ptx":
            return _per_entry(path, [_ptx(path, arch, wanted) for arch in architectures])
        case ".mlir":
            return _per_entry(path, [_mlir(path, arch, wanted) for arch in architectures])
        case other:
            raise InputError(
                f"kernels are read from .py, .ptx and .mlir files, not {other or 'a file without a suffix'}",
                where=str(path),
                next_step="rename the file, or convert it",
            )


def import_file(path: Path) -> ModuleType:
    """Run a user's Python file as a module. Raises InputError with the line that failed."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python file.py` does, for imports of its neighbours
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = f"{error.filename or path}:{error.lineno}"
        raise InputError(f"syntax error: {error.msg}", where=where, next_step="mend the line") from None
    except HybridccError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"fails when it is imported: {type(error).__name__}: {error}",
            where=f"{path}:{_line_in(error, path)}",
            next_step="a kernel file must import without a GPU; guard the rest with if __name__ == '__main__':",
        ) from error
    finally:
        sys.path.pop(0)
    return module


def declared_in(path: Path, signature: str | None, wanted: str | None) -> tuple[Declared, ...]:
    """The kernels of a Python file: those under @hybridcc.jit with a signature, or the one that ``signature`` types."""
    module = import_file(path)
    if signature is not None:
        return (_typed(module, path, signature, wanted),)
    found = [d for d in _decorated(module) if wanted in (None, d.name)]
    ready = tuple(d for d in found if d.signatures)
    if ready:
        return ready
    if found:
        names = ", ".join(d.name for d in found)
        raise InputError(f"{names} has no signature", where=str(path), next_step=NEXT_DECORATE)
    what = f"no kernel called {wanted}" if wanted else "no kernel"
    raise InputError(f"{what} is declared here", where=str(path), next_step=NEXT_DECORATE)


def _decorated(module: ModuleType) -> Iterator[Declared]:
    from hybridcc.runtime.dispatcher import Dispatcher

    for name, value in vars(module).items():
        if isinstance(value, Dispatcher) and value.__module__ == module.__name__:
            yield Declared(name, value.py_func, tuple(value.signatures), value.options, value.examples)


def _typed(module: ModuleType, path: Path, signature: str, wanted: str | None) -> Declared:
    head, paren, rest = signature.partition("(")
    name = wanted or head.split()[-1] if head.split() else wanted
    if not paren or not rest.rstrip().endswith(")") or (name is None and not wanted):
        raise InputError(
            f"{signature!r} is no signature",
            next_step="write it as 'name(float32[::1], int64)', or name file.py:kernel",
        )
    function = vars(module).get(name or "")
    function = getattr(function, "py_func", function)
    if not inspect.isfunction(function):
        raise InputError(f"no function called {name}", where=str(path), next_step="check the name in the signature")
    return Declared(function.__name__, function, (f"void({rest.strip()}",), {}, None)


def _numba(path: Path, architectures: Sequence[str], signature: str | None, wanted: str | None) -> Iterator[Source]:
    from hybridcc.frontends import numba

    for kernel in declared_in(path, signature, wanted):
        for number, types in enumerate(kernel.signatures):
            compiled = tuple(numba.compile(kernel.function, types, arch, **kernel.options) for arch in architectures)
            name = kernel.name if number == 0 else f"{kernel.name}-{number}"
            yield Source(name, str(path), compiled, kernel.examples)


def _ptx(path: Path, arch: str, entry: str | None) -> tuple[Kernel, ...]:
    from hybridcc.frontends import ptx_file

    return ptx_file.load(path, entry=entry, arch=arch)


def _mlir(path: Path, arch: str, entry: str | None) -> tuple[Kernel, ...]:
    from hybridcc.frontends import mlir

    found = mlir.compile(path, arch)
    return tuple(kernel for kernel in found if entry in (None, kernel.name, kernel.entry))


def _per_entry(path: Path, compiled: Sequence[tuple[Kernel, ...]]) -> tuple[Source, ...]:
    if not compiled[0]:
        raise InputError(
            "holds no kernel to build", where=str(path), next_step="give a file with an .entry that has a body"
        )
    return tuple(Source(kernels[0].name, str(path), kernels) for kernels in zip(*compiled, strict=True))


def _line_in(error: BaseException, path: Path) -> int:
    """The last line of the user's own file on the way to the failure."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
