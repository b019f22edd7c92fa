"""Source-level values to PTX parameters: bits, strides as the layout promises, and clear refusals."""

import numpy as np
import pytest

from hybridcc.errors import InputError
from hybridcc.passes.arguments import flatten
from hybridcc.passes.kernel import Argument, ArrayType, Field, ScalarType

NUMBA_2D = (
    *(Field(role, ".u64") for role in ("meminfo", "parent", "nitems", "itemsize", "data")),
    *(Field(role, ".u64", axis) for role in ("shape", "stride") for axis in (0, 1)),
)


def array(layout: str = "C") -> Argument:
    return Argument("a", ArrayType("float32", 2, layout), NUMBA_2D)  # type: ignore[arg-type]


def scalar(dtype: str, ptx_type: str) -> Argument:
    return Argument("s", ScalarType(dtype), (Field("value", ptx_type),))


def test_an_array_in_numbas_order():
    a = np.zeros((3, 5), np.float32)
    flat = flatten([array()], [a])
    assert flat[4] is a
    assert [int(v) for v in flat[:4] + flat[5:]] == [0, 0, 15, 4, 3, 5, 20, 4]  # type: ignore[call-overload]
    assert {np.asarray(v).dtype for i, v in enumerate(flat) if i != 4} == {np.dtype(np.uint64)}
    assert flatten([array()], [a], pointer=lambda x: 0x7000)[4] == 0x7000


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (5, 1)])
@pytest.mark.parametrize(("layout", "axes"), [("C", (1, 0)), ("F", (0, 1))])
def test_strides_follow_the_layout_for_every_extent(shape, layout, axes):
    a = np.zeros(shape, np.float32, order=layout)  # type: ignore[call-overload]
    strides = [int(v) for v in flatten([array(layout)], [a])[-2:]]  # type: ignore[call-overload]
    assert strides[axes[0]] == 4
    assert strides[axes[1]] == 4 * shape[axes[0]]


def test_any_layout_passes_its_own_strides():
    a = np.zeros((6, 8), np.float32)[::-2, ::4]
    flat = flatten([array("A")], [a])
    assert [np.uint64(v).astype(np.int64) for v in flat[-2:]] == [-64, 16]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "ptx_type", "value", "expected"),
    [
        ("float16", ".u16", 1.0, np.uint16(0x3C00)),
        ("int8", ".u8", -1, np.uint8(255)),
        ("bool", ".u8", True, np.uint8(1)),
        ("int64", ".u64", -2, np.uint64(2**64 - 2)),
        ("float32", ".f32", 0.1, np.float32(0.1)),
        ("float64", ".f64", 0.1, np.float64(0.1)),
    ],
)
def test_scalars_keep_their_bits(dtype, ptx_type, value, expected):
    (flat,) = flatten([scalar(dtype, ptx_type)], [value])
    assert flat == expected
    assert isinstance(flat, type(expected))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((3, 5)), "wants a float32 array of 2 dimensions, not float64"),
        (np.zeros(3, np.float32), "of 2 dimensions, not float32 of 1"),
        (np.zeros((3, 5), np.float32)[:, ::2], "C-contiguous"),
        (3.0, "not float"),
    ],
)
def test_what_does_not_fit_is_named(value, message):
    with pytest.raises(InputError, match=message):
        flatten([array()], [value])


def test_the_number_of_values_must_fit():
    with pytest.raises(InputError, match="takes 1 arguments, 2 were given"):
        flatten([array()], [1, 2])
