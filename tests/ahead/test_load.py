"""Kernels from a bundle, on GPUs that do not exist: what is loaded, what is launched, what is refused."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as real

import hybridcc
from hybridcc.errors import InputError, NoBinary
from hybridcc.loading import CompiledByDriver
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, LaunchBounds, ScalarType
from hybridcc.runtime import bundle
from hybridcc.runtime.calling import calling
from tests.runtime import fake_driver
from tests.runtime.fake_driver import H200, OK, RTX4090

ROOT = Path(__file__).parents[2]
B200, T4, A10 = ("NVIDIA B200", (10, 0)), ("Tesla T4", (7, 5)), ("NVIDIA A10", (8, 6))


def numba_array(name: str, dtype: str = "float32", ndim: int = 1, layout: Any = "C") -> Argument:
    axes = range(ndim)
    roles = ("meminfo", "parent", "nitems", "itemsize", "data")
    fields = [*(Field(role, ".u64") for role in roles), *(Field("shape", ".u64", a) for a in axes)]
    return Argument(name, ArrayType(dtype, ndim, layout), (*fields, *(Field("stride", ".u64", a) for a in axes)))


def number(name: str, dtype: str, type_: str) -> Argument:
    return Argument(name, ScalarType(dtype), (Field("value", type_),))


def pointer(name: str, dtype: str = "float32") -> Argument:
    return Argument(name, ArrayType(dtype, 1), (Field("data", ".u64"),))


def made(folder: Path, *arguments: Argument, archs: tuple[str, ...] = ("sm_80", "sm_86", "sm_90")) -> Path:
    """A bundle of a kernel with those arguments; its code is the name of what it would be."""
    declared = ", ".join(f".param {f.ptx_type} p{n}" for n, f in enumerate(f for a in arguments for f in a.fields))
    ptx = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k({declared}) {{ ret; }}\n"
    kernel = Kernel("k", "k", ptx, "sm_80", "made", arguments, launch_bounds=LaunchBounds(256))
    files = {f"{v}.{arch}.cubin": f"{v} {arch}".encode() for v in ("selected", "baseline", "r0-0") for arch in archs}
    files |= {f"baseline.{arch}.ptx": f"ptx {arch}".encode() for arch in archs}
    manifest = {"kernel": {"name": "k", "calling": calling(kernel)}, "architectures": [{"arch": a} for a in archs]}
    bundle.write(folder / "k", manifest, files)
    return folder / "k"


@dataclass
class Launches:
    made: list[tuple[tuple[Any, ...], bytes, bytes]] = field(default_factory=list)
    """(grid, block, shared bytes and stream; parameter buffer; code) of each."""
    fake: Any = None


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Launches]]:
    def with_gpus(*devices: tuple[str, tuple[int, int]]) -> Launches:
        launches = Launches(fake=fake_driver.install(monkeypatch, *devices))

        def launch(function: Any, *rest: Any) -> tuple[Any, ...]:
            *geometry, parameters, extra = rest
            assert parameters == 0
            words = (ctypes.c_void_p * 5).from_address(extra)
            size = ctypes.c_size_t.from_address(words[3] or 0).value
            assert (words[0], words[2], words[4]) == (1, 2, None)
            code = launches.fake.libraries[int(function) - 1]
            launches.made.append((tuple(geometry), ctypes.string_at(words[1] or 0, size), code))
            return (OK,)

        monkeypatch.setattr(real, "cuLaunchKernel", launch)
        return launches

    yield with_gpus
    fake_driver.forget()


def on_device(array: np.ndarray, address: int = 0x7F00, **more: object) -> Any:
    """As any library shows an array."""
    shown = {"shape": array.shape, "typestr": array.dtype.str, "data": (address, False), "version": 3}
    strides = None if array.flags.c_contiguous else array.strides
    return SimpleNamespace(__cuda_array_interface__={**shown, "strides": strides, **more})


def test_a_launch_has_its_parameters_in_place(machine, tmp_path: Path) -> None:
    launches = machine(H200)
    place = made(
        tmp_path, number("flag", "bool", ".u8"), numba_array("x", ndim=2), number("n", "int32", ".s32"),
        number("a", "float64", ".f64"), pointer("p", "int8"), number("h", "float16", ".u16"),
    )  # fmt: skip
    x, p = on_device(np.zeros((3, 5), "f4")), on_device(np.zeros(7, "i1"), 0x9000)
    hybridcc.load(place)["k"][(4, 2), 128, 77, 1024](True, x, -2, 0.5, p, np.float16(1.5))
    ((geometry, parameters, code),) = launches.made
    assert geometry == (4, 2, 1, 128, 1, 1, 1024, 77)
    assert parameters == struct.pack("@?9qidQe", True, 0, 0, 15, 4, 0x7F00, 3, 5, 20, 4, -2, 0.5, 0x9000, 1.5)
    assert code == b"selected sm_90"


@pytest.mark.parametrize(
    ("device", "code"),
    [(H200, b"selected sm_90"), (RTX4090, b"selected sm_86"), (A10, b"selected sm_86"), (B200, b"ptx sm_90\0")],
)
def test_each_device_gets_its_code(device, code: bytes, machine, tmp_path: Path) -> None:
    launches = machine(device)
    kernel = hybridcc.load(made(tmp_path, number("n", "int32", ".s32")))["k"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            kernel[1, 32](5)
    assert [launched for _, _, launched in launches.made] == [code] * 3
    assert launches.fake.libraries == [code]  # loaded once
    assert [each.category for each in caught] == ([CompiledByDriver] if device is B200 else [])
    if caught:
        said = str(caught[0].message)
        assert "capability 10.0" in said
        assert "sm_80, sm_86, sm_90" in said
        assert "--arch sm_100" in said
        assert caught[0].filename == __file__


def test_devices_of_one_process_get_each_its_own(machine, tmp_path: Path) -> None:
    launches = machine(H200, A10)
    kernel = hybridcc.load(made(tmp_path, number("n", "int32", ".s32")))["k"]
    for ordinal in (0, 1, 0, 1):
        launches.fake.ordinal = ordinal
        kernel[1, 32](5)
    assert [code.decode()[-5:] for _, _, code in launches.made] == ["sm_90", "sm_86"] * 2
    assert len(launches.fake.libraries) == 2


def test_a_device_that_nothing_runs_on(machine, tmp_path: Path) -> None:
    machine(T4)
    kernel = hybridcc.load(made(tmp_path, number("n", "int32", ".s32")))["k"]
    with pytest.raises(NoBinary, match=r"capability 7\.5 \(it holds sm_80, sm_86, sm_90\)") as caught:
        kernel[1, 32](5)
    assert caught.value.code == "NO_BINARY"
    assert "--arch sm_75" in caught.value.next_step


X = np.zeros(8, "f4")
READ_ONLY = on_device(X, data=(1, True))


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        (numba_array("x"), X, "wants a C-contiguous float32 array on the device of 1 dimensions, not ndarray"),
        (numba_array("x"), on_device(X.astype("f8")), "not one of float64, shape .8,., strides .8,."),
        (numba_array("x"), on_device(X.astype(">f4")), "not one of >f4"),
        (numba_array("x"), on_device(X[::2]), r"strides \(8,\)"),
        (numba_array("x"), on_device(X.reshape(2, 4)), r"shape \(2, 4\)"),
        (numba_array("x", ndim=2), on_device(np.zeros((3, 2), "f4", order="F")), "C-contiguous"),
        (numba_array("x", ndim=2, layout="F"), on_device(np.zeros((3, 2), "f4")), "F-contiguous"),
        (numba_array("x"), READ_ONLY, "a read-only float32"),
        (numba_array("x"), 5, "not int"),
        (pointer("x"), "5", "not str"),
        (number("n", "int32", ".s32"), 1 << 31, "wants int32, not 2147483648"),
        (number("n", "int32", ".s32"), 1.5, "wants int32, not 1.5"),
        (number("n", "uint32", ".u32"), -1, "wants uint32"),
        (number("a", "float32", ".f32"), "x", "wants float32, not 'x'"),
        (number("a", "float32", ".f32"), 1e300, "wants float32"),
    ],
)  # fmt: skip
def test_what_the_kernel_was_not_compiled_for_is_refused(argument, value, said: str, machine, tmp_path: Path) -> None:
    launches = machine(H200)
    kernel = hybridcc.load(made(tmp_path, argument))["k"]
    with pytest.raises(InputError, match=said) as caught:
        kernel[1, 32](value)
    assert argument.name in str(caught.value)
    assert not launches.made


def test_calls_that_are_no_launches(machine, tmp_path: Path) -> None:
    machine(H200)
    kernel = hybridcc.load(made(tmp_path, number("n", "int32", ".s32")))["k"]
    with pytest.raises(InputError, match="takes 1 arguments, 2 were given"):
        kernel[1, 32](1, 2)
    with pytest.raises(InputError, match="a grid and a block"):
        kernel[1]
    with pytest.raises(InputError, match="one to three sizes"):
        kernel[(1, 2, 3, 4), 32](1)


@pytest.mark.parametrize(
    ("array", "strides"),
    [
        (np.zeros((1, 5), "f4")[:, ::1], (20, 4)),
        (np.lib.stride_tricks.as_strided(np.zeros(5, "f4"), (1, 5), (999, 4)), (20, 4)),
        (np.zeros((0, 5), "f4")[:, :3], (12, 4)),
    ],
)
def test_strides_of_axes_of_one_and_of_none_say_nothing(array, strides, machine, tmp_path: Path) -> None:
    launches = machine(H200)
    hybridcc.load(made(tmp_path, numba_array("x", ndim=2)))["k"][1, 32](on_device(array, strides=array.strides))
    assert struct.unpack("9q", launches.made[0][1])[7:] == strides


def test_a_producers_stream_is_waited_for(machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(H200)
    waits: list[tuple[int, int]] = []
    monkeypatch.setattr("hybridcc.runtime.driver.wait_for", lambda *pair: waits.append(pair))
    kernel = hybridcc.load(made(tmp_path, pointer("x")))["k"]
    for theirs, ours in ((9, 7), (7, 7), (1, None), (None, 7)):
        kernel[1, 32, ours](on_device(X, stream=theirs))
    assert waits == [(9, 7)]


def test_pointers_take_addresses_buffers_and_arrays_of_any_rank(machine, tmp_path: Path) -> None:
    launches = machine(H200)
    kernel = hybridcc.load(made(tmp_path, pointer("x")))["k"]
    for value in (0x1234, SimpleNamespace(handle=0x1234), on_device(np.zeros((2, 3), "f4"), 0x1234)):
        kernel[1, 32](value)
    assert {parameters for _, parameters, _ in launches.made} == {struct.pack("Q", 0x1234)}


def test_tensors_of_pytorch(machine, tmp_path: Path) -> None:
    launches = machine(H200)
    tensor: Any = type("Tensor", (), {"__module__": "torch", "is_cuda": True, "dtype": "torch.float32"})()
    tensor.shape = (8,)
    tensor.element_size, tensor.stride, tensor.data_ptr = lambda: 4, lambda: (1,), lambda: 0x55
    hybridcc.load(made(tmp_path, numba_array("x")))["k"][1, 32](tensor)
    assert struct.unpack("7q", launches.made[0][1]) == (0, 0, 8, 4, 0x55, 8, 4)
    tensor.is_cuda = False
    with pytest.raises(InputError, match="not Tensor"):
        hybridcc.load(tmp_path / "k")["k"][1, 32](tensor)


def test_a_folder_of_bundles_and_single_files(tmp_path: Path) -> None:
    folder = made(tmp_path / "one", number("n", "int32", ".s32"))
    held = bundle.load(folder)
    files = {name: held.read(name) for name in held.manifest["files"]}
    manifest = {**held.manifest, "kernel": {**held.manifest["kernel"], "name": "z"}}
    bundle.write_file(tmp_path / "one" / "z.zip", manifest, files)
    assert list(hybridcc.load(tmp_path / "one")) == ["k", "z"]
    assert list(hybridcc.load(tmp_path / "one" / "z.zip")) == ["z"]
    assert hybridcc.load(tmp_path / "one")["z"].bundle.cubin("sm_90") == b"selected sm_90"
    with pytest.raises(InputError, match="holds no readable"):
        hybridcc.load(tmp_path)


def test_selections_of_another_file_count_for_their_own_build(machine, tmp_path: Path) -> None:
    from hybridcc.runtime.bundle import to_json

    launches = machine(H200)
    place = made(tmp_path, number("n", "int32", ".s32"))
    own = {"bundle": bundle.load(place).identity, "architectures": {"sm_90": {"variant": "r0-0"}}}
    (tmp_path / "chosen.json").write_bytes(to_json({"kernels": {"k": own}}))
    hybridcc.load(place, selections=tmp_path / "chosen.json")["k"][1, 32](1)
    assert launches.made[0][2] == b"r0-0 sm_90"
    made(tmp_path, number("n", "int32", ".s32"), archs=("sm_90",))
    with pytest.raises(InputError, match="another build of k"):
        hybridcc.load(place, selections=tmp_path / "chosen.json")
    (tmp_path / "chosen.json").write_text('{"kernels": 5}')
    with pytest.raises(InputError, match="holds no selections"):
        hybridcc.load(place, selections=tmp_path / "chosen.json")


HEAVY = ("numba", "llvmlite", "scipy", "networkx", "torch", "transformers", "jinja2", "rich", "z3", "bitwuzla")


def test_loading_and_launching_imports_no_compiler(tmp_path: Path) -> None:
    """In a process where Numba and its kin cannot be imported at all."""
    place = made(tmp_path, numba_array("x"))
    code = f"""
import sys, numpy as np, pytest
for name in {HEAVY}: sys.modules[name] = None
import hybridcc
kernels = hybridcc.load({str(place)!r})
assert "cuda.bindings.driver" not in sys.modules
from tests.runtime import fake_driver
before = set(sys.modules)
fake = fake_driver.install(pytest.MonkeyPatch(), fake_driver.H200)
class Array: __cuda_array_interface__ = dict(shape=(8,), typestr="<f4", data=(64, False), version=3)
kernels["k"][1, 32](Array)
print(fake.launched, [m for m in sys.modules if m.startswith(tuple(f"hybridcc.{{r}}" for r in ("passes", "ptx")))])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[(b'selected sm_90', 0)] []"
