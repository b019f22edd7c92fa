"""@hybridcc.jit without a GPU: decorating, keywords, what is refused and what is said."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numba import cuda, float32

import hybridcc
from hybridcc.errors import ExecutionError, HybridccError, InputError, NoDevice, UnsupportedOption
from hybridcc.runtime import device
from hybridcc.runtime.dispatcher import Configured, Dispatcher

without_gpu = pytest.mark.skipif(device.available() is not None, reason="says what happens without a GPU")
F1 = float32[::1]


def scale(x, a):
    """Doubles, or whatever a is."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] *= a


@pytest.mark.parametrize(
    "decorate",
    [
        hybridcc.jit,
        hybridcc.jit(),
        hybridcc.jit("void(float32[::1], float32)"),
        hybridcc.jit((F1, float32)),
        hybridcc.jit(["void(float32[::1], float32)", (F1, float32)]),
        hybridcc.jit(fastmath=True, opt=True, lineinfo=False, max_registers=32, cache=False, launch_bounds=(256, 2)),
        hybridcc.jit(inline="never", forceinline=False, link=[], lto=True, shared_memory_carveout="MaxL1"),
    ],
)
def test_every_form_of_the_decorator(decorate):
    kernel = decorate(scale)
    assert isinstance(kernel, Dispatcher)
    assert kernel.py_func is scale
    assert (kernel.__name__, kernel.__doc__, kernel.__module__) == ("scale", scale.__doc__, __name__)


def test_signatures_read_as_numba_gives_them():
    assert hybridcc.jit("void(float32[::1], float32)")(scale).signatures == [(F1, float32)]
    both = hybridcc.jit([(F1, float32), (F1, cuda.types.float64)])(scale)
    assert both.signatures == [(F1, float32), (F1, cuda.types.float64)]
    assert hybridcc.jit(scale).signatures == []


@pytest.mark.parametrize(
    ("keyword", "value"),
    [("fastmat", True), ("argtypes", (F1,)), ("restype", float32), ("bind", True), ("boundscheck", True)],
)
def test_a_keyword_that_cuda_jit_does_not_take_is_refused_by_name(keyword, value):
    with pytest.raises(UnsupportedOption, match=keyword) as caught:
        hybridcc.jit(**{keyword: value})(scale)
    assert caught.value.next_step


def test_a_device_function_is_numbas_own_and_a_kernel_can_call_it():
    @hybridcc.jit(device=True)
    def twice(v):
        return v + v

    @hybridcc.jit
    def kernel(x):
        i = cuda.grid(1)
        if i < x.shape[0]:
            x[i] = twice(x[i])

    assert type(twice).__name__ == "CUDADispatcher"
    assert "add.f32" in kernel.compile_for((F1,), "sm_90").ptx


def test_options_reach_the_compilation():
    bounded = hybridcc.jit("void(float32[::1], float32)", launch_bounds=128, fastmath=True)(scale)
    kernel = bounded.compile_for(bounded.signatures[0], "sm_86")
    assert ".maxntid 128" in kernel.ptx
    assert kernel.arch == "sm_86"


def test_one_declared_signature_converts_arguments_and_a_list_types_them():
    x = np.zeros(4, np.float32)
    one = hybridcc.jit("void(float32[::1], float32)")(scale)
    many = hybridcc.jit(["void(float32[::1], float32)"])(scale)
    assert one.types_of((x, 2)) == (F1, float32)
    assert many.types_of((x, np.float32(2))) == (F1, float32)
    assert many.types_of((x, 2)) == (F1, cuda.types.int64)


@without_gpu
@pytest.mark.parametrize("decorate", [hybridcc.jit, hybridcc.jit("void(float32[::1], float32)")])
def test_without_a_gpu_a_launch_says_why_and_what_to_do(decorate):
    kernel = decorate(scale)
    with pytest.raises(NoDevice, match="scale cannot be launched: no ") as caught:
        kernel[1, 32](np.zeros(32, np.float32), np.float32(2))
    assert "hybridcc build" in caught.value.next_step
    assert "HYBRIDCC=execute" in caught.value.next_step
    assert caught.value.exit_code == 3


@without_gpu
def test_without_a_gpu_optimize_says_why():
    with pytest.raises(NoDevice, match="scale"):
        hybridcc.jit(scale)[1, 32].optimize(np.zeros(32, np.float32), np.float32(2))


