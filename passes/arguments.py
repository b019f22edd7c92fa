"""From source-level values to one value per PTX parameter, as the kernel's argument fields say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Argument, ArrayType, Field, ScalarType

PTX_NUMPY = {
    ".u8": "u1", ".s8": "i1", ".b8": "u1", ".u16": "u2", ".s16": "i2", ".b16": "u2", ".f16": "f2",
    ".u32": "u4", ".s32": "i4", ".b32": "u4", ".f32": "f4", ".u64": "u8", ".s64": "i8", ".b64": "u8", ".f64": "f8",
}  # fmt: skip
"""NumPy dtype of a PTX parameter type."""


PASS_TYPES = "pass what the signature says, or change the signature"


def flatten(
    arguments: Sequence[Argument],
    values: Sequence[object],
    pointer: Callable[[np.ndarray], object] = lambda array: array,
) -> list[object]:
    """One value per PTX parameter. ``pointer`` gives what stands for an array's address: the array itself on the
    executor, a device address at a launch.

    Raises InputError when the number or the types of the values do not fit.
    """
    if len(values) != len(arguments):
        raise InputError(
            f"the kernel takes {len(arguments)} arguments, {len(values)} were given",
            next_step="give one value per argument, in order",
        )
    flat: list[object] = []
    for argument, value in zip(arguments, values, strict=True):
        check(argument, value)
        flat += [_parameter(argument, field, value, pointer) for field in argument.fields]
    return flat


def check(argument: Argument, value: object, where: str = "") -> None:
    """Raises InputError when a value cannot stand for an argument; ``where`` is the file that it came from."""
    match argument.type:
        case ArrayType(dtype=dtype, ndim=ndim, layout=layout):
            wanted = f"{dtype} array of {ndim} dimension{'s' if ndim != 1 else ''}"
            if not isinstance(value, np.ndarray):
                raise InputError(
                    f"argument {argument.name} wants a {wanted}, not {type(value).__name__}",
                    where=where,
                    next_step=PASS_TYPES,
                )
            if value.dtype != np.dtype(dtype) or value.ndim != ndim:
                raise InputError(
                    f"argument {argument.name} wants a {wanted}, not {value.dtype} of {value.ndim}",
                    where=where,
                    next_step=PASS_TYPES,
                )
            if (layout == "C" and not value.flags.c_contiguous) or (layout == "F" and not value.flags.f_contiguous):
                raise InputError(
                    f"argument {argument.name} wants a {layout}-contiguous array", where=where, next_step=PASS_TYPES
                )
        case ScalarType(dtype):
            if isinstance(value, np.ndarray) or not np.isscalar(value):
                raise InputError(
                    f"argument {argument.name} wants a {dtype}, not {type(value).__name__}",
                    where=where,
                    next_step=PASS_TYPES,
                )


def _parameter(argument: Argument, field: Field, value: object, pointer: Callable[[np.ndarray], object]) -> object:
    declared = np.dtype(PTX_NUMPY[field.ptx_type])
    if not isinstance(value, np.ndarray):
        assert isinstance(argument.type, ScalarType)
        return _scalar(np.asarray(value, argument.type.dtype), declared)
    match field.role:
        case "data":
            return pointer(value)
        case "nitems":
            return declared.type(value.size)
        case "itemsize":
            return declared.type(value.itemsize)
        case "shape":
            return declared.type(value.shape[field.axis])
        case "stride":
            return np.int64(_strides(argument.type, value)[field.axis]).astype(declared)
        case "element_stride":
            return np.int64(_strides(argument.type, value)[field.axis] // value.itemsize).astype(declared)
        case "meminfo" | "parent" | "offset":
            return declared.type(0)
        case role:
            raise InputError(f"unknown parameter role {role!r}", next_step="report this with the kernel")


def _scalar(value: np.ndarray, declared: np.dtype) -> object:
    """The value's bits in the declared type: float16 travels in ``.u16``, a negative int8 in ``.u8``."""
    if value.dtype.kind == "f" and declared.kind in "iu":
        return value.view(f"u{value.itemsize}").astype(declared)[()]
    return value.astype(declared)[()]


def _strides(type_: ArrayType | ScalarType, array: np.ndarray) -> tuple[int, ...]:
    """In bytes. What the layout says where it says it: NumPy leaves strides of extents 0 and 1 as they come."""
    assert isinstance(type_, ArrayType)
    if type_.layout == "A":
        return array.strides
    extents = array.shape[::-1] if type_.layout == "C" else array.shape
    strides, step = [], array.itemsize
    for extent in extents:
        strides.append(step)
        step *= extent
    return tuple(strides[::-1] if type_.layout == "C" else strides)
