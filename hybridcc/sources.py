"""From what the command line names to kernels: each compiled once per architecture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridcc.errors import InputError, UnknownArchitecture, UnsupportedOption
from hybridcc.passes.kernel import Kernel

SUFFIXES = (".py", ".ptx", ".mlir", ".ll", ".bc", ".cu")


@dataclass(frozen=True, slots=True)
class Source:
    """One kernel: its compilations (one per architecture, in the order asked), and its author's examples."""

    name: str
    path: str
    kernels: tuple[Kernel, ...]
    examples: Callable[[], object] | None = None


def load(
    target: str,
    architectures: Sequence[str],
    *,
    signature: str | None = None,
    entry: str | None = None,
    lineinfo: bool = False,
    include: Sequence[str | Path] = (),
    instantiate: Sequence[str] = (),
) -> tuple[Source, ...]:
    """``file.py``, ``file.py:name``, and files of the other SUFFIXES; each architecture once. ``lineinfo`` has Numba
    say which line of the source each instruction came from, if it can; ``include`` and ``instantiate`` are for CUDA C++
    (frontends/cuda_cpp.py). Raises InputError and its kin."""
    architectures = tuple(dict.fromkeys(architectures))
    for arch in architectures:
        _check_supported(arch)
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
            return tuple(_numba(path, architectures, signature, wanted, lineinfo))
        case ".ptx":
            return _per_entry(path, [_ptx(path, arch, wanted) for arch in architectures])
        case ".mlir" | ".ll" | ".bc" | ".cu":
            return _per_entry(path, [_chosen(path, arch, wanted, include, instantiate) for arch in architectures])
        case other:
            raise InputError(
                f"kernels are read from {', '.join(SUFFIXES)} files, not {other or 'a file without a suffix'}",
                where=str(path),
                next_step="rename the file, or convert it",
            )


def _check_supported(arch: str) -> None:
    """Raises UnknownArchitecture for those before the oldest that rewrites are checked for; of the others, the frontend
    and the assembler say which they know."""
    from hybridcc.passes.rewrite.answer import LEAST_ARCHITECTURE

    number = re.fullmatch(r"sm_(\d+)", arch)
    if number and int(number[1]) < int(LEAST_ARCHITECTURE.removeprefix("sm_")):
        raise UnknownArchitecture(
            f"{arch} is older than {LEAST_ARCHITECTURE}", next_step=f"give {LEAST_ARCHITECTURE} or a later one"
        )


def _numba(
    path: Path, architectures: Sequence[str], signature: str | None, wanted: str | None, lineinfo: bool
) -> Iterator[Source]:
    from hybridcc.frontends import discover

    name, types = _split(signature)
    seen: Counter[str] = Counter()
    for kernel in discover.find(path, wanted or name, types):
        for each in kernel.signatures:
            compiled = tuple(_compiled(kernel.function, each, arch, lineinfo) for arch in architectures)
            # Signatures of one kernel share its name, and so do kernels that one factory made.
            number = seen[kernel.name]
            seen[kernel.name] += 1
            yield Source(f"{kernel.name}-{number}" if number else kernel.name, str(path), compiled, kernel.examples)


def _compiled(function: Any, signature: Any, arch: str, lineinfo: bool) -> Kernel:
    from hybridcc.frontends import numba, numba_mlir, which

    compile = numba_mlir.compile if which.is_for_numba_mlir(function) else numba.compile
    if lineinfo:
        try:
            return compile(function, signature, arch, lineinfo=True)
        except UnsupportedOption:  # a kernel that is compiled for a debugger has its own
            pass
    return compile(function, signature, arch)


def _split(signature: str | None) -> tuple[str | None, str | None]:
    """``conv1d(float32[::1])`` as the kernel's name and a signature that Numba reads; void is no kernel's name."""
    if signature is None:
        return None, None
    name, paren, types = signature.strip().partition("(")
    if not paren or not types.endswith(")"):
        raise InputError(
            f"{signature!r} is no signature",
            next_step="write it as 'name(float32[::1], int64)' or '(float32[::1], int64)'",
        )
    name = name.strip()
    return (name if name and name != "void" else None), f"void({types}"


def _ptx(path: Path, arch: str, entry: str | None) -> tuple[Kernel, ...]:
    from hybridcc.frontends import ptx_file

    return ptx_file.load(path, entry=entry, arch=arch)


def _chosen(
    path: Path, arch: str, wanted: str | None, include: Sequence[str | Path], instantiate: Sequence[str]
) -> tuple[Kernel, ...]:
    """Raises InputError when there is no kernel of that name."""
    from hybridcc.frontends import cuda_cpp, llvm, mlir

    match path.suffix:
        case ".mlir":
            found = mlir.compile(path, arch)
        case ".cu":
            found = cuda_cpp.compile(path, arch, include=include, instantiate=instantiate)
        case _:
            found = llvm.compile(path, arch)
    chosen = tuple(kernel for kernel in found if wanted in (None, kernel.name, kernel.entry))
    if not chosen:
        known = ", ".join(kernel.name for kernel in found)
        raise InputError(f"no kernel {wanted} (kernels: {known})", where=str(path), next_step="name one of them")
    return chosen


def _per_entry(path: Path, compiled: Sequence[tuple[Kernel, ...]]) -> tuple[Source, ...]:
    if not compiled[0]:
        raise InputError(
            "holds no kernel to build", where=str(path), next_step="give a file with an .entry that has a body"
        )
    return tuple(Source(kernels[0].name, str(path), kernels) for kernels in zip(*compiled, strict=True))
