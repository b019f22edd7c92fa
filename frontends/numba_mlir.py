"""Numba kernels to PTX through numba-cuda-mlir, NVIDIA's successor to numba-cuda, with no GPU and no driver.

Arrays become memref descriptors (frontends/memref.py). What keeps it thin: the options that numba-cuda-mlir's
``compile_ptx`` takes, arrays and numbers as arguments.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from hybridcc.errors import MissingExtra, SignatureError, UnknownArchitecture, UnsupportedOption
from hybridcc.frontends import memref, numba_types
from hybridcc.frontends.numba import short_reason, unwrap
from hybridcc.frontends.numba_options import compile_options
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.runtime import toolchain


def compile(function: Callable[..., Any], signature: Any, arch: str, **options: Any) -> Kernel:
    """Compile a kernel written for ``numba_cuda_mlir.cuda`` for ``arch`` ("sm_90").

    ``signature`` is a string or types of numba_cuda_mlir. Raises SignatureError, UnsupportedOption,
    UnknownArchitecture, MissingExtra and ToolchainError.
    """
    function, inherited = unwrap(function)
    inherited = _asked_for(inherited)
    chosen = compile_options({**inherited, **options})
    if chosen.max_registers is not None:
        raise UnsupportedOption("numba-cuda-mlir kernels take no max_registers yet", next_step="use numba-cuda")
    capability = _capability(arch)
    types = _types(signature)
    names = tuple(inspect.signature(function).parameters)
    if len(names) != len(types):
        raise SignatureError(
            f"{function.__name__} takes {len(names)} arguments, the signature has {len(types)}",
            next_step="give one type per argument",
        )
    arguments = tuple(_argument(name, type_) for name, type_ in zip(names, types, strict=True))
    bounds = chosen.launch_bounds
    given = tuple(bound for bound in (bounds.max_threads, bounds.min_blocks) if bound is not None) or None
    ptx = _ptx(
        function,
        types,
        capability,
        fastmath=chosen.fastmath,
        opt=not chosen.debug if chosen.opt is None else chosen.opt,
        debug=chosen.debug,
        lineinfo=chosen.lineinfo,
        launch_bounds=given,
    )
    entry = re.search(r"\.visible\s+\.entry\s+(\S+?)\s*\(([^)]*)\)", ptx)
    declared = re.findall(r"\.param\s+(\.\w+)\s", entry[2]) if entry else []
    expected = [field.ptx_type for argument in arguments for field in argument.fields]
    if entry is None or declared != expected:
        raise SignatureError(
            f"numba-cuda-mlir declares the parameters {declared} where {expected} were expected",
            next_step="use the version of numba-cuda-mlir in constraints.txt",
        )
    return Kernel(
        name=function.__name__,
        entry=entry[1],
        ptx=ptx,
        arch=arch,
        frontend=f"numba-cuda-mlir {metadata.version('numba-cuda-mlir')}",
        arguments=arguments,
        facts=(*memref.facts(arguments), *numba_types.launch_facts(bounds)),
        launch_bounds=bounds,
        source_file=function.__code__.co_filename,
        source_line=function.__code__.co_firstlineno,
    )


def types_of(function: Callable[..., Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """The types that numba-cuda-mlir gives a call's arguments. Raises SignatureError."""
    dispatcher = _package().cuda.jit(function)
    try:
        return tuple(dispatcher.typeof_pyval(value) for value in values)
    except ValueError as error:
        raise SignatureError(str(error), next_step="pass arrays and numbers") from error


_OPTIONS = ("debug", "opt", "lineinfo", "fastmath", "launch_bounds", "max_registers")


def _asked_for(inherited: dict[str, Any]) -> dict[str, Any]:
    """Of numba-cuda-mlir's own jit object, which holds every option with its default, those that change the PTX. Raises
    UnsupportedOption for code that is linked in."""
    if "_dbg_optnone" not in inherited:
        return inherited
    if inherited.get("link"):
        raise UnsupportedOption("link= brings code that hybridcc does not see", next_step="take link= out")
    return {name: inherited[name] for name in _OPTIONS if inherited.get(name) is not None}


