"""A call's values to the entry's parameter buffer, prepared once per signature and run at every launch.

Reading a value also checks its type: a reader gives None for a value that the signature does not cover, and the
caller goes to the next signature or to the baseline. Nothing is remembered about a value, so an array that is freed
and whose address or ``id`` comes back as another's is read afresh.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from hybridcc.passes.kernel import Argument, ArrayType, ScalarType
from hybridcc.runtime.passing import LEGACY_STREAM, layout_strides
from hybridcc.runtime.written_out import scalar_kinds, written_out

Read: TypeAlias = Callable[[Any, int], tuple[Any, ...] | None]
"""One value and the launch's stream (the driver's handle) to its PTX parameters, None if the signature does not cover
it. An array that another stream still works on is ordered before the launch."""

_SCALAR_FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


class ParameterBuffer:
    """Memory for one launch's parameters, and the array of addresses that cuLaunchKernel takes as kernelParams."""

    __slots__ = ("_pointers", "address", "memory")

    def __init__(self, format_: str) -> None:
        self.memory = ctypes.create_string_buffer(struct.calcsize(format_))
        base = ctypes.addressof(self.memory)
        offsets = _offsets(format_)
        self._pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
        self.address = ctypes.addressof(self._pointers)


def format_of(arguments: Sequence[Argument]) -> str:
    """The buffer's layout for ``struct``: every parameter at its natural alignment (ISA, .param state space)."""
    return "@" + "".join(
        _SCALAR_FORMATS[argument.type.dtype]
        if isinstance(argument.type, ScalarType)
        else "".join("Q" if field.role == "data" else "q" for field in argument.fields)
        for argument in arguments
    )


def _offsets(format_: str) -> list[int]:
    codes = format_[1:]
    return [struct.calcsize("@" + codes[: index + 1]) - struct.calcsize(codes[index]) for index in range(len(codes))]


class _Readers(dict[type, Read]):
    """How to read one argument's value, by the value's type; made when a type is first seen."""

    def __init__(self, make: Callable[[type], Read]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: type) -> Read:
        self[kind] = made = self._make(kind)
        return made


class Reader(Protocol):
    def __call__(self, values: Sequence[Any], stream: int = 0) -> Sequence[Any] | None: ...


def reader(
    arguments: Sequence[Argument], types: Sequence[Any], *, lenient: bool = False
) -> Reader:
    """A function from a call's values and its stream to one number per PTX parameter, or to None.

    ``types`` are the signature's Numba types, used to know Numba's own arrays. ``lenient`` takes any number for a
    scalar, as Numba does for a kernel with one declared signature; otherwise a scalar must have the very type that
    Numba would give it.
    """
    all_readers = tuple(
        _Readers(_maker(argument, type_, lenient)) for argument, type_ in zip(arguments, types, strict=True)
    )
    count = len(all_readers)

    def read(values: Sequence[Any], stream: int = 0) -> list[Any] | None:
        if len(values) != count:
            return None
        flat: list[Any] = []
        for readers, value in zip(all_readers, values):  # noqa: B905 - lengths are compared above
            found = readers[type(value)](value, stream)
            if found is None:
                return None
            flat += found
        return flat

    return read if lenient else written_out(arguments, types, read)


def _maker(argument: Argument, type_: Any, lenient: bool) -> Callable[[type], Read]:
    match argument.type:
        case ScalarType(dtype):
            return lambda kind: _scalar(kind, dtype, lenient)
        case ArrayType() as array:
            return lambda kind: _array(kind, array, type_)


def _scalar(kind: type, dtype: str, lenient: bool) -> Read:
    """Numba takes a Python int for int64, a float for float64, a bool for boolean; NumPy scalars for their own.
    With ``lenient`` struct converts, and refuses what does not fit."""
    import numpy as np

    taken = issubclass(kind, int | float | np.number | np.bool_) if lenient else kind in scalar_kinds(dtype)
    return _itself if taken else _not_covered


def _itself(value: Any, stream: int) -> tuple[Any, ...]:
    return (value,)


def _not_covered(value: Any, stream: int) -> None:
    return None


# --- arrays: where each library keeps address, shape and type; by the interface alone one costs a microsecond more ---