def test_optimize_takes_the_shape_of_the_latest_launch(monkeypatch):
    """As the README shows it: a launch, then ``kernel.optimize(arguments)``."""
    asked = []
    monkeypatch.setattr(Configured, "optimize", lambda self, *args, **how: asked.append((self, args, how)))
    kernel = hybridcc.jit(scale)
    with pytest.raises(InputError, match="grid and block") as caught:
        kernel.optimize(1)
    assert "scale[grid, block].optimize" in caught.value.next_step
    with pytest.raises(InputError, match="grid and block"):
        kernel.optimize(1, grid=4)
    shape = kernel[4, 32]
    other = kernel[2, 64]
    assert kernel[4, 32] is shape
    kernel.optimize(1, budget_s=2)
    kernel.optimize(3, grid=2, block=64)
    assert [(s is shape, args, how) for s, args, how in asked[:1]] == [(True, (1,), {"budget_s": 2})]
    assert (asked[1][0].griddim, asked[1][0].blockdim) == (other.griddim, other.blockdim)


def test_a_call_without_a_shape_and_a_bad_shape_are_errors():
    kernel = hybridcc.jit(scale)
    with pytest.raises(InputError, match="without a grid and a block"):
        kernel(np.zeros(4, np.float32), 2)
    with pytest.raises(InputError, match="a grid and a block"):
        kernel[4]
    with pytest.raises(InputError, match="not negative"):
        kernel.forall(-1)


def test_a_configured_launch_is_kept_for_its_shape():
    kernel = hybridcc.jit(scale)
    assert kernel[4, 32] is kernel[4, 32]
    assert kernel[4, 32] is not kernel[4, 64]
    for grid in range(1, 400):
        kernel[grid, 32]
    assert len(kernel._configured) <= 128


def test_the_mode_comes_from_outside(monkeypatch):
    monkeypatch.setenv("HYBRIDCC", "baseline")
    assert hybridcc.jit(scale).mode == "baseline"
    monkeypatch.setenv("HYBRIDCC", "fast")
    with pytest.raises(InputError, match="HYBRIDCC=fast") as caught:
        hybridcc.jit(scale)
    assert "execute" in caught.value.next_step
    assert isinstance(caught.value, HybridccError)


def test_it_is_a_numba_dispatcher_and_asking_it_needs_no_gpu():
    from numba.cuda.dispatcher import CUDADispatcher
    from numba.cuda.extending import is_jitted  # pyright: ignore[reportAttributeAccessIssue]

    kernel = hybridcc.jit("void(float32[::1], float32)", fastmath=True)(scale)
    assert isinstance(kernel, CUDADispatcher)
    assert is_jitted(kernel)
    stock = cuda.jit(fastmath=True)(scale)
    assert kernel.targetoptions == stock.targetoptions
    assert kernel.extensions == []
    assert kernel.specializations == {}
    assert repr(kernel) == repr(stock)
    assert "not optimized yet" in kernel.report()


def twice(v):
    return v + v


def test_a_kernel_can_be_called_from_another_as_with_numba():
    """Numba's jit without ``device=True`` makes a function of either kind."""
    inner = hybridcc.jit(twice)

    @hybridcc.jit
    def kernel(x):
        i = cuda.grid(1)
        if i < x.shape[0]:
            x[i] = inner(x[i])

    assert "add.f32" in kernel.compile_for((F1,), "sm_90").ptx


def test_a_kernel_goes_through_pickle():
    import pickle

    kernel = hybridcc.jit(fastmath=True)(scale)
    again = pickle.loads(pickle.dumps(kernel))
    assert isinstance(again, Dispatcher)
    assert again.py_func.__code__.co_code == scale.__code__.co_code
    assert again.options == {"fastmath": True}


@pytest.mark.parametrize("shape", [4, (4,), (1, 2, 3, 4, 5), ((1, 2, 3, 4), 5), (1, (5, 6, 7, 8)), (None, 1)])
def test_a_wrong_shape_is_also_the_error_that_numba_raises(shape):
    with pytest.raises(ValueError, match=r"grid|block|configuration") as caught:
        hybridcc.jit(scale)[shape]
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize("shape", [(2.0, 3), (2, 3.0), (2, (3.0, 4)), ("2", 3)])
def test_a_shape_of_no_integers_is_also_a_type_error(shape):
    with pytest.raises(TypeError, match="sequence of integers") as caught:
        hybridcc.jit(scale)[shape]
    assert isinstance(caught.value, InputError)


