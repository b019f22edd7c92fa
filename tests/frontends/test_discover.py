"""Kernels in users' files, and files that cannot be run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hybridcc.errors import InputError
from hybridcc.frontends.discover import find, load
from hybridcc.frontends.numba import compile

HEAD = """
from numba import cuda, float32
import neighbour

class jit:
    def __init__(self, signature=None, examples=None, **options):
        self.signatures, self.examples, self.options = (signature,) if signature else (), examples, options

    def __call__(self, function):
        self.py_func = function
        return self

def launch():
    return 1, 32, ()
"""

TWO = (
    HEAD
    + """
@jit("void(float32[::1])", examples=launch)
def second(x):
    x[0] = neighbour.VALUE

@jit("void(float32[::1])")
def third(x):
    x[0] = 1

first = jit()(lambda x: None)

@jit("float32(float32)", device=True)
def helper(x):
    return x

def plain(x):
    x[0] = float32(2)

alias = second
"""
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    (tmp_path / "neighbour.py").write_text("VALUE = 3\n")

    def write(text: str, name: str = "kernels.py") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_decorated_kernels_in_source_order(write: Callable[[str], Path]) -> None:
    found = find(write(TWO))
    assert [kernel.name for kernel in found] == ["second", "third"]
    assert found[0].signatures == ("void(float32[::1])",)
    assert found[0].examples is not None
    assert found[0].examples() == (1, 32, ())
    assert found[1].examples is None
    kernel = compile(found[0].function, found[0].signatures[0], "sm_80")
    assert kernel.source_file.endswith("kernels.py")
    assert kernel.source_line == found[0].line


def test_one_by_name_with_or_without_signature(write: Callable[[str], Path]) -> None:
    path = write(TWO)
    (third,) = find(path, "third")
    assert third.signatures == ("void(float32[::1])",)
    (other,) = find(path, "third", "void(float64[::1])")
    assert other.signatures == ("void(float64[::1])",)
    (plain,) = find(path, "plain", "void(float32[::1])")
    assert compile(plain.function, plain.signatures[0], "sm_80").name == "plain"


def test_a_lone_plain_function_needs_no_name(write: Callable[[str], Path]) -> None:
    (kernel,) = find(write("def scale(x):\n    x[0] = 2.0\n"), None, "void(float32[::1])")
    assert kernel.name == "scale"


def test_stock_jit_objects_need_a_signature(write: Callable[[str], Path]) -> None:
    path = write("from numba import cuda\n@cuda.jit(fastmath=True)\ndef scale(x):\n    x[0] = 2.0\n")
    with pytest.raises(InputError, match="scale: no signature"):
        find(path)
    (kernel,) = find(path, None, "void(float32[::1])")
    assert compile(kernel.function, kernel.signatures[0], "sm_80").ptx


@pytest.mark.parametrize(
    ("text", "name", "signature", "said"),
    [
        ("x = 1\n", None, None, "no kernel is declared"),
        ("def f(x): pass\n", None, None, "no kernel is declared"),
        ("def f(x): pass\n", "f", None, "f: no signature"),
        (TWO, "fourth", None, r"no function called fourth \(kernels: "),
        (TWO, "alias_", None, "no function called"),
        (TWO, None, "void(float32[::1])", "one signature for 3 functions"),
        ("def f(x:\n", None, None, r"kernels.py:1: "),
        ("import numpy\n\nnumpy.nothing\n", None, None, r"kernels.py:3: AttributeError"),
        ("import no_such_thing\n", None, None, r"kernels.py:1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", None, None, r"kernels.py:1: SystemExit"),
        ("1/0\n", None, None, r"kernels.py:1: ZeroDivisionError"),
        (
            "from numba import cuda\n@cuda.jit('void(float32[::1])')\ndef f(x): pass\n",
            None, None, r"kernels.py:2: CudaSupportError",
        ),
    ],
)  # fmt: skip
def test_refusals_name_place_and_next_step(
    write: Callable[[str], Path], text: str, name: str | None, signature: str | None, said: str
) -> None:
    if "cuda.jit('" in text:
        from numba import cuda

        if cuda.is_available():
            pytest.skip("there is a GPU: numba.cuda.jit works here")
    with pytest.raises(InputError, match=said) as caught:
        find(write(text), name, signature)
    assert caught.value.next_step


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        find(tmp_path / "none.py")
    (tmp_path / "kernels.txt").write_text("x")
    with pytest.raises(InputError, match="not a Python file"):
        find(tmp_path / "kernels.txt")


def test_running_a_file_leaves_the_interpreter_as_it_was(write: Callable[..., Path]) -> None:
    before = list(sys.path), sys.modules.get("random")
    module = load(write("from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1\n", "random.py"))
    assert module.C().a == 1
    assert (list(sys.path), sys.modules.get("random")) == before
