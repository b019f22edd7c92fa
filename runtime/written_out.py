"""One signature's reader as a function without loops or calls: half of what a launch costs on the host is their price.

The text is made from the signature's kinds alone (names, numbers and attribute accesses that stand here), compiled
once per signature, as ``dataclasses`` does. It covers Numba's device arrays and scalars; whatever else a call holds
goes to the reader that takes everything (parameters.reader), and so does what it does not read itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridcc.passes.kernel import Argument, ArrayType, ScalarType


def written_out(
    arguments: Sequence[Argument], types: Sequence[Any], general: Callable[..., list[Any] | None]
) -> Callable[..., Sequence[Any] | None]:
    """``general`` where there is nothing to gain: no array, or one of more dimensions."""
    vectors = [isinstance(a.type, ArrayType) and a.type.ndim == 1 and a.type.layout != "A" for a in arguments]
    arrays = [isinstance(argument.type, ArrayType) for argument in arguments]
    if vectors != arrays or not any(arrays):
        return general
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    names: dict[str, Any] = {"general": general, "Device": DeviceNDArray, "count": len(arguments)}
    unpack = "".join(f"a{number}, " for number in range(len(arguments)))
    lines, tests, parts = [], [], []
    for number, (argument, type_) in enumerate(zip(arguments, types, strict=True)):
        names[f"T{number}"] = type_
        match argument.type:
            case ScalarType(dtype):
                names[f"K{number}"] = scalar_kinds(dtype)
                tests.append(f"type(a{number}) in K{number}")
                parts.append(f"a{number}")
            case ArrayType(dtype):
                size = np.dtype(dtype).itemsize
                tests.append(f"type(a{number}) is Device and a{number}._numba_type_ is T{number}")
                lines.append(f"n{number}, = a{number}.shape")
                pointer = f"a{number}.gpu_data.device_ctypes_pointer.value"
                parts.append(f"0, 0, n{number}, {size}, {pointer}, n{number}, {size}")
    body = "\n            ".join([*lines, f"return ({', '.join(parts)},)"])
    text = f"""
def read(values, stream=0):
    if len(values) == count:
        {unpack}= values
        if {" and ".join(tests)}:
            {body}
    return general(values, stream)
"""
    exec(text, names)
    return names["read"]


def scalar_kinds(dtype: str) -> frozenset[type]:
    """The Python types that Numba itself types so."""
    native = {"int64": int, "float64": float, "bool": bool}.get(dtype)
    return frozenset({np.dtype(dtype).type, *([native] if native else [])})
