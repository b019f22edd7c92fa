"""On a GPU: the drop-in, the switch to a selected variant, and races against variants that misbehave."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numba import cuda, float32

import hybridcc
from hybridcc.runtime import device
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.launch import Launcher, LoadedKernel
from hybridcc.runtime.race import Contender, race

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}"),
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),  # of small grids
]


def scale(x, y, a):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i] * a


def select_baseline(kernel, args):
    """The kernel's own bytes as if they had been selected: every path of a launch, with a known result."""
    types = kernel.types_of(args)
    compiled = kernel.compile_for(types, device.current().arch)
    loaded = LoadedKernel(assemble(compiled.ptx, compiled.arch).bytes, compiled.entry)
    kernel.use(Launcher(loaded, compiled.arguments, types, lenient=kernel.specialized), types)
    return compiled


@pytest.fixture(params=["stock", "selected"])
def kernel(request):
    made = hybridcc.jit(scale)
    if request.param == "selected":
        select_baseline(made, (np.zeros(2, np.float32), np.zeros(2, np.float32), np.float32(1)))
    return made


X = np.arange(1000, dtype=np.float32)
A = np.float32(3)


def torch_with_cuda():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return torch


def selected_count(kernel):
    """How many launches the selected variant got from now on."""
    calls = []
    for launcher in kernel.selected:
        launch = launcher.launch
        kernel.selected[:] = [_Counting(launcher, launch, calls)]
    return calls


class _Counting:
    ordinal, is_here = 0, True

    def __init__(self, launcher, launch, calls):
        self.read, self.types, self.arguments = launcher.read, launcher.types, launcher.arguments
        self._launch, self._calls = launch, calls

    def launch(self, geometry, flat):
        self._calls.append(1)
        return self._launch(geometry, flat)


@pytest.mark.parametrize("place", ["numba", "cupy", "torch", "host"])
def test_arrays_of_every_library(kernel, place):
    calls = selected_count(kernel)
    if place == "numba":
        x, y = cuda.to_device(X), cuda.to_device(np.zeros_like(X))
        kernel[8, 128](x, y, A)
        found = y.copy_to_host()
    elif place == "cupy":
        cupy = pytest.importorskip("cupy")
        x, y = cupy.asarray(X), cupy.zeros(X.size, "f4")
        kernel[8, 128](x, y, A)
        found = cupy.asnumpy(y)
    elif place == "torch":
        torch = torch_with_cuda()
        x, y = torch.tensor(X, device="cuda"), torch.zeros(X.size, device="cuda")
        kernel[8, 128](x, y, A)
        found = y.cpu().numpy()
    else:
        found = np.zeros_like(X)
        kernel[8, 128](X, found, A)
    assert np.array_equal(found, X * A)
    assert len(calls) == len(kernel.selected)


@pytest.mark.parametrize("make", ["numba", "cupy", "torch", "handle"])
def test_streams_of_every_library(kernel, make):
    x, y = cuda.to_device(X), cuda.to_device(np.zeros_like(X))
    if make == "numba":
        stream = cuda.stream()
    elif make == "cupy":
        stream = pytest.importorskip("cupy").cuda.Stream()
    elif make == "torch":
        stream = torch_with_cuda().cuda.Stream()
    else:
        keep = cuda.stream()
        stream = int(keep.handle.value if hasattr(keep.handle, "value") else keep.handle)
    cuda.synchronize()
    kernel[8, 128, stream](x, y, A)
    cuda.synchronize()
    assert np.array_equal(y.copy_to_host(), X * A)


def test_other_types_go_to_the_baseline():
    kernel = hybridcc.jit(scale)
    select_baseline(kernel, (X, X, A))
    calls = selected_count(kernel)
    x, y = cuda.to_device(X.astype("f8")), cuda.to_device(np.zeros(X.size))
    kernel[8, 128](x, y, 3.0)
    assert np.array_equal(y.copy_to_host(), X.astype("f8") * 3)
    strided = cuda.to_device(np.zeros(2 * X.size, "f4"))[::2]
    kernel[8, 128](cuda.to_device(X), strided, A)
    assert np.array_equal(strided.copy_to_host(), X * A)
    assert not calls


