"""From what a caller passes to what the PTX entry takes, fast: prepared once per signature, run at every launch.

``passes/arguments.py`` does the same for NumPy arrays on the executor, with checks; here the caller has chosen the
kernel by the values' types already, so only what costs nothing is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hybridcc.errors import InputError
from hybridcc.passes.arguments import flatten as flatten_host
from hybridcc.passes.kernel import Argument, ArrayType, ScalarType

Memory: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...] | None]
"""Device address, shape, strides in bytes (None: C order)."""

_FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


def flatten(arguments: Sequence[Argument], values: Sequence[object]) -> list[object]:
    """One value per PTX parameter. NumPy arrays stand for their own memory (for the executor); anything else with
    ``__cuda_array_interface__`` gives its device address. Raises InputError for values that do not fit."""
    import numpy as np

    on_host = [
        isinstance(value, np.ndarray)
        for argument, value in zip(arguments, values, strict=False)
        if isinstance(argument.type, ArrayType)
    ]
    if any(on_host):
        return flatten_host(arguments, values)
    _check_count(arguments, values)
    return flattener(arguments)(values)


def flattener(arguments: Sequence[Argument]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from one value per argument to one Python number per PTX parameter.

    Arrays are in device memory. Those of layout C or F are given the strides of their layout, whatever NumPy says
    about axes of length 0 and 1: that is what the kernel was compiled for.
    """
    makers = [_maker(argument) for argument in arguments]

    def flat(values: Sequence[Any]) -> list[Any]:
        parameters: list[Any] = []
        for make, value in zip(makers, values, strict=True):
            parameters += make(value)
        return parameters

    return flat


def parameter_struct(arguments: Sequence[Argument]) -> struct.Struct:
    """Packs what ``flattener`` gives into the entry's parameter buffer, each parameter at its natural alignment
    (ISA, kernel function parameters). Numbers too large for their type raise struct.error."""
    formats: list[str] = []
    for argument in arguments:
        match argument.type:
            case ArrayType():
                formats += ["Q" if field.role == "data" else "q" for field in argument.fields]
            case ScalarType(dtype):
                formats.append(_FORMATS[dtype])
    return struct.Struct("@" + "".join(formats))


def memory(value: Any) -> Memory:
    """Where an array lies on the device. Raises InputError for what has no ``__cuda_array_interface__``."""
    try:
        return _reader(type(value))(value)
    except AttributeError:
        raise InputError(
            f"{type(value).__name__} is no array in device memory",
            next_step="pass a Numba, CuPy or PyTorch array, or anything with __cuda_array_interface__",
        ) from None


def _check_count(arguments: Sequence[Argument], values: Sequence[object]) -> None:
    if len(values) != len(arguments):
        raise InputError(
            f"the kernel takes {len(arguments)} arguments, {len(values)} were given",
            next_step="give one value per argument, in order",
        )


def _maker(argument: Argument) -> Callable[[Any], Sequence[Any]]:
    match argument.type:
        case ScalarType():
            return lambda value: (value,)
        case ArrayType() if any(field.role == "element_stride" for field in argument.fields):
            return _memref(argument)
        case ArrayType(ndim=1, layout="C" | "F"):
            return _vector(argument)
        case ArrayType():
            return _array(argument)


def _vector(argument: Argument) -> Callable[[Any], Sequence[Any]]:
    """The commonest argument, written out: Numba's struct of a contiguous array of one dimension."""
    itemsize = _itemsize(argument)
    readers = _readers

    def make(value: Any) -> Sequence[Any]:
        reader = readers.get(type(value))
        address, shape, _ = reader(value) if reader is not None else memory(value)
        if len(shape) != 1:
            raise _wrong_rank(argument, shape)
        (count,) = shape
        return (0, 0, count, itemsize, address, count, itemsize)

    return make


def _array(argument: Argument) -> Callable[[Any], Sequence[Any]]:
    itemsize = _itemsize(argument)
    assert isinstance(argument.type, ArrayType)
    ndim, layout = argument.type.ndim, argument.type.layout

    def make(value: Any) -> Sequence[Any]:
        address, shape, strides = memory(value)
        if len(shape) != ndim:
            raise _wrong_rank(argument, shape)
        count = 1
        for extent in shape:
            count *= extent
        if layout != "A" or strides is None:
            strides = _strides(shape, itemsize, "F" if layout == "F" else "C")
        return (0, 0, count, itemsize, address, *shape, *strides)

    return make


def _memref(argument: Argument) -> Callable[[Any], Sequence[Any]]:
    """MLIR's descriptor (frontends/memref.py)."""
    itemsize = _itemsize(argument)
    assert isinstance(argument.type, ArrayType)
    ndim, layout = argument.type.ndim, argument.type.layout

    def make(value: Any) -> Sequence[Any]:
        address, shape, strides = memory(value)
        if len(shape) != ndim:
            raise _wrong_rank(argument, shape)
        if layout != "A" or strides is None:
            strides = _strides(shape, itemsize, "F" if layout == "F" else "C")
        return (address, address, 0, *shape, *(stride // itemsize for stride in strides))

    return make


def _strides(shape: tuple[int, ...], itemsize: int, layout: str) -> tuple[int, ...]:
    strides: list[int] = []
    step = itemsize
    for extent in reversed(shape) if layout == "C" else shape:
        strides.append(step)
        step *= extent
    return tuple(reversed(strides)) if layout == "C" else tuple(strides)


def _itemsize(argument: Argument) -> int:
    import numpy as np

    assert isinstance(argument.type, ArrayType)
    return np.dtype(argument.type.dtype).itemsize


def _wrong_rank(argument: Argument, shape: tuple[int, ...]) -> InputError:
    assert isinstance(argument.type, ArrayType)
    return InputError(
        f"argument {argument.name} has {argument.type.ndim} dimensions, not {len(shape)}",
        next_step="pass an array of the signature's type",
    )


# --- where each library keeps address and shape; by the interface alone one array costs about a microsecond more ---

_readers: dict[type, Callable[[Any], Memory]] = {}


def _reader(kind: type) -> Callable[[Any], Memory]:
    reader = _readers.get(kind)
    if reader is None:
        home = kind.__module__.partition(".")[0]
        if kind.__module__.endswith("cudadrv.devicearray"):
            reader = _numba
        elif home == "cupy":
            reader = _cupy
        elif home == "torch":
            reader = _torch
        else:
            reader = _interface
        _readers[kind] = reader
    return reader


def _numba(array: Any) -> Memory:
    return array.gpu_data.device_ctypes_pointer.value or 0, array.shape, array.strides


def _cupy(array: Any) -> Memory:
    return array.data.ptr, array.shape, array.strides


def _torch(tensor: Any) -> Memory:
    size = tensor.element_size()
    return tensor.data_ptr(), tuple(tensor.shape), tuple(size * step for step in tensor.stride())


def _interface(array: Any) -> Memory:
    interface = array.__cuda_array_interface__
    strides = interface.get("strides")
    return interface["data"][0], tuple(interface["shape"]), None if strides is None else tuple(strides)
