"""Device arrays and numbers to PTX parameters: values, strides by layout, packing, speed."""

from __future__ import annotations

import statistics
import struct
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.errors import InputError
from hybridcc.frontends.arguments import flatten, flattener, memory, parameter_struct
from hybridcc.frontends.numba import compile
from hybridcc.passes.kernel import Kernel

ADDRESS = 0x7F00_0000_0000


@dataclass
class OnDevice:
    """What any library's array shows of itself; the memory is not looked at."""

    array: np.ndarray

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        strides = None if self.array.flags.c_contiguous else self.array.strides
        return {"shape": self.array.shape, "strides": strides, "data": (ADDRESS, False), "typestr": "<f4", "version": 3}


def kernel(signature: str) -> Kernel:
    def takes(a, b, c):
        pass

    return compile(takes, signature, "sm_80")


def test_parameters_in_the_entrys_order() -> None:
    arguments = kernel("void(float32[::1], int32, float64[:,:])").arguments
    x = OnDevice(np.zeros(10, np.float32))
    m = OnDevice(np.zeros((6, 8), np.float64)[::2, ::-1])
    assert flatten(arguments, (x, 7, m)) == [
        0, 0, 10, 4, ADDRESS, 10, 4,
        7,
        0, 0, 24, 8, ADDRESS, 3, 8, 128, -8,
    ]  # fmt: skip


def test_strides_are_those_of_the_layout() -> None:
    arguments = kernel("void(float32[:,::1], float32[::1,:], float32[::1])").arguments
    a = OnDevice(np.zeros((5, 20), np.float32)[::5, ::20])  # 1 x 1: contiguous whatever its strides
    f, c = OnDevice(np.zeros((3, 4), np.float32, "F")), OnDevice(np.zeros(9, np.float32)[::9])
    values = flatten(arguments, (a, f, c))
    assert values[7:9] == [4, 4]
    assert values[9 + 5 : 9 + 9] == [3, 4, 4, 12]
    assert values[-2:] == [1, 4]


@given(st.lists(st.integers(0, 6), min_size=2, max_size=2), st.sampled_from("CF"))
def test_device_and_host_agree(shape: list[int], layout: Any) -> None:
    arguments = TWO_DIMENSIONAL[layout].arguments
    host = np.zeros(shape, np.float32, layout)
    wanted = flatten(arguments, (host, np.int64(-3), np.bool_(True)))
    given_ = flatten(arguments, (OnDevice(host), -3, True))
    assert wanted[4] is host
    assert given_[4] == ADDRESS
    if host.size:
        assert [int(v) for i, v in enumerate(wanted) if i not in (4, 9)] == [
            int(v) for i, v in enumerate(given_) if i not in (4, 9)
        ]
    assert wanted[9] == np.uint64(2**64 - 3)  # declared .u64


TWO_DIMENSIONAL = {
    "C": kernel("void(float32[:,::1], int64, boolean)"),
    "F": kernel("void(float32[::1,:], int64, boolean)"),
}


def test_packed_at_natural_alignment() -> None:
    arguments = kernel("void(boolean, float16, float64)").arguments
    packed = parameter_struct(arguments).pack(*flattener(arguments)((True, 1.5, -2.0)))
    assert packed == b"\x01\x00" + np.float16(1.5).tobytes() + bytes(4) + np.float64(-2).tobytes()
    wide = kernel("void(int8, float32[::1], uint32)").arguments
    assert parameter_struct(wide).size == 8 + 7 * 8 + 4
    with pytest.raises(struct.error):
        parameter_struct(wide).pack(*flattener(wide)((300, OnDevice(np.zeros(1, np.float32)), 1)))


def test_half_precision_scalar_is_passed_as_its_bits() -> None:
    arguments = kernel("void(float16, float32, int16)").arguments
    assert flatten(arguments, (1.5, 1.5, -1)) == [1.5, 1.5, -1]
    host = kernel("void(float16, float32[::1], int16)").arguments
    flat = flatten(host, (np.float16(1.5), np.zeros(3, np.float32), np.int16(-1)))
    assert flat[0] == np.float16(1.5).view(np.uint16)


@pytest.mark.parametrize("value", [3, "text", None, object(), [1.0]])
def test_what_is_no_array(value: Any) -> None:
    arguments = kernel("void(float32[::1], float32[:,:], int32)").arguments
    with pytest.raises(InputError, match="no array in device memory"):
        flatten(arguments, (value, value, 1))


def test_rank_and_count_are_checked() -> None:
    arguments = kernel("void(float32[::1], float32[:,:], int32)").arguments
    one, two = OnDevice(np.zeros(3, np.float32)), OnDevice(np.zeros((3, 3), np.float32))
    for values in ((two, two, 1), (one, one, 1)):
        with pytest.raises(InputError, match="dimensions"):
            flatten(arguments, values)
    for count in ((), (one, two), (one, two, 1, 2)):
        with pytest.raises(InputError, match="takes 3 arguments"):
            flatten(arguments, count)


def test_libraries_are_read_without_their_interface() -> None:
    import torch

    tensor = torch.zeros((3, 5), dtype=torch.float32)[:, ::2]
    address, shape, strides = memory(tensor)
    assert (address, shape, strides) == (tensor.data_ptr(), (3, 3), (20, 8))

    class NumbaLike:
        gpu_data = type("", (), {"device_ctypes_pointer": type("", (), {"value": None})})
        shape, strides = (0,), (4,)

    NumbaLike.__module__ = "numba.cuda.cudadrv.devicearray"
    assert memory(NumbaLike()) == (0, (0,), (4,))


def test_three_arrays_take_microseconds() -> None:
    """Aim: 5 us on a GPU server; the bound leaves room for a slow, busy machine."""

    class NumbaLike:
        gpu_data = type("", (), {"device_ctypes_pointer": type("", (), {"value": ADDRESS})})
        shape, strides = (1024,), (4,)

    NumbaLike.__module__ = "numba.cuda.cudadrv.devicearray"
    arguments = kernel("void(float32[::1], float32[::1], float32[::1])").arguments
    flat, pack = flattener(arguments), parameter_struct(arguments).pack
    values = (NumbaLike(), NumbaLike(), NumbaLike())
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(200):
            pack(*flat(values))
        times.append((time.perf_counter() - begin) / 200)
    assert statistics.median(times) < 25e-6
