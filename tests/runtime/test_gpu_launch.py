"""A selected kernel's launches on a GPU: streams and their order, graphs, shared memory, cooperative, attributes."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32

import hybridcc
from hybridcc.runtime import device
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.driver import bindings, call
from hybridcc.runtime.launch import Launcher, LoadedKernel, geometry

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}"),
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),  # of small grids
]

X = np.arange(1000, dtype=np.float32)
A = np.float32(3)


def scale(x, y, a):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i] * a


def launcher_of(kernel, args, **options):
    types = kernel.types_of(args)
    compiled = kernel.compile_for(types, device.current().arch)
    loaded = LoadedKernel(assemble(compiled.ptx, compiled.arch).bytes, compiled.entry)
    return Launcher(loaded, compiled.arguments, types, lenient=kernel.specialized, **options)


def selected(function, *args):
    """A kernel whose own bytes are as if they had been selected, and a list that grows with each launch of them."""
    kernel = hybridcc.jit(function)
    launcher = launcher_of(kernel, args)
    kernel.use(launcher, launcher.types)
    calls = []

    class Counting:
        read, types, arguments = launcher.read, launcher.types, launcher.arguments
        ordinal, is_here = 0, True

        @staticmethod
        def launch(geometry, flat):
            calls.append(1)
            return launcher.launch(geometry, flat)

    kernel.selected[:] = [Counting]
    return kernel, calls


def sleep(x, milliseconds):
    """Keeps its stream busy, so that what comes too early on another one is seen."""
    i = cuda.grid(1)
    for _ in range(milliseconds):
        cuda.nanosleep(1_000_000)
    if i < x.shape[0]:
        x[i] = i


@pytest.mark.parametrize("producer", ["default", "own"])
@pytest.mark.parametrize("consumer", ["same", "other"])
def test_cupy_arrays_on_any_stream_go_to_the_variant_and_in_order(producer, consumer):
    cupy = pytest.importorskip("cupy")
    kernel, calls = selected(scale, X, X, A)
    slow = hybridcc.jit(sleep)
    first = cupy.cuda.Stream(non_blocking=True) if producer == "own" else cupy.cuda.Stream.null
    second = first if consumer == "same" else cupy.cuda.Stream(non_blocking=True)
    x, y = cupy.zeros(X.size, "f4"), cupy.zeros(X.size, "f4")
    cupy.cuda.Device().synchronize()
    slow[8, 128, first.ptr](cuda.as_cuda_array(x, sync=False), 20)
    with first:
        kernel[8, 128, second.ptr](x, y, A)
    second.synchronize()
    assert calls == [1]
    assert np.array_equal(cupy.asnumpy(y), X * A)


def test_a_graph_captures_the_very_first_launch():
    kernel, calls = selected(scale, X, X, A)
    x, y = cuda.to_device(X), cuda.to_device(np.zeros_like(X))
    driver = bindings()
    stream = call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    configured = kernel[8, 128, int(stream)]
    cuda.synchronize()
    call(driver.cuStreamBeginCapture, stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    configured(x, y, A)
    graph = call(driver.cuStreamEndCapture, stream)
    run = call(driver.cuGraphInstantiate, graph, 0)
    assert calls == [1]
    assert not y.copy_to_host().any()
    for number in range(1, 4):
        x.copy_to_device(X * np.float32(number))
        cuda.synchronize()
        call(driver.cuGraphLaunch, run, stream)
        call(driver.cuStreamSynchronize, stream)
        assert np.array_equal(y.copy_to_host(), X * np.float32(number) * A)


def reverse(x, y):
    """Each block turns its part round, in dynamic shared memory at a place that needs all of it."""
    room = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    last = room.shape[0] - cuda.blockDim.x
    i = cuda.grid(1)
    room[last + t] = x[i]
    cuda.syncthreads()
    y[i] = room[last + cuda.blockDim.x - 1 - t]


@pytest.mark.parametrize("shared_bytes", [1024, 48 << 10, 64 << 10])
def test_dynamic_shared_memory_also_beyond_48_kib(shared_bytes):
    kernel, calls = selected(reverse, X, X)
    x, y = cuda.to_device(np.arange(1024, dtype=np.float32)), cuda.device_array(1024, np.float32)
    kernel[4, 256, 0, shared_bytes](x, y)
    assert np.array_equal(y.copy_to_host(), np.arange(1024).reshape(4, 256)[:, ::-1].ravel())
    assert calls == [1]


def test_a_cooperative_launch_is_one():
    """Too many blocks to run at once: only a cooperative launch is refused for that."""
    kernel = hybridcc.jit(scale)
    values = cuda.to_device(X), cuda.to_device(np.zeros_like(X)), A
    together, apart = launcher_of(kernel, (X, X, A), cooperative=True), launcher_of(kernel, (X, X, A))
    flat = together.read(values)
    assert flat is not None
    assert together.launch(geometry(8, 128), flat) == ""
    cuda.synchronize()
    assert np.array_equal(values[1].copy_to_host(), X * A)
    many = geometry(1 << 20, 1024)
    assert "TOO_LARGE" in together.launch(many, flat)
    assert apart.launch(many, flat) == ""
    cuda.synchronize()


def shift(x):
    """Each element takes its neighbour's value in another block, after all blocks have read."""
    i = cuda.grid(1)
    n = x.shape[0]
    value = x[(i + 1) % n]
    cuda.cg.this_grid().sync()
    x[i] = value