def test_a_freed_array_and_the_one_that_takes_its_place():
    kernel = hybridcc.jit(scale)
    select_baseline(kernel, (X, X, A))
    y = cuda.to_device(np.zeros_like(X))
    for number in range(20):
        x = cuda.to_device(X + number)
        kernel[8, 128](x, y, A)
        assert np.array_equal(y.copy_to_host(), (X + number) * A)
        del x


def test_threads_launch_at_once():
    kernel = hybridcc.jit(scale)
    select_baseline(kernel, (X, X, A))
    failures = []

    def work(number):
        x, y = cuda.to_device(X + number), cuda.to_device(np.zeros_like(X))
        for _ in range(200):
            kernel[8, 128](x, y, A)
        if not np.array_equal(y.copy_to_host(), (X + number) * A):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_two_dimensional_arrays_and_blocks():
    def transpose(a, b):
        i, j = cuda.grid(2)
        if i < a.shape[0] and j < a.shape[1]:
            b[j, i] = a[i, j]

    kernel = hybridcc.jit(transpose)
    a = np.arange(35, dtype=np.float32).reshape(5, 7)
    select_baseline(kernel, (a, a))
    calls = selected_count(kernel)
    x, y = cuda.to_device(a), cuda.to_device(np.zeros((7, 5), np.float32))
    kernel[(1, 1), (8, 8)](x, y)
    assert np.array_equal(y.copy_to_host(), a.T)
    assert calls == [1]


def test_what_users_ask_a_numba_dispatcher():
    kernel = hybridcc.jit("void(float32[::1], float32[::1], float32)")(scale)
    kernel[8, 128](X, np.zeros_like(X), 3)
    (types,) = kernel.signatures
    assert types == (float32[::1], float32[::1], float32)
    assert "mul" in kernel.inspect_asm(types)
    assert kernel.get_regs_per_thread() > 0
    y = np.zeros_like(X)
    kernel.forall(X.size)(X, y, 3)
    assert np.array_equal(y, X * A)


def test_loaded_kernels_tell_their_registers():
    compiled = select_baseline(hybridcc.jit(scale), (X, X, A))
    loaded = LoadedKernel(assemble(compiled.ptx, compiled.arch).bytes, compiled.entry)
    assert loaded.attribute("NUM_REGS") == assemble(compiled.ptx, compiled.arch).registers


# --- races ---