_Look: TypeAlias = Callable[[Any, int], tuple[int, tuple[int, ...], tuple[int, ...] | None] | None]
"""(device address, shape, strides in bytes or None for C order), or None if the type differs."""


def _array(kind: type, array: ArrayType, type_: Any) -> Read:
    import numpy as np

    itemsize = np.dtype(array.dtype).itemsize
    home = kind.__module__
    if home.endswith("cudadrv.devicearray"):
        if array.ndim == 1 and array.layout != "A":
            return _numba_vector(type_, itemsize)
        return _flattened(_numba(type_), array, itemsize)
    if home == "torch" or home.startswith("torch."):
        return _flattened(_torch(array), array, itemsize)
    return _flattened(_interface(array), array, itemsize)


def _numba_vector(type_: Any, itemsize: int) -> Read:
    """The commonest argument, written out."""

    def read(value: Any, stream: int) -> tuple[Any, ...] | None:
        if value._numba_type_ is not type_:  # Numba keeps one object per type
            return None
        (count,) = value.shape
        return (0, 0, count, itemsize, value.gpu_data.device_ctypes_pointer.value, count, itemsize)

    return read


def _flattened(look: _Look, array: ArrayType, itemsize: int) -> Read:
    layout = array.layout

    def read(value: Any, stream: int) -> tuple[Any, ...] | None:
        found = look(value, stream)
        if found is None:
            return None
        address, shape, strides = found
        count = 1
        for extent in shape:
            count *= extent
        if strides is None or layout != "A":
            strides = layout_strides(shape, itemsize, layout)
        return (0, 0, count, itemsize, address, *shape, *strides)

    return read


def _numba(type_: Any) -> _Look:
    def look(value: Any, stream: int) -> tuple[int, tuple[int, ...], tuple[int, ...] | None] | None:
        if value._numba_type_ is not type_:  # Numba keeps one object per type
            return None
        return value.gpu_data.device_ctypes_pointer.value, value.shape, value.strides

    return look


def _torch(array: ArrayType) -> _Look:
    torch = sys.modules["torch"]  # a tensor is here, so it is loaded
    dtype = getattr(torch, array.dtype, None)

    def look(value: Any, stream: int) -> tuple[int, tuple[int, ...], tuple[int, ...] | None] | None:
        if value.dtype is not dtype or not value.is_cuda or value.dim() != array.ndim or value.requires_grad:
            return None
        shape = tuple(value.shape)
        size = value.element_size()
        strides = tuple(size * step for step in value.stride())
        return (value.data_ptr(), shape, strides) if _fits(array, shape, strides, size) else None

    return look


def _interface(array: ArrayType) -> _Look:
    """Anything with ``__cuda_array_interface__``: CuPy and the rest."""
    import numpy as np

    dtype = np.dtype(array.dtype)

    def look(value: Any, stream: int) -> tuple[int, tuple[int, ...], tuple[int, ...] | None] | None:
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None or interface.get("mask") is not None or np.dtype(interface["typestr"]) != dtype:
            return None
        address, readonly = interface["data"]
        shape, strides = tuple(interface["shape"]), interface.get("strides")
        if readonly != array.readonly or len(shape) != array.ndim:
            return None
        given = None if strides is None else tuple(strides)
        if not _fits(array, shape, given, dtype.itemsize):
            return None
        producer = interface.get("stream")
        if producer is not None and not _ordered(producer, stream):
            return None
        return address, shape, given

    return look


def _ordered(producer: int, stream: int) -> bool:
    """Make the launch's stream wait for what the producer's has queued, without waiting on the host; False if the
    driver refuses."""
    if producer == stream or (producer == LEGACY_STREAM and not stream):
        return True
    from hybridcc.errors import DeviceError
    from hybridcc.runtime.driver import wait_for
    from hybridcc.runtime.numba_classes import array_interface_sync

    try:
        if array_interface_sync():
            wait_for(producer, stream)
    except DeviceError:
        return False
    return True


def _fits(array: ArrayType, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> bool:
    """Whether Numba would give the array this layout: C before F before A."""
    if strides is None or strides == layout_strides(shape, itemsize, "C"):
        return array.layout == "C"
    if strides == layout_strides(shape, itemsize, "F"):
        return array.layout == "F"
    return array.layout == "A"
