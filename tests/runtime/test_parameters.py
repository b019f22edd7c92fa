"""Values to parameter buffers: against passes/arguments.py as the oracle, with any object in device memory."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.errors import DeviceError
from hybridcc.frontends import numba, numba_types
from hybridcc.passes.arguments import PTX_NUMPY, flatten
from hybridcc.runtime.parameters import ParameterBuffer, format_of, reader


class InterfaceArray:
    """An array of a library that hybridcc has never heard of; its memory is NumPy's."""

    def __init__(self, array: np.ndarray, stream: int | None = None, readonly: bool = False) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "strides": None if array.flags.c_contiguous else array.strides,
            "data": (array.ctypes.data, readonly),
            "typestr": array.dtype.str,
            "stream": stream,
            "version": 3,
        }


def arguments_of(*types):
    types = numba.argument_types("void(" + ", ".join(types) + ")")
    return numba_types.arguments([f"a{i}" for i in range(len(types))], types), types


def expected_bytes(arguments, values) -> bytes:
    """What the executor's flattening gives, laid out at natural alignment by hand."""
    flat = flatten(arguments, values, pointer=lambda array: np.uint64(array.ctypes.data))
    fields = [field for argument in arguments for field in argument.fields]
    out = bytearray()
    for field, value in zip(fields, flat, strict=True):
        cell = np.asarray(value).astype(PTX_NUMPY[field.ptx_type]).tobytes()
        out += b"\0" * (-len(out) % len(cell)) + cell
    return bytes(out)


def packed(arguments, types, values, **options) -> bytes | None:
    flat = reader(arguments, types, **options)(values)
    if flat is None:
        return None
    buffer = ParameterBuffer(format_of(arguments))
    struct.Struct(format_of(arguments)).pack_into(buffer.memory, 0, *flat)
    return buffer.memory.raw


@given(
    dtype=st.sampled_from(["float32", "float64", "int8", "uint16", "int64"]),
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
    order=st.sampled_from("CF"),
    scalar=st.integers(-100, 100),
)
@settings(deadline=None)
def test_buffers_are_what_the_executor_is_given(dtype, shape, order, scalar):
    array = np.zeros(shape, dtype, order=order)
    layout = "C" if array.flags.c_contiguous else "F"
    text = {"C": ", ".join([":"] * (array.ndim - 1) + ["::1"]), "F": ", ".join(["::1"] + [":"] * (array.ndim - 1))}
    arguments, types = arguments_of("int8", f"{dtype}[{text[layout]}]", "int32", "float64")
    values = (np.int8(scalar), array, np.int32(scalar), np.float64(scalar))
    given_ = (np.int8(scalar), InterfaceArray(array), np.int32(scalar), float(scalar))
    assert packed(arguments, types, given_) == expected_bytes(arguments, values)


def test_addresses_point_at_each_parameter():
    arguments, types = arguments_of("int8", "float64", "int16", "int64")
    values = (np.int8(-3), 2.5, np.int16(-300), 1 << 40)
    buffer = ParameterBuffer(format_of(arguments))
    flat = reader(arguments, types)(values)
    assert flat is not None
    struct.Struct(format_of(arguments)).pack_into(buffer.memory, 0, *flat)
    pointers = (ctypes.c_void_p * 4).from_address(buffer.address)
    kinds = (ctypes.c_int8, ctypes.c_double, ctypes.c_int16, ctypes.c_int64)
    read = [kind.from_address(pointer).value for kind, pointer in zip(kinds, pointers, strict=True)]
    assert read == [-3, 2.5, -300, 1 << 40]


def test_strided_arrays_carry_their_strides():
    arguments, types = arguments_of("float32[:]")
    array = np.zeros(20, np.float32)[::2]
    assert packed(arguments, types, (InterfaceArray(array),)) == expected_bytes(arguments, (array,))


C1 = "float32[::1]"
VECTOR = np.zeros(6, np.float32)


@pytest.mark.parametrize(
    ("signature", "value"),
    [
        (C1, InterfaceArray(np.zeros(6, np.float64))),
        (C1, InterfaceArray(np.zeros((2, 3), np.float32))),
        (C1, InterfaceArray(VECTOR[::2])),
        (C1, InterfaceArray(VECTOR, readonly=True)),
        (C1, VECTOR),
        (C1, None),
        ("float32[:]", InterfaceArray(VECTOR)),
        ("float32[:, ::1]", InterfaceArray(np.zeros((2, 3), np.float32, order="F"))),
        ("float32[::1, :]", InterfaceArray(np.zeros((2, 3), np.float32))),
        ("int64", 2.0),
        ("int64", True),
        ("int32", 2),
        ("float32", 2.0),
        ("bool", 1),
    ],
)
def test_what_numba_would_compile_otherwise_is_not_taken(signature, value):
    arguments, types = arguments_of(signature)
    assert reader(arguments, types)((value,)) is None


