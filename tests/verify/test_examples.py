"""A user's own launches: every accepted form, and one clear message for every other."""

import numpy as np
import pytest

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Argument, ArrayType, Kernel, ScalarType
from hybridcc.passes.verify import stored
from hybridcc.passes.verify.examples import from_callable, from_file
from hybridcc.passes.verify.launch import Launch

ARGUMENTS = (Argument("a", ScalarType("float32"), ()), Argument("x", ArrayType("float32", 1), ()))
KERNEL = Kernel("scale", "scale", "", "sm_80", "none", ARGUMENTS)
X = np.ones(5, np.float32)


@pytest.mark.parametrize(
    "given",
    [
        (1, 32, (2.0, X)),
        ((1, 1), (32,), [np.float32(2), X]),
        [(1, 32, (2, X)), (2, 64, (3, X), 128)],
        (launch for launch in [(1, 32, (2.0, X))]),
        Launch((1, 1, 1), (32, 1, 1), (np.float32(2), X)),
    ],
    ids=["tuple", "shapes", "several", "generator", "launch"],
)
def test_accepted_forms(given):
    launches = from_callable(lambda: given, KERNEL)
    assert launches[0].grid == (1, 1, 1)
    assert launches[0].block == (32, 1, 1)
    assert launches[0].values[0] == np.float32(2)
    assert np.asarray(launches[0].values[0]).dtype == np.float32
    if len(launches) > 1:
        assert launches[1].shared_bytes == 128


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "empty"),
        ([5], "not a launch"),
        ((1, 32, (2.0,)), "takes 2 arguments, the example has 1"),
        ((1, 32, (2.0, np.ones(5))), "wants a float32 array"),
        ((1, 32, (2.0, [1.0])), "wants a float32 array"),
        ((1, 32, (X, X)), "wants a float32"),
        (((1, 1, 1, 1), 32, (2.0, X)), "one to three"),
        ((-1, 32, (2.0, X)), "non-negative"),
    ],
)
def test_refused_forms(given, message):
    with pytest.raises(InputError, match=message):
        from_callable(lambda: given, KERNEL)


def test_a_callable_that_fails_is_named():
    with pytest.raises(InputError, match=r"examples of scale failed: ZeroDivisionError"):
        from_callable(lambda: 1 / 0, KERNEL)


def test_python_file(tmp_path):
    path = tmp_path / "inputs.py"
    path.write_text(
        "import numpy as np\n"
        "def examples(): return 1, 32, (1.0, np.zeros(3, np.float32))\n"
        "def examples_scale(): yield 4, 32, (1.0, np.zeros(100, np.float32))\n"
    )
    assert from_file(path, KERNEL)[0].grid == (4, 1, 1)
    path.write_text("import numpy as np\nexamples = [(2, 32, (1.0, np.zeros(3, np.float32)))]\n")
    assert from_file(path, KERNEL)[0].grid == (2, 1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [("def f(:\n", r"inputs.py:1: syntax error"), ("1/0", "ZeroDivisionError"), ("x = 1", "defines neither")],
)
def test_bad_python_file(tmp_path, text, message):
    path = tmp_path / "inputs.py"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        from_file(path, KERNEL)


def test_npz_file(tmp_path):
    path = tmp_path / "inputs.npz"
    np.savez(path, grid=np.array([2, 1]), block=64, a=np.float32(3), arg1=X)
    launch = from_file(path, KERNEL)[0]
    assert (launch.grid, launch.block, launch.values[0]) == ((2, 1, 1), (64, 1, 1), 3)
    np.savez(path, a=np.float32(3), x=X)
    with pytest.raises(InputError, match="holds no 'grid'"):
        from_file(path, KERNEL)
    np.savez(path, grid=1, block=1, a=np.float32(3))
    with pytest.raises(InputError, match="neither 'x' nor 'arg1'"):
        from_file(path, KERNEL)
    path.write_bytes(b"junk")
    with pytest.raises(InputError, match=r"not an \.npz"):
        from_file(path, KERNEL)
    with pytest.raises(InputError, match="no such file"):
        from_file(tmp_path / "none.py", KERNEL)


def test_a_stored_launch_keeps_bits_views_and_sharing(tmp_path):
    base = np.zeros(40, np.uint32)
    base[3] = 0x7F800001  # a signalling NaN
    floats = base.view(np.float32)
    kernel = Kernel("k", "k", "", "sm_80", "none", tuple(Argument(n, ArrayType("float32", 1, "A"), ()) for n in "abc"))
    launch = Launch((2, 1, 1), (32, 1, 1), (floats[:10], floats[20:0:-2], np.ones(3, np.float32)), shared_bytes=64)
    path = tmp_path / "launch.npz"
    path.write_bytes(stored.to_bytes(launch))
    (read,) = from_file(path, kernel)
    assert (read.grid, read.block, read.shared_bytes) == (launch.grid, launch.block, 64)
    for mine, theirs in zip(launch.values, read.values, strict=True):
        assert isinstance(mine, np.ndarray)
        assert isinstance(theirs, np.ndarray)
        assert mine.tobytes() == theirs.tobytes()
        assert mine.strides == theirs.strides
    assert np.shares_memory(read.values[0], read.values[1])  # type: ignore[arg-type]
    assert stored.to_bytes(launch) == path.read_bytes()