def contest(*edits):
    """The baseline of ``scale`` and one variant per edit of its PTX, with a launch."""
    from hybridcc.passes.verify.launch import Launch

    kernel = hybridcc.jit(scale)
    n = 1 << 20
    values = (np.arange(n, dtype=np.float32), np.zeros(n, np.float32), A)
    compiled = kernel.compile_for(kernel.types_of(values), device.current().arch)
    baseline = Contender("baseline", assemble(compiled.ptx, compiled.arch).bytes, compiled.entry)
    variants = []
    for number, (old, new) in enumerate(edits):
        assert old in compiled.ptx
        text = compiled.ptx.replace(old, new, 1)
        variants.append(Contender(f"v{number}", assemble(text, compiled.arch).bytes, compiled.entry))
    launch = Launch((n // 256, 1, 1), (256, 1, 1), values)
    return baseline, variants, compiled.arguments, launch


def run_race(*edits, **options):
    baseline, variants, arguments, launch = contest(*edits)
    before = [np.array(value) for value in launch.values]
    result = race(baseline, variants, arguments, launch, device.current(), **{"budget_s": 4.0, **options})
    assert all(np.array_equal(a, np.asarray(b)) for a, b in zip(before, launch.values, strict=True))
    return result


def store_line(ptx):
    return next(line for line in ptx.splitlines() if "st.global" in line)


def edit(what):
    """(text of the PTX, what stands there instead)."""
    ptx = hybridcc.jit(scale).compile_for((float32[::1], float32[::1], float32), device.current().arch).ptx
    store = store_line(ptx)
    return {
        "same": (store, store),
        "wrong": ("mul.f32", "add.f32"),
        "out of bounds": (store, store.replace("]", "+1073741824]")),
        "next to the buffer": (store, store + "\n" + store.replace("]", "+64]")),
        "skips its work": (store, ""),
        "never ends": (store, "$FOREVER:\n" + store + "\nmembar.gl;\nbra.uni $FOREVER;"),
    }[what]


def test_the_baselines_own_bytes_are_never_faster_or_slower():
    result = run_race(edit("same"))
    assert not result.void
    assert not result.deviations
    assert result.measurements["v0"].kind in ("same", "inconclusive")
    assert result.noise_floor is not None
    assert result.noise_floor < 0.1
    assert result.checks >= 8


@pytest.mark.parametrize("what", ["wrong", "out of bounds", "next to the buffer", "skips its work"])
def test_a_variant_that_misbehaves_is_refuted_and_the_process_goes_on(what):
    result = run_race(edit(what), edit("same"))
    assert not result.void
    assert [d.contender for d in result.deviations] == ["v0"]
    assert "v1" in result.measurements
    y = np.zeros_like(X)
    hybridcc.jit(scale)[8, 128](X, y, A)
    assert np.array_equal(y, X * A)


def test_a_variant_that_never_ends_is_killed(monkeypatch):
    monkeypatch.setattr("hybridcc.runtime.race_children.SILENCE_S", 15.0)
    result = run_race(edit("never ends"), budget_s=2.0)
    assert [d.contender for d in result.deviations] == ["v0"]
    assert "did not end" in result.deviations[0].what


def test_a_baseline_that_is_not_deterministic_voids_the_race():
    def count(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = cuda.atomic.add(x, 0, float32(1))

    from hybridcc.passes.verify.launch import Launch

    kernel = hybridcc.jit(count)
    values = (np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float32))
    compiled = kernel.compile_for(kernel.types_of(values), device.current().arch)
    code = assemble(compiled.ptx, compiled.arch).bytes
    launch = Launch((256, 1, 1), (256, 1, 1), values)
    contenders = Contender("baseline", code, compiled.entry), [Contender("v0", code, compiled.entry)]
    result = race(*contenders, compiled.arguments, launch, device.current(), budget_s=2.0)
    assert "not deterministic" in result.void
    assert result.next_step


def test_optimize_replays_the_recording_and_switches(tmp_path, monkeypatch):
    """The example as it ships, at a size that is over in a moment."""
    import importlib.util
    from pathlib import Path

    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path))
    path = Path(__file__).parents[2] / "examples" / "conv1d.py"
    spec = importlib.util.spec_from_file_location("conv1d", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    n = 1 << 22
    x, w = np.random.default_rng(0).random(n + 30, np.float32), np.random.default_rng(1).random(31, np.float32)
    arrays = [cuda.to_device(x), cuda.to_device(w), cuda.to_device(np.zeros(n, np.float32))]
    configured = module.conv1d[n // 256, 256]
    configured(*arrays)
    stock = arrays[-1].copy_to_host()
    outcome = configured.optimize(*arrays, accept="tested", budget_s=5)
    assert outcome.switched, outcome.text
    assert "faster" in outcome.text
    arrays[-1].copy_to_device(np.full(n, np.nan, np.float32))
    calls = selected_count(module.conv1d)
    configured(*arrays)
    assert calls == [1]
    assert np.array_equal(arrays[-1].copy_to_host().view("u4"), stock.view("u4"))
    again = configured.optimize(*arrays, accept="tested", budget_s=5)
    assert again.from_store
    assert again.switched