@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_values_is_not_taken(count):
    arguments, types = arguments_of("int64")
    assert reader(arguments, types)((1,) * count) is None


def test_lenient_scalars_convert_as_numba_does_for_one_signature():
    arguments, types = arguments_of("float32", "int32")
    assert packed(arguments, types, (2, np.int64(7)), lenient=True) == struct.pack("@fi", 2.0, 7)
    assert reader(arguments, types, lenient=True)((VECTOR, 1)) is None


def test_nothing_is_remembered_about_an_array():
    """An array is freed and another takes its place, also its ``id``: the buffer holds the new one's address."""
    arguments, types = arguments_of(C1)
    read = reader(arguments, types)
    seen = set()
    for size in range(1, 50):
        array = np.zeros(size, np.float32)
        holder = InterfaceArray(array)
        flat = read((holder,))
        assert flat is not None
        assert (flat[2], flat[4]) == (size, array.ctypes.data)
        seen.add(id(holder))
        del holder, array
    assert len(seen) < 49  # the point of the test: ids did come back


def test_torch_tensors_are_read_without_their_interface():
    torch = pytest.importorskip("torch")

    class OnDevice(torch.Tensor):
        is_cuda = True

    arguments, types = arguments_of("float32[:, ::1]")
    tensor = torch.zeros(2, 3).as_subclass(OnDevice)
    tensor.__class__.__module__ = "torch"
    read = reader(arguments, types)
    assert read((tensor,)) == [0, 0, 6, 4, tensor.data_ptr(), 2, 3, 12, 4]
    assert read((tensor.T,)) is None
    assert read((torch.zeros(2, 3),)) is None


@pytest.mark.parametrize(
    ("producer", "launch", "waits"),
    [(None, 7, []), (7, 7, []), (1, 0, []), (1, 7, [(1, 7)]), (8, 7, [(8, 7)]), (7, 0, [(7, 0)])],
)
def test_a_launch_waits_on_the_device_for_the_stream_that_an_array_comes_from(producer, launch, waits, monkeypatch):
    told = []
    monkeypatch.setattr("hybridcc.runtime.driver.wait_for", lambda *streams: told.append(streams))
    read = reader(*arguments_of(C1))
    assert read((InterfaceArray(VECTOR, stream=producer),), launch) is not None
    assert told == waits
    monkeypatch.setattr("hybridcc.runtime.numba_classes.array_interface_sync", lambda: False)
    told.clear()
    assert read((InterfaceArray(VECTOR, stream=producer),), launch) is not None
    assert not told


def test_a_stream_that_the_driver_refuses_leaves_the_launch_to_numba(monkeypatch):
    def refuse(producer, consumer):
        raise DeviceError("cuEventRecord gives CUDA_ERROR_INVALID_HANDLE", next_step="")

    monkeypatch.setattr("hybridcc.runtime.driver.wait_for", refuse)
    assert reader(*arguments_of(C1))((InterfaceArray(VECTOR, stream=8),), 7) is None


def device_array(values):
    """Numba's own class with nothing on a device behind it: what a launch reads of it is there."""
    from types import SimpleNamespace

    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    array = object.__new__(DeviceNDArray)
    array.shape, array.strides, array.size = values.shape, values.strides, values.size
    array.__dict__["_numba_type_"] = numba.type_of(values)  # kept there once it was asked for
    array.gpu_data = SimpleNamespace(device_ctypes_pointer=ctypes.c_size_t(values.ctypes.data))
    return array


KINDS = {
    "float32[::1]": np.arange(5, dtype="f4"),
    "int64[::1]": np.arange(9),
    "complex64[::1]": np.zeros(0, "c8"),
    "int64": 7,
    "float32": np.float32(2.5),
    "bool": True,
}


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_what_is_written_out_reads_as_everything_else_does(kinds):
    arguments, types = arguments_of(*kinds)
    values = [KINDS[kind] for kind in kinds]
    given = [device_array(v) if isinstance(v, np.ndarray) else v for v in values]
    seen_by_all = [InterfaceArray(v) if isinstance(v, np.ndarray) else v for v in values]
    read = reader(arguments, types)
    expected = read(seen_by_all)
    assert expected is not None
    assert list(read(given) or ()) == expected
    assert read(given[:-1]) is None
    assert read([*given, 1]) is None
    for place, kind in enumerate(kinds):
        for other in KINDS:
            if other != kind:
                wrong = KINDS[other]
                changed = [*given]
                changed[place] = device_array(wrong) if isinstance(wrong, np.ndarray) else wrong
                assert read(changed) is None
    mixed = [one if place % 2 else other for place, (one, other) in enumerate(zip(given, seen_by_all, strict=True))]
    assert list(read(mixed) or ()) == expected
