"""MLIR and numba-cuda-mlir to PTX (extra ``mlir``), and what happens where LLVM gives up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybridcc.errors import InputError, MissingExtra, SignatureError, ToolchainError, UnknownArchitecture
from hybridcc.frontends import mlir, numba_mlir
from hybridcc.passes.arguments import flatten
from hybridcc.passes.kernel import ArrayType, LaunchBounds, ScalarType
from hybridcc.runtime.assemble import assemble

pytest.importorskip("numba_cuda_mlir", reason="the extra mlir is not installed")

SCALE = """
gpu.module @kernels {
  gpu.func @scale(%a: memref<?x8xf32>, %c: memref<?xf32, strided<[?], offset: ?>>, %n: index, %f: f32, %g: i1) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %bx = gpu.block_id x
    %bd = gpu.block_dim x
    %tx = gpu.thread_id x
    %o = arith.muli %bx, %bd : index
    %i = arith.addi %o, %tx : index
    %inside = arith.cmpi slt, %i, %n : index
    scf.if %inside {
      %x = memref.load %c[%i] : memref<?xf32, strided<[?], offset: ?>>
      %t = math.tanh %x : f32
      %y = arith.mulf %t, %f : f32
      memref.store %y, %c[%i] : memref<?xf32, strided<[?], offset: ?>>
    }
    gpu.return
  }
  gpu.func @idle() kernel { gpu.return }
  gpu.func @helper() { gpu.return }
}
"""
HOST = """
func.func @main(%a: memref<64xf32>) {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  gpu.launch blocks(%bx,%by,%bz) in (%gx=%c1,%gy=%c1,%gz=%c1) threads(%tx,%ty,%tz) in (%lx=%c64,%ly=%c1,%lz=%c1) {
    %v = memref.load %a[%tx] : memref<64xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %a[%tx] : memref<64xf32>
    gpu.terminator
  }
  return
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100"])
def test_gpu_module_to_kernels(arch: str, tmp_path: Path) -> None:
    (tmp_path / "scale.mlir").write_text(SCALE)
    scale, idle = mlir.compile(tmp_path / "scale.mlir", arch)
    assert (scale.name, idle.name) == ("scale", "idle")
    assert f".target {arch}" in scale.ptx
    assert "__nv_tanhf" not in scale.ptx  # libdevice was linked in
    assert scale.launch_bounds == LaunchBounds(256)
    assert [a.type for a in scale.arguments] == [
        ArrayType("float32", 2, "C"), ArrayType("float32", 1, "A"), ScalarType("int64"), ScalarType("float32"),
        ScalarType("bool"),
    ]  # fmt: skip
    said = {str(fact) for fact in scale.facts}
    assert {"arg0.shape[1] == 8", "arg0.shape[0] >= 0", "arg0.strides[1] / itemsize == 1", "%ntid.x == 256"} <= said
    assert "arg1.strides[0] / itemsize == 1" not in said
    cubin = assemble(scale.ptx, arch)
    assert {entry.entry for entry in cubin.entries} == {"scale", "idle"}


def test_parameters_fit_the_entry() -> None:
    from hybridcc.ptx import parse

    (scale, _) = mlir.from_text(SCALE, "sm_80", name="scale.mlir")
    a, c = np.zeros((3, 8), np.float32), np.zeros(10, np.float32)[::-2]
    flat = flatten(scale.arguments, (a, c, np.int64(10), np.float32(2), np.bool_(True)))
    assert flat[0] is a
    assert [int(v) for v in flat[2:7]] == [0, 3, 8, 8, 1]  # type: ignore[call-overload]
    assert np.int64(flat[11]) == -2  # type: ignore[call-overload]
    (entry, _) = parse(scale.ptx).entries
    assert [parameter.type for parameter in entry.parameters] == [f.ptx_type for a in scale.arguments for f in a.fields]


def test_host_code_is_outlined() -> None:
    (kernel,) = mlir.from_text(HOST, "sm_80", name="host.mlir")
    assert assemble(kernel.ptx, "sm_80").resources(kernel.entry).registers > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("module {", "expected operation name"),
        ("module {}", "holds no kernel"),
        ("x", "unknown"),
        ("gpu.module @k { gpu.func @f(%a: index) kernel { %0 = foo.bar : i32\n gpu.return } }", "foo"),
        ("gpu.module @k { gpu.func @f(%a: vector<4xf32>) kernel { gpu.return } }", "vector<4xf32>"),
        ("gpu.module @k { gpu.func @f(%a: f16) kernel { gpu.return } }", "f16"),
    ],
)
def test_refusals(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        mlir.from_text(text, "sm_80", name="bad.mlir")
    assert caught.value.next_step


def test_a_message_names_its_line() -> None:
    with pytest.raises(InputError, match=r"^bad\.mlir:3:\d+: "):
        mlir.from_text("module {\n\n  nonsense\n}", "sm_80", name="bad.mlir")


@pytest.mark.parametrize("arch", ["sm_999", "gfx90a", ""])
def test_unknown_architecture_is_not_taken_for_the_default(arch: str) -> None:
    with pytest.raises(UnknownArchitecture):
        mlir.from_text(SCALE, arch, name="scale.mlir")


def test_llvm_ending_its_process_is_an_error_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def too_low_a_ptx_version(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        code = Path(command[-1]).read_text().replace("+ptx90", "+ptx60")
        return run([sys.executable, "-c", code], **options)

    monkeypatch.setattr(subprocess, "run", too_low_a_ptx_version)
    with pytest.raises(ToolchainError, match=r"MLIR ended .*PTX version 6\.0 does not"):
        mlir.from_text(SCALE, "sm_90", name="scale.mlir")


def test_missing_bindings_are_named_with_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "BINDINGS", ("no_such_bindings",))
    with pytest.raises(MissingExtra) as caught:
        mlir.from_text(SCALE, "sm_80", name="scale.mlir")
    assert caught.value.next_step == "pip install 'hybridcc[mlir]'"


def kernel_function() -> Any:
    from numba_cuda_mlir import cuda

    def scale(x, m, count, factor, flag):
        i = cuda.grid(1)
        if i < count and flag:
            x[i] = m[i, i] * factor

    return scale


SIGNATURE = "void(float32[::1], float32[:,:], int64, float32, boolean)"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_numba_cuda_mlir_kernel(arch: str) -> None:
    kernel = numba_mlir.compile(kernel_function(), SIGNATURE, arch, launch_bounds=128)
    assert kernel.frontend.startswith("numba-cuda-mlir ")
    assert [len(argument.fields) for argument in kernel.arguments] == [5, 7, 1, 1, 1]
    assert f".target {arch}" in kernel.ptx
    assert assemble(kernel.ptx, arch).resources(kernel.entry).registers > 0
    assert "%ntid.x <= 128" in {str(fact) for fact in kernel.facts}


@pytest.mark.parametrize(
    ("signature", "said"),
    [("void(float32[::1])", "takes 5 arguments"), ("void(x)", "not a signature"), ("int32(int32)", "returns nothing"),
     ("void(complex64, int32, int32, int32, int32)", "complex64"),
     ("void(float32, float32, float32, float32, float32)", "does not compile")],
)  # fmt: skip
def test_numba_cuda_mlir_signatures_that_cannot_be(signature: str, said: str) -> None:
    with pytest.raises(SignatureError, match=said):
        numba_mlir.compile(kernel_function(), signature, "sm_80")


def test_numba_cuda_mlir_unknown_architecture() -> None:
    for arch in ("sm_999", "x", "sm_90a"):
        with pytest.raises(UnknownArchitecture):
            numba_mlir.compile(kernel_function(), SIGNATURE, arch)
