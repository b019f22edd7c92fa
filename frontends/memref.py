"""MLIR's memref descriptor as kernel parameters: two pointers, an offset, sizes, and strides counted in elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hybridcc.frontends.numba_types import LARGEST_EXTENT
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.kernel import Argument, ArrayType, Field

BARE = (Field("data", ".u64"),)
"""The bare-pointer convention: the address alone, as shape and strides are in the type."""


def fields(ndim: int) -> tuple[Field, ...]:
    """Allocated and aligned pointer are one to a kernel: both are the array's address, and the offset is 0."""
    return (
        Field("data", ".u64"),
        Field("data", ".u64"),
        Field("offset", ".u64"),
        *(Field("shape", ".u64", axis) for axis in range(ndim)),
        *(Field("element_stride", ".u64", axis) for axis in range(ndim)),
    )


def facts(arguments: Sequence[Argument], static: Sequence[tuple[int | None, ...]] = ()) -> tuple[Fact, ...]:
    """What memref types promise. ``static`` holds each argument's extents where the type fixes them."""
    found: list[Fact] = []
    first = 0
    for number, argument in enumerate(arguments):
        if isinstance(argument.type, ArrayType):
            extents = static[number] if number < len(static) else ()
            found += _facts(argument.name, argument.type, first, extents)
        first += len(argument.fields)
    return tuple(found)


def bare_facts(arguments: Sequence[Argument]) -> tuple[Fact, ...]:
    """The same under the bare-pointer convention."""
    import numpy as np

    found: list[Fact] = []
    for index, argument in enumerate(arguments):
        if isinstance(argument.type, ArrayType) and np.dtype(argument.type.dtype).alignment > 1:
            alignment = np.dtype(argument.type.dtype).alignment
            found.append(_fact(Parameter(index, argument.name), Relation.MULTIPLE_OF, alignment))
    return tuple(found)


def _facts(name: str, array: ArrayType, first: int, extents: Sequence[int | None]) -> Iterator[Fact]:
    import numpy as np

    alignment = np.dtype(array.dtype).alignment
    if alignment > 1:
        yield _fact(Parameter(first, name), Relation.MULTIPLE_OF, alignment)
        yield _fact(Parameter(first + 1, name), Relation.MULTIPLE_OF, alignment)
    yield _fact(Parameter(first + 2, f"{name}.offset"), Relation.EQ, 0)
    for axis in range(array.ndim):
        shape = Parameter(first + 3 + axis, f"{name}.shape[{axis}]")
        fixed = extents[axis] if axis < len(extents) else None
        if fixed is not None:
            yield _fact(shape, Relation.EQ, fixed)
        else:
            yield _fact(shape, Relation.GE, 0)
            yield _fact(shape, Relation.LT, LARGEST_EXTENT)
    if array.layout == "C" and array.ndim > 0:
        last = array.ndim - 1
        stride = Parameter(first + 3 + array.ndim + last, f"{name}.strides[{last}] / itemsize")
        yield _fact(stride, Relation.EQ, 1)


def _fact(left: Parameter, relation: Relation, right: int) -> Fact:
    return Fact(left, relation, right, Origin.FRONTEND)
