"""A call's values to a kernel's parameter buffer, by its description alone (runtime/calling.py): no compiler, no Numba.

An array is whatever has ``__cuda_array_interface__`` (CuPy, Numba, cuda.core's views) or is a tensor of PyTorch; where
the kernel takes no more than an address, an integer or a buffer with ``handle`` will do.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybridcc.errors import InputError
from hybridcc.runtime.calling import BYTES

_NAMES = {
    "f2": "float16", "f4": "float32", "f8": "float64", "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32",
    "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip
"""NumPy's name for the type string of an array interface, without its byte order."""
_FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}
LEGACY_STREAM = 1
"""How ``__cuda_array_interface__`` (version 3) and the driver spell the legacy default stream, which is also 0."""


@dataclass(frozen=True, slots=True)
class View:
    """An array on the device; ``strides`` in bytes, ``stream`` the producer's, if it names one."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    readonly: bool = False
    stream: int | None = None


def packed(calling: Mapping[str, Any], values: Sequence[Any], stream: int) -> bytearray:
    """The parameter buffer of one launch. An array that another stream still works on is ordered before the launch.

    Raises InputError for a value that the kernel was not compiled for.
    """
    arguments = calling["arguments"]
    if len(values) != len(arguments):
        raise InputError(
            f"the kernel takes {len(arguments)} arguments, {len(values)} were given",
            next_step=f"pass {', '.join(a['name'] for a in arguments) or 'none'}",
        )
    buffer = bytearray(calling["bytes"])
    for argument, value in zip(arguments, values, strict=True):
        if argument["dtype"] == BYTES:
            _block(buffer, argument, value)
        elif argument["ndim"] is None:
            _number(buffer, argument, value, calling["guessed"])
        else:
            _array(buffer, argument, value, calling["guessed"], stream)
    return buffer


def _block(buffer: bytearray, argument: Mapping[str, Any], value: Any) -> None:
    (field,) = argument["fields"]
    if not isinstance(value, bytes | bytearray | memoryview) or len(value) != field["bytes"]:
        raise _unfit(argument, f"{field['bytes']} bytes", type(value).__name__)
    buffer[field["offset"] : field["offset"] + field["bytes"]] = value


def _number(buffer: bytearray, argument: Mapping[str, Any], value: Any, guessed: bool) -> None:
    (field,) = argument["fields"]
    dtype, size = argument["dtype"], field["bytes"]
    try:
        if field["type"][1] == "f" or (dtype in _FLOATS and struct.calcsize(_FLOATS[dtype]) == size):
            code = {2: "e", 4: "f", 8: "d"}[size]
            struct.pack_into(f"<{code}", buffer, field["offset"], float(value))
            return
        number = int(value) if dtype == "bool" else value.__index__()
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise _unfit(argument, dtype, repr(value)) from None
    least = 0 if dtype.startswith("u") and not guessed else -(1 << (8 * size - 1))
    most = (1 << (8 * size - (1 if dtype.startswith("i") and not guessed else 0))) - 1
    if not least <= number <= most:
        raise _unfit(argument, dtype, repr(value))
    struct.pack_into(f"<{_INTEGERS[size]}", buffer, field["offset"], number & ((1 << (8 * size)) - 1))


def _array(buffer: bytearray, argument: Mapping[str, Any], value: Any, guessed: bool, stream: int) -> None:
    bare = all(field["role"] == "data" for field in argument["fields"])
    view = view_of(value)
    if view is None and bare and (address := _address(value)) is not None:
        for field in argument["fields"]:
            struct.pack_into("<Q", buffer, field["offset"], address)
        return
    wanted = _wanted(argument, bare, guessed)
    if view is None:
        raise _unfit(argument, wanted, type(value).__name__)
    fits = guessed or view.dtype == argument["dtype"]
    fits = fits and (bare or len(view.shape) == argument["ndim"])
    layout = argument["layout"]
    fits = fits and (layout == "A" or is_laid_out(view, layout))
    if not fits or (view.readonly and not argument["readonly"] and not guessed):
        raise _unfit(argument, wanted, _described(view))
    if view.stream is not None and view.stream != stream and not (view.stream == LEGACY_STREAM and not stream):
        from hybridcc.runtime.driver import wait_for

        wait_for(view.stream, stream)
    strides = view.strides if layout == "A" else layout_strides(view.shape, view.itemsize, layout)
    for field in argument["fields"]:
        number = _parameter(field, view, strides)
        struct.pack_into(f"<{_INTEGERS[field['bytes']]}", buffer, field["offset"], number & ((1 << 64) - 1))


def _parameter(field: Mapping[str, Any], view: View, strides: tuple[int, ...]) -> int:
    match field["role"]:
        case "data":
            return view.address
        case "nitems":
            return _count(view.shape)
        case "itemsize":
            return view.itemsize
        case "shape":
            return view.shape[field["axis"]]
        case "stride":
            return strides[field["axis"]]
        case "element_stride":
            return strides[field["axis"]] // view.itemsize
        case "meminfo" | "parent" | "offset":
            return 0
        case role:
            raise InputError(f"unknown parameter role {role!r}", next_step="load it with the hybridcc that built it")


def view_of(value: Any) -> View | None:
    """None for what is no array on a device."""
    home = type(value).__module__
    if home == "torch" or home.startswith("torch."):
        return _tensor(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None or interface.get("mask") is not None:
        return None
    typestr: str = interface["typestr"]
    dtype = _NAMES.get(typestr[1:], typestr) if typestr[0] in "<|=" else typestr
    itemsize = int("".join(c for c in typestr if c.isdigit()))
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    given = layout_strides(shape, itemsize, "C") if strides is None else tuple(strides)
    address, readonly = interface["data"]
    return View(int(address or 0), shape, given, dtype, itemsize, bool(readonly), interface.get("stream"))


def _tensor(value: Any) -> View | None:
    if not getattr(value, "is_cuda", False):
        return None
    size = value.element_size()
    strides = tuple(size * step for step in value.stride())
    return View(value.data_ptr(), tuple(value.shape), strides, str(value.dtype).removeprefix("torch."), size)


def _address(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    handle = getattr(value, "handle", None)  # cuda.core's Buffer
    return None if handle is None else int(handle)


def is_laid_out(view: View, layout: str) -> bool:
    """Strides of axes of extent 1 say nothing, and an empty array has any layout."""
    if 0 in view.shape:
        return True
    wanted = layout_strides(view.shape, view.itemsize, layout)
    return all(extent == 1 or own == step for extent, own, step in zip(view.shape, view.strides, wanted, strict=True))


def layout_strides(shape: Sequence[int], itemsize: int, layout: str) -> tuple[int, ...]:
    """In bytes, for layout C or F."""
    strides: list[int] = []
    step = itemsize
    for extent in shape if layout == "F" else reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(strides) if layout == "F" else tuple(reversed(strides))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _wanted(argument: Mapping[str, Any], bare: bool, guessed: bool) -> str:
    order = {"C": "C-contiguous ", "F": "F-contiguous ", "A": ""}[argument["layout"]]
    type_ = "" if guessed else f"{argument['dtype']} "
    return f"a {order}{type_}array on the device" + ("" if bare else f" of {argument['ndim']} dimensions")


def _described(view: View) -> str:
    kind = "a read-only" if view.readonly else "one of"
    return f"{kind} {view.dtype}, shape {view.shape}, strides {view.strides}"


def _unfit(argument: Mapping[str, Any], wanted: str, given: str) -> InputError:
    return InputError(
        f"argument {argument['name']} wants {wanted}, not {given}",
        next_step="pass what the kernel was compiled for; manifest.json lists it under calling",
    )