def test_a_kernel_that_synchronises_its_grid_runs_and_stays_with_numba(tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path))
    kernel = hybridcc.jit(shift)
    x = cuda.to_device(np.arange(512, dtype=np.float32))
    kernel[4, 128](x)
    assert np.array_equal(x.copy_to_host(), np.roll(np.arange(512), -1))
    outcome = kernel[4, 128].optimize(x, budget_s=1)
    assert not outcome.switched
    kernel[4, 128](x)
    assert np.array_equal(x.copy_to_host(), np.roll(np.arange(512), -2))


def test_attributes_are_read_from_what_is_loaded():
    kernel = hybridcc.jit(reverse)
    launcher = launcher_of(kernel, (X, X))
    found = launcher.loaded.attributes()
    compiled = kernel.compile_for(launcher.types, device.current().arch)
    assert found.registers == assemble(compiled.ptx, compiled.arch).registers
    assert f"sm_{found.binary_version}" == device.current().arch
    assert found.max_threads == 1024
    assert found.max_dynamic_shared_bytes == 48 << 10
    launcher.loaded.allow_shared(100 << 10)
    assert launcher.loaded.attributes().max_dynamic_shared_bytes == 100 << 10


def test_declared_signatures_are_compiled_where_they_are_declared():
    from numba.cuda.core.errors import TypingError  # pyright: ignore[reportMissingImports]

    kernel = hybridcc.jit("void(float32[::1], float32[::1], float32)")(scale)
    assert list(kernel.overloads) == [(float32[::1], float32[::1], float32)]
    assert kernel.specialized

    def wrong(x):
        x[0] = undefined_name  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    with pytest.raises(TypingError, match="undefined_name"):
        hybridcc.jit("void(float32[::1])")(wrong)


def test_forall_launches_what_is_selected():
    kernel, calls = selected(scale, X, X, A)
    x, y = cuda.to_device(X), cuda.to_device(np.zeros_like(X))
    kernel.forall(X.size)(x, y, A)
    assert np.array_equal(y.copy_to_host(), X * A)
    kernel.forall(X.size, tpb=64)(x, y, A)
    assert calls == [1, 1]


def test_a_launch_in_a_thread_without_a_context():
    import threading

    kernel, calls = selected(scale, X, X, A)
    x, y = cuda.to_device(X), cuda.to_device(np.zeros_like(X))
    configured = kernel[8, 128]
    configured(x, y, A)

    def work():
        call(bindings().cuCtxSetCurrent, bindings().CUcontext(0))
        configured(x, y, A)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert calls == [1, 1]
    assert np.array_equal(y.copy_to_host(), X * A)
