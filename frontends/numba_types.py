"""Numba's argument types by meaning: which PTX parameters each becomes, and what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hybridcc.errors import SignatureError
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation, Special
from hybridcc.passes.kernel import Argument, ArrayType, Field, LaunchBounds, ScalarType

LARGEST_EXTENT = 1 << 62
"""No array reaches this many elements along an axis: NumPy bounds their bytes by 2**63, memory does by far less."""

PTX_TYPES = {
    "bool": ".u8", "int8": ".u8", "uint8": ".u8", "int16": ".u16", "uint16": ".u16", "float16": ".u16",
    "int32": ".u32", "uint32": ".u32", "int64": ".u64", "uint64": ".u64", "float32": ".f32", "float64": ".f64",
}  # fmt: skip
"""How numba-cuda declares a scalar of each NumPy dtype. int8 and int16 are passed as their own width."""


def arguments(names: Sequence[str], types: Sequence[Any]) -> tuple[Argument, ...]:
    """Raises SignatureError naming the argument and the type that hybridcc cannot pass."""
    return tuple(_argument(name, type_) for name, type_ in zip(names, types, strict=True))


def _argument(name: str, type_: Any) -> Argument:
    from numba.cuda import types

    match type_:
        case types.Array():
            array = _array_type(name, type_)
            return Argument(name, array, _array_fields(array.ndim))
        case types.Boolean() | types.Integer() | types.Float():
            dtype = "bool" if isinstance(type_, types.Boolean) else str(type_)
            if dtype in PTX_TYPES:
                return Argument(name, ScalarType(dtype), (Field("value", PTX_TYPES[dtype]),))
    raise SignatureError(
        f"argument {name} is {_kind(type_)} ({type_}), which hybridcc does not pass yet", next_step=_advice(type_)
    )


def _array_type(name: str, type_: Any) -> ArrayType:
    from numba.cuda import types
    from numba.cuda.np.numpy_support import as_dtype  # pyright: ignore[reportMissingImports]

    if isinstance(type_.dtype, types.Record):
        raise SignatureError(
            f"argument {name} is an array of records, which hybridcc does not pass yet",
            next_step="pass one array per field",
        )
    try:
        dtype = as_dtype(type_.dtype).name
    except NotImplementedError:
        raise SignatureError(
            f"argument {name} is an array of {type_.dtype}, for which NumPy has no type",
            next_step="use an element type that NumPy has",
        ) from None
    return ArrayType(dtype, type_.ndim, type_.layout, readonly=not type_.mutable, aligned=type_.aligned)


def _array_fields(ndim: int) -> tuple[Field, ...]:
    """numba-cuda's array struct, member by member."""
    return (
        Field("meminfo", ".u64"),
        Field("parent", ".u64"),
        Field("nitems", ".u64"),
        Field("itemsize", ".u64"),
        Field("data", ".u64"),
        *(Field("shape", ".u64", axis) for axis in range(ndim)),
        *(Field("stride", ".u64", axis) for axis in range(ndim)),
    )


def _kind(type_: Any) -> str:
    from numba.cuda import types

    match type_:
        case types.Complex():
            return "a complex scalar"
        case types.Record():
            return "a record"
        case types.BaseTuple():
            return "a tuple"
        case types.CPointer():
            return "a bare pointer"
        case types.NPDatetime() | types.NPTimedelta():
            return "a date or a time span"
        case _:
            return f"a {type(type_).__name__}"


def _advice(type_: Any) -> str:
    from numba.cuda import types

    match type_:
        case types.Complex():
            return "pass it in an array of one element, or as two floats"
        case types.Record() | types.BaseTuple():
            return "pass its members as arguments of their own"
        case types.CPointer():
            return "pass an array"
        case _:
            return "pass arrays, integers, floats or booleans"


def facts(arguments: Sequence[Argument], bounds: LaunchBounds) -> tuple[Fact, ...]:
    """What the types and the launch bounds promise, parameters numbered as in the PTX entry.

    numba-cuda addresses an array of layout C or F by its shape alone, so its strides are taken to be what the
    layout says; a launch by hybridcc passes them so (runtime/parameters.py, passes/arguments.py).
    """
    found: list[Fact] = []
    first = 0
    for argument in arguments:
        if isinstance(argument.type, ArrayType):
            found += _array_facts(argument.name, argument.type, argument.fields, first)
        elif argument.type.dtype == "bool":
            found.append(_fact(Parameter(first, argument.name), Relation.LE, 1))
        first += len(argument.fields)
    return (*found, *launch_facts(bounds))


def _array_facts(name: str, array: ArrayType, fields: Sequence[Field], first: int) -> Iterator[Fact]:
    import numpy as np

    dtype = np.dtype(array.dtype)
    at = {(field.role, field.axis): first + index for index, field in enumerate(fields)}
    nitems = Parameter(at["nitems", 0], f"{name}.size")
    yield _fact(nitems, Relation.GE, 0)
    yield _fact(nitems, Relation.LT, LARGEST_EXTENT)
    yield _fact(Parameter(at["itemsize", 0], f"{name}.itemsize"), Relation.EQ, dtype.itemsize)
    if array.aligned and dtype.alignment > 1:
        yield _fact(Parameter(at["data", 0], name), Relation.MULTIPLE_OF, dtype.alignment)
    for axis in range(array.ndim):
        shape = Parameter(at["shape", axis], f"{name}.shape[{axis}]")
        yield _fact(shape, Relation.GE, 0)
        yield _fact(shape, Relation.LT, LARGEST_EXTENT)
        if array.ndim == 1:
            yield _fact(nitems, Relation.EQ, shape)
    if array.layout == "A":
        return
    innermost = array.ndim - 1 if array.layout == "C" else 0
    for axis in range(array.ndim):
        stride = Parameter(at["stride", axis], f"{name}.strides[{axis}]")
        yield _fact(stride, Relation.EQ if axis == innermost else Relation.MULTIPLE_OF, dtype.itemsize)


def launch_facts(bounds: LaunchBounds) -> Iterator[Fact]:
    if bounds.max_threads is not None:
        for axis in "xyz":
            yield _fact(Special(f"ntid.{axis}"), Relation.LE, bounds.max_threads)


def _fact(left: Parameter | Special, relation: Relation, right: Parameter | int) -> Fact:
    return Fact(left, relation, right, Origin.FRONTEND)
