"""One matrix product from every way in: built for three architectures, and the same bits from each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import hybridcc
from hybridcc import sources
from hybridcc.errors import InputError
from hybridcc.passes.arguments import flatten
from hybridcc.passes.kernel import Argument, ArrayType, Kernel
from hybridcc.ptx import parse

HERE = Path(__file__).parent / "matmul"
ARCHITECTURES = ("sm_80", "sm_86", "sm_90")
N = 19

FLOWS = [
    pytest.param("matmul_numba_cuda.py", "numba-cuda ", id="numba-cuda"),
    pytest.param("matmul_numba_cuda_mlir.py", "numba-cuda-mlir ", id="numba-cuda-mlir"),
    pytest.param("matmul.mlir", "mlir (", id="mlir"),
    pytest.param("matmul.ll", "llvm (", id="llvm"),
    pytest.param("matmul.cu", "nvrtc ", id="cuda-cpp"),
]


def product() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors, and their product as a chain of fused multiply-adds: float64 holds each product, and rounds each sum to
    float32 in one step but for the rarest of ties, so it is the executor's own to match."""
    random = np.random.default_rng(1)
    a, b = (random.random((N, N), np.float32) - np.float32(0.5) for _ in range(2))
    c = np.zeros((N, N), np.float32)
    for k in range(N):
        c = (a[:, k : k + 1].astype(np.float64) * b[k].astype(np.float64) + c).astype(np.float32)
    return a, b, c


def values_for(arguments: Sequence[Argument], given: Sequence[object]) -> list[object]:
    """Arrays in the number of dimensions that a kernel knows, numbers in its type."""
    found: list[object] = []
    for argument, value in zip(arguments, given, strict=True):
        if isinstance(argument.type, ArrayType):
            assert isinstance(value, np.ndarray)
            found.append(value if argument.type.ndim == value.ndim else value.reshape(-1))
        else:
            found.append(np.dtype(argument.type.dtype).type(value))
    return found


def run(kernel: Kernel, ptx: str) -> bytes:
    a, b, _ = product()
    c = np.zeros((N, N), np.float32)
    flat = flatten(kernel.arguments, values_for(kernel.arguments, (a, b, c, N)))
    (entry,) = parse(ptx).entries
    hybridcc.execute(ptx, entry.name, (2, 3), (16, 8), flat)
    return c.tobytes()


@pytest.mark.parametrize(("file", "frontend"), FLOWS)
def test_the_same_bits_from_every_way_in(file: str, frontend: str, tmp_path: Path) -> None:
    if "mlir" in file:
        pytest.importorskip("numba_cuda_mlir", reason="the extra mlir is not installed")
    expected = product()[2].tobytes()
    (built,) = hybridcc.build(HERE / file, tmp_path, arch=ARCHITECTURES, rewriter="none")
    assert built.record.frontend.startswith(frontend)
    (source,) = sources.load(str(HERE / file), ARCHITECTURES[:1])
    for arch in ARCHITECTURES:
        ptx = (built.bundle.folder / f"baseline.{arch}.ptx").read_text()
        assert f".target {arch}" in ptx
        assert (built.bundle.folder / f"selected.{arch}.cubin").stat().st_size > 0
        assert run(source.kernels[0], ptx) == expected


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.mlir", "module {\n  nonsense\n}", "bad.mlir:2:"),
        ("bad.ll", "define ptx_kernel void @f() {\n  %x = add i32 1, %nope\n  ret void\n}", "bad.ll:2:19: use of und"),
        ("bad.cu", "__global__ void f(int *x) {\n  x[0] = nope;\n}", 'bad.cu:2: identifier "nope" is undefined'),
        (
            "asm.ll",
            'define ptx_kernel void @f() {\n  call void asm sideeffect "nonsense", ""()\n  ret void\n}',
            "nonsense",
        ),
        ("outside.cu", "__device__ void g();\n__global__ void f() {\n  g();\n}", "Unresolved extern function"),
        ("empty.ll", "", "holds no kernel"),
        ("noise.bc", "noise", "noise.bc: LLVM bitcode parsing error"),
    ],
)
def test_an_error_is_the_tools_own_with_its_position(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "hybridcc", "build", str(tmp_path / name), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list((tmp_path / "out").glob("*"))


def test_a_kernel_that_the_file_does_not_hold(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no kernel other \(kernels: matmul\)"):
        sources.load(f"{HERE / 'matmul.cu'}:other", ["sm_80"])