def test_in_numbas_simulator_kernels_are_the_simulators():
    import os
    import subprocess

    code = (
        "import hybridcc, numpy as np\nfrom numba import cuda\n@hybridcc.jit('void(float32[::1])')\ndef f(x):\n"
        "    x[cuda.grid(1)] = 2\nx = np.zeros(4, 'f4')\nf[1, 4](x)\nprint(type(f).__name__, x.sum())"
    )
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.split() == ["FakeCUDAKernel", "8.0"], done.stderr


def test_as_a_method():
    class Holder:
        kernel = hybridcc.jit(scale)

    assert Holder.kernel.py_func is scale
    assert Holder().kernel.__func__ is Holder.kernel


def test_importing_the_package_loads_no_numba():
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", "import hybridcc, sys; print('numba' in sys.modules, 'numpy' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]


# --- HYBRIDCC=execute: kernels on the CPU ---


@pytest.fixture
def execute(monkeypatch):
    monkeypatch.setenv("HYBRIDCC", "execute")


@pytest.mark.parametrize("signature", [None, "void(float32[::1], float32)", ["void(float32[::1], float32)"]])
def test_execute_runs_the_kernel_on_host_arrays(execute, signature):
    kernel = hybridcc.jit(scale) if signature is None else hybridcc.jit(signature)(scale)
    x = np.arange(50, dtype=np.float32)
    kernel[2, 32](x, np.float32(3))
    assert np.array_equal(x, np.arange(50, dtype=np.float32) * 3)


def test_execute_takes_two_dimensions_shared_memory_and_forall(execute):
    @hybridcc.jit
    def reverse(x, y):
        tile = cuda.shared.array(32, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        tile[t] = x[i]
        cuda.syncthreads()
        y[i] = tile[31 - t]

    @hybridcc.jit
    def add_index(a):
        i, j = cuda.grid(2)
        if i < a.shape[0] and j < a.shape[1]:
            a[i, j] += 10 * i + j

    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    reverse[2, 32](x, y)
    assert np.array_equal(y, x.reshape(2, 32)[:, ::-1].ravel())
    a = np.zeros((3, 5))
    add_index[(1, 2), (4, 4)](a)
    assert np.array_equal(a, 10 * np.arange(3)[:, None] + np.arange(5))
    hybridcc.jit(scale).forall(64)(x, np.float32(2))
    assert np.array_equal(x, 2 * np.arange(64, dtype=np.float32))


def test_execute_finds_an_access_out_of_bounds(execute):
    @hybridcc.jit
    def shift(x):
        i = cuda.grid(1)
        x[i] = x[i + 1]

    with pytest.raises(ExecutionError, match="byte 128 of argument") as caught:
        shift[1, 32](np.zeros(32, np.float32))
    assert caught.value.reason == "OUT_OF_BOUNDS"


def test_execute_says_which_argument_it_cannot_take(execute):
    with pytest.raises(HybridccError, match=r"void|scale|type"):
        hybridcc.jit(scale)[1, 32](object(), 1)
    with pytest.raises(InputError, match="argument x"):
        hybridcc.jit("void(float32[::1], float32)")(scale)[1, 32](np.zeros(4), 1)


def test_the_simulator_can_be_switched_on_while_a_program_runs(monkeypatch):
    from numba.cuda.core import config  # pyright: ignore[reportMissingImports]

    monkeypatch.setattr(config, "ENABLE_CUDASIM", True)
    assert type(hybridcc.jit(debug=True, opt=False)(scale)).__name__ == "FakeCUDAKernel"
    monkeypatch.undo()
    assert isinstance(hybridcc.jit(scale), Dispatcher)


def test_numbas_warnings_come_when_numba_gives_them():
    """With the keywords, before there is a function; and once."""
    from numba.cuda.core.errors import NumbaInvalidConfigWarning  # pyright: ignore[reportMissingImports]

    with pytest.warns(NumbaInvalidConfigWarning, match="debug=True with opt=True") as told:
        decorate = hybridcc.jit(debug=True, opt=True)
    assert len(told) == 1
    assert decorate(scale).targetoptions["debug"]
    with pytest.warns(NumbaInvalidConfigWarning, match="mutually exclusive") as told:
        hybridcc.jit(scale, debug=True, opt=False, lineinfo=True)
    assert len(told) == 1


def test_it_can_stand_in_for_cuda_jit_itself(monkeypatch):
    """``numba.cuda.jit = hybridcc.jit``: Numba's own code then meets these kernels too."""
    monkeypatch.setattr(cuda, "jit", hybridcc.jit)
    kernel = cuda.jit(fastmath=True)(scale)
    assert isinstance(kernel, Dispatcher)
    assert kernel.stock.__class__.__name__ == "CUDADispatcher"