def _ptx(function: Callable[..., Any], types: Sequence[Any], capability: tuple[int, int], **options: Any) -> str:
    cuda = _package().cuda
    try:
        with _preset(capability):
            ptx, _ = cuda.compile_ptx(function, tuple(types), cc=capability, **options)
    except Exception as error:  # typing runs user code and a whole compiler: no narrower type covers it
        raise SignatureError(
            f"{function.__name__} does not compile for ({', '.join(map(str, types))}): {short_reason(error)}",
            where=f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}",
            next_step="mend the kernel or its signature",
        ) from error
    return ptx if ptx.endswith("\n") else ptx + "\n"


_presetting = threading.Lock()


@contextmanager
def _preset(capability: tuple[int, int]) -> Iterator[None]:
    """numba-cuda-mlir 0.6.0 asks the driver for the capability even where ``cc`` is given; it keeps the answer in
    ``tools._cached_cc``, which is set for the time of one compilation."""
    from numba_cuda_mlir import tools

    with _presetting:
        kept = tools._cached_cc
        tools._cached_cc = capability
        try:
            yield
        finally:
            tools._cached_cc = kept


def _package() -> Any:
    toolchain.load("nvvm")
    toolchain.load("nvjitlink")
    toolchain.load("nvrtc")
    try:
        import numba_cuda_mlir.cuda
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"numba-cuda-mlir kernels need {error.name}", next_step="pip install 'hybridcc[mlir]'"
        ) from error
    return numba_cuda_mlir


def _types(signature: Any) -> tuple[Any, ...]:
    _package()
    from numba_cuda_mlir import types
    from numba_cuda_mlir.numba_cuda.core import sigutils

    try:
        arguments, result = sigutils.normalize_signature(signature)
    except Exception as error:  # the string is evaluated: it can raise anything
        raise SignatureError(
            f"not a signature: {signature!r}: {error}", next_step="write it as void(float32[::1], int64)"
        ) from error
    if result not in (None, types.void):
        raise SignatureError(f"a kernel returns nothing, not {result}", next_step="write void(…)")
    return tuple(arguments)


def _capability(arch: str) -> tuple[int, int]:
    """LLVM ends the process on a chip it does not know, so only NVRTC's list is let through."""
    _package()
    from cuda.bindings import nvrtc

    _, known = nvrtc.nvrtcGetSupportedArchs()
    found = re.fullmatch(r"sm_(\d+)", arch)
    if found is None or int(found[1]) not in known:
        raise UnknownArchitecture(
            f"no architecture {arch!r}", next_step=f"give one of {', '.join(f'sm_{n}' for n in sorted(known))}"
        )
    return divmod(int(found[1]), 10)


def _argument(name: str, type_: Any) -> Argument:
    import numpy as np
    from numba_cuda_mlir import types

    dtype = "bool" if isinstance(type_, types.Boolean) else str(type_)
    if isinstance(type_, types.Array):
        element = "bool" if isinstance(type_.dtype, types.Boolean) else str(type_.dtype)
        try:
            element = np.dtype(element).name
        except TypeError:
            raise SignatureError(
                f"argument {name} is an array of {element}, which hybridcc does not pass yet",
                next_step="use an element type that NumPy has",
            ) from None
        array = ArrayType(element, type_.ndim, type_.layout, not type_.mutable, type_.aligned)
        return Argument(name, array, memref.fields(type_.ndim))
    if isinstance(type_, types.Boolean | types.Integer | types.Float) and dtype in numba_types.PTX_TYPES:
        return Argument(name, ScalarType(dtype), (Field("value", numba_types.PTX_TYPES[dtype]),))
    raise SignatureError(
        f"argument {name} is of type {type_}, which hybridcc does not pass yet", next_step="pass arrays and numbers"
    )
