"""Device arrays brought to the host for a race: values, strides and sharing, with NumPy's memory as the device's."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from hybridcc.errors import InputError
from hybridcc.frontends import numba, numba_types
from hybridcc.passes.verify.launch import buffer_of
from hybridcc.runtime import host_arrays
from hybridcc.runtime.driver import stream_handle
from hybridcc.runtime.host_arrays import to_host


class OnDevice:
    def __init__(self, array):
        self.array = array
        strides = None if array.flags.c_contiguous else array.strides
        self.__cuda_array_interface__ = {
            "shape": array.shape, "strides": strides, "data": (array.ctypes.data, False), "typestr": array.dtype.str,
            "version": 3,
        }  # fmt: skip


@pytest.fixture(autouse=True)
def _memory_is_numpys(monkeypatch):
    """In place of the driver's copy: the same bytes from the process's own memory."""

    def fetch(begin, end):
        return np.frombuffer(ctypes.string_at(begin, end - begin), np.uint8).copy()

    monkeypatch.setattr(host_arrays, "_fetch", fetch)


def arguments_of(*types):
    types = numba.argument_types("void(" + ", ".join(types) + ")")
    return numba_types.arguments([f"a{i}" for i in range(len(types))], types)


def test_views_of_one_array_share_a_buffer_and_others_do_not():
    whole, other = np.arange(40, dtype=np.float32), np.ones((3, 4), np.float32, order="F")
    views = (whole[2:30], whole[::-3], other, whole[35:35])
    arguments = arguments_of("float32[::1]", "float32[:]", "float32[::1, :]", "float32[::1]")
    values, addresses = to_host(arguments, [OnDevice(view) for view in views])
    for value, view in zip(values, views, strict=True):
        assert np.array_equal(value, view)
        assert value.strides == view.strides or view.size == 0
        assert value.dtype == view.dtype
    assert buffer_of(values[0]) is buffer_of(values[1])
    assert buffer_of(values[2]) is not buffer_of(values[0])
    assert addresses[id(buffer_of(values[2]))] == other.ctypes.data
    values[1][0] = -5  # whole[39]
    assert whole[39] == 39


def test_scalars_take_the_kernels_type_and_host_arrays_are_copied():
    given = np.zeros(4, np.float32)
    (a, b), _ = to_host(arguments_of("float32[::1]", "int32"), (given, 7))
    assert (type(b), b) == (np.int32, 7)
    a[0] = 1
    assert given[0] == 0


def test_what_is_neither_array_nor_number_is_refused():
    with pytest.raises(InputError, match="neither an array nor a number"):
        to_host(arguments_of("float32[::1]"), ("text",))
    with pytest.raises(InputError, match="an array was given"):
        to_host(arguments_of("float32"), (OnDevice(np.zeros(3, np.float32)),))


class _Protocol:
    def __cuda_stream__(self):
        return (0, 77)


class _Property:
    __cuda_stream__ = (0, 78)


class _Cupy:
    ptr = 79


class _Torch:
    cuda_stream = 80


class _Numba:
    handle = ctypes.c_void_p(81)


class _NumbaDefault:
    handle = ctypes.c_void_p(0)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [(0, 0), (None, 0), (5, 5), (_Protocol(), 77), (_Property(), 78), (_Cupy(), 79), (_Torch(), 80), (_Numba(), 81),
     (_NumbaDefault(), 0)],
)  # fmt: skip
def test_streams_of_every_library(stream, handle):
    assert stream_handle(stream) == handle
