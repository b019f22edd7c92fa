"""``@hybridcc.jit`` on kernels for ``numba_cuda_mlir.cuda``, with no GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridcc
from hybridcc import sources
from hybridcc.errors import LaunchShapeError, SignatureError, UnsupportedOption
from hybridcc.frontends import which

pytest.importorskip("numba_cuda_mlir", reason="the extra mlir is not installed")

import numba_cuda_mlir
from numba import cuda as numbas_cuda
from numba_cuda_mlir import cuda
from numba_cuda_mlir import cuda as other_name


def by_module(x):
    x[cuda.grid(1)] *= 2


def by_another_name(x):
    x[other_name.grid(1)] *= 2


def by_package(x):
    x[numba_cuda_mlir.cuda.grid(1)] *= 2


def enclosed():
    from numba_cuda_mlir import cuda as inner

    def kernel(x):
        x[inner.grid(1)] *= 2

    return kernel


def numbas(x):
    x[numbas_cuda.grid(1)] *= 2


def test_the_module_decides() -> None:
    for function in (by_module, by_another_name, by_package, enclosed()):
        assert which.is_for_numba_mlir(function)
    assert not which.is_for_numba_mlir(numbas)
    assert not which.is_for_numba_mlir(lambda x: None)


@pytest.mark.parametrize("signature", [None, "void(float32[::1])", ["void(float32[::1])", "void(float64[::1])"]])
def test_a_launch_on_the_executor(signature: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDCC", "execute")
    kernel = hybridcc.jit(by_module) if signature is None else hybridcc.jit(signature)(by_module)
    x = np.arange(64, dtype=np.float32)
    kernel[2, 32](x)
    assert x.tolist() == [2 * i for i in range(64)]


def test_refusals() -> None:
    kernel = hybridcc.jit(by_module)
    with pytest.raises(LaunchShapeError):
        kernel(1)
    with pytest.raises(LaunchShapeError):
        kernel[1]
    with pytest.raises(UnsupportedOption, match="numba_cuda_mlir"):
        kernel[1, 32].optimize(np.zeros(32, np.float32))
    with pytest.raises(SignatureError):
        kernel[1, 32].execute(object())


def test_a_plain_function_by_its_signature(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("from numba_cuda_mlir import cuda\n\n\ndef twice(x):\n    x[cuda.grid(1)] *= 2\n")
    (built,) = hybridcc.build(tmp_path / "k.py", tmp_path / "out", signature="twice(float32[::1])", rewriter="none")
    assert built.record.frontend.startswith("numba-cuda-mlir ")


def test_its_own_jit_object_with_its_options(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "from numba_cuda_mlir import cuda\n\n\n"
        "@cuda.jit(launch_bounds=128)\ndef twice(x):\n    x[cuda.grid(1)] *= 2\n\n\n"
        "@cuda.jit(link=['other.ptx'])\ndef linked(x):\n    x[cuda.grid(1)] *= 2\n"
    )
    (source,) = sources.load(f"{tmp_path / 'k.py'}:twice", ["sm_80"], signature="(float32[::1])")
    assert source.kernels[0].launch_bounds.max_threads == 128
    with pytest.raises(UnsupportedOption, match="link"):
        sources.load(f"{tmp_path / 'k.py'}:linked", ["sm_80"], signature="(float32[::1])")
