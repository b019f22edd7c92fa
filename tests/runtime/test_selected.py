"""Which variant a launch takes: per signature and device, in threads, in forked and spawned children, in captures."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from numba import cuda

import hybridcc
from hybridcc.errors import ForkedProcess, NoDevice
from hybridcc.runtime import device, driver
from hybridcc.runtime.launch import Launcher, LoadedKernel
from tests.runtime import fake_driver
from tests.runtime.fake_driver import H200, RTX4090


def scale(x, a):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] *= a


@hybridcc.jit
def twice(x):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] *= 2


class OnDevice:
    """An array in the memory of a GPU that does not exist."""

    def __init__(self, dtype="float32", address=0x7000, size=8):
        self.__cuda_array_interface__ = {
            "shape": (size,), "strides": None, "data": (address, False), "typestr": np.dtype(dtype).str, "version": 3
        }  # fmt: skip


@pytest.fixture
def gpus(monkeypatch):
    yield lambda *devices: fake_driver.install(monkeypatch, *devices)
    monkeypatch.undo()
    fake_driver.forget()


def launcher(code: bytes, dtype="float32", ordinal=0):
    kernel = hybridcc.jit(scale)
    types = kernel.types_of((np.zeros(8, dtype), np.dtype(dtype).type(2)))
    compiled = kernel.compile_for(types, "sm_90")
    return Launcher(LoadedKernel(code, compiled.entry), compiled.arguments, types, ordinal=ordinal)


def call(kernel, dtype="float32"):
    kernel[256, 32](OnDevice(dtype), np.dtype(dtype).type(2))


def use(kernel, made):
    kernel.use(made, made.types, made.ordinal)


def test_each_signature_has_its_own(gpus):
    gpu = gpus(H200)
    kernel = hybridcc.jit(scale)
    use(kernel, launcher(b"single"))
    use(kernel, launcher(b"double", "float64"))
    call(kernel, "float64")
    call(kernel)
    use(kernel, launcher(b"better"))
    call(kernel)
    assert [code for code, _ in gpu.launched] == [b"double", b"single", b"better"]
    assert len(kernel.selected) == 2
    kernel.use(None, kernel.selected[0].types)
    assert len(kernel.selected) == 1


def test_each_device_has_its_own(gpus):
    gpu = gpus(H200, RTX4090, H200)
    kernel = hybridcc.jit(scale)
    use(kernel, launcher(b"for sm_90", ordinal=0))
    use(kernel, launcher(b"for sm_89", ordinal=1))
    for ordinal in (1, 0, 1):
        gpu.ordinal = ordinal
        call(kernel)
    assert gpu.launched == [(b"for sm_89", 1), (b"for sm_90", 0), (b"for sm_89", 1)]
    kernel.use(None, kernel.selected[0].types, 1)
    assert [each.ordinal for each in kernel.selected] == [0]
    gpu.ordinal = 2
    values = (OnDevice(), np.float32(2))
    assert kernel.selected[0].read(values) is None  # nothing was selected on that device: Numba's turn
    assert not kernel.selected[0].is_here


def test_threads_on_different_devices(gpus):
    gpu = gpus(H200, RTX4090)
    kernel = hybridcc.jit(scale)
    use(kernel, launcher(b"0", ordinal=0))
    use(kernel, launcher(b"1", ordinal=1))

    def work(ordinal):
        gpu.ordinal = ordinal
        for _ in range(100):
            call(kernel)

    threads = [threading.Thread(target=work, args=(ordinal,)) for ordinal in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gpu.launched) == 400
    assert {(int(code), ordinal) for code, ordinal in gpu.launched} == {(0, 0), (1, 1)}


def test_a_switch_in_one_thread_while_others_launch(gpus):
    """Whatever a launch takes is one of the two, and signatures that are selected at once are all kept."""
    gpu = gpus(H200)
    kernel = hybridcc.jit(scale)
    dtypes = ("float32", "float64", "int32", "int64")
    made = {dtype: [launcher(f"{dtype}{turn}".encode(), dtype) for turn in range(2)] for dtype in dtypes}
    for first, _ in made.values():
        use(kernel, first)

    def switch(dtype):
        for turn in range(200):
            use(kernel, made[dtype][turn % 2])

    threads = [threading.Thread(target=switch, args=(dtype,)) for dtype in dtypes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for dtype in dtypes:
            call(kernel, dtype)
            assert gpu.launched[-1][0][:-1] == dtype.encode()
    assert {each.types for each in kernel.selected} == {first.types for first, _ in made.values()}


def test_an_array_that_is_freed_and_another_in_its_place(gpus, monkeypatch):
    """Through the whole launch: what the driver is given is the new array's address and extent, though its ``id`` is
    the old one's."""
    from cuda.bindings import driver as real

    gpus(H200)
    given = []

    def launch(function, *rest):
        pointers = (ctypes.c_void_p * 7).from_address(rest[-2])
        given.append(tuple(ctypes.c_int64.from_address(pointers[field]).value for field in (4, 5)))
        return (real.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(real, "cuLaunchKernel", launch)
    kernel = hybridcc.jit(scale)
    use(kernel, launcher(b"code"))
    ids = set()
    for number in range(1, 40):
        array = OnDevice(address=0x1000 * number, size=number)
        kernel[256, 32](array, np.float32(2))
        assert given[-1] == (0x1000 * number, number)
        ids.add(id(array))
        del array
    assert len(ids) < 39  # the point of the test: ids did come back


# --- fork, spawn, capture ---


def in_forked_child(action):
    """What the action raised in a forked child, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            action()
            told = "nothing"
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(pid, 0)
    return told


CLEAR = ("ForkedProcess", "forked after CUDA was initialised", "'spawn'")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python 3.12 on forks among threads
@pytest.mark.parametrize("use_of_cuda", ["ours", "another library's"])
def test_a_forked_child_gets_one_clear_error_for_every_use(gpus, use_of_cuda):
    gpu = gpus(H200)
    kernel = hybridcc.jit(scale)
    configured = None
    if use_of_cuda == "ours":
        use(kernel, launcher(b"code"))
        configured = kernel[256, 32]
        call(kernel)
    actions = {
        "the same launch": lambda: (configured or kernel[256, 32])(OnDevice(), np.float32(2)),
        "another shape": lambda: kernel[256, 64](OnDevice(), np.float32(2)),
        "a kernel of its own": lambda: call(hybridcc.jit(scale)),
        "optimize": lambda: kernel[256, 32].optimize(OnDevice(), np.float32(2)),
    }
    for what, action in actions.items():
        told = in_forked_child(action)
        assert all(part in told for part in CLEAR), (what, told)
    launched = len(gpu.launched)
    if use_of_cuda == "ours":
        call(kernel)
        assert len(gpu.launched) == launched + 1  # the parent goes on


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_before_cuda_is_used_costs_nothing(gpus):
    gpu = gpus(H200)
    kernel = hybridcc.jit(scale)

    def child():
        gpu.owner = os.getpid()  # the driver knows nothing of the parent
        use(kernel, launcher(b"code"))
        call(kernel)
        assert gpu.launched == [(b"code", 0)]

    assert in_forked_child(child) == "nothing"


def test_a_spawned_child_uses_the_kernel_that_it_imports(monkeypatch):
    monkeypatch.setenv("HYBRIDCC", "execute")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(in_spawned_child) == [0, 2, 4]


def in_spawned_child():
    x = np.arange(3, dtype=np.float32)
    twice[1, 32](x)
    return x.tolist()


def test_what_a_capture_is(gpus):
    gpu = gpus(H200)
    assert not driver.is_capturing(0)
    assert not driver.is_capturing(7)
    gpu.capturing = True
    assert driver.is_capturing(7)
    assert driver.is_capturing(0)  # the legacy stream, while another captures


def test_forked_is_a_kind_of_no_device(gpus):
    """So that whatever works without a GPU, works in such a child."""
    gpu = gpus(H200)
    gpu.owner = -1
    assert issubclass(ForkedProcess, NoDevice)
    assert device.available() is None
    assert "forked" in device.why_none()


def test_importing_the_dispatcher_initialises_nothing():
    code = "import hybridcc\nfrom hybridcc.runtime import driver\nhybridcc.jit\n"
    code += "print(driver.bindings.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
