"""hybridcc as a pass: MLIR's pass manager and LLVM IR. The MLIR library runs in this process, as a user's does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybridcc
from hybridcc.asking import regions_of
from hybridcc.errors import InputError
from hybridcc.flows import FlowOptions, llvm, mlir
from hybridcc.frontends import llvm as llvm_frontend
from hybridcc.frontends import mlir as frontend
from hybridcc.frontends import numba_mlir
from hybridcc.passes.arguments import flatten
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite import prompt, recording
from hybridcc.passes.rewrite.recording import Recorded
from hybridcc.runtime.assemble import assemble

HERE = Path(__file__).parent / "matmul"
BARE = """
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @twice(%a: memref<8x4xf32>) kernel {
      %x = gpu.thread_id x
      %y = gpu.thread_id y
      %v = memref.load %a[%y, %x] : memref<8x4xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %a[%y, %x] : memref<8x4xf32>
      gpu.return
    }
    gpu.func @none(%a: memref<8x4xf32>) kernel { gpu.return }
  }
}
"""


def bindings() -> tuple[Any, Any, Any]:
    pytest.importorskip("numba_cuda_mlir", reason="the extra mlir is not installed")
    from numba_cuda_mlir._mlir import ir, passmanager  # pyright: ignore[reportMissingImports]
    from numba_cuda_mlir._mlir.dialects import gpu  # pyright: ignore[reportMissingImports]

    return ir, passmanager, gpu


def through(text: str, options: FlowOptions, before: str = "builtin.module(gpu-kernel-outlining)") -> dict[str, Any]:
    """The attributes of the one gpu.binary: chips, cubins, manifest."""
    ir, passmanager, gpu = bindings()
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        manager = passmanager.PassManager.parse(before)
        mlir.add_to(manager, options)
        manager.run(module.operation)
        assert module.operation.verify()
        (binary,) = (o.operation for o in module.body.operations if o.operation.name == "gpu.binary")
        objects = [gpu.ObjectAttr(each) for each in ir.ArrayAttr(binary.attributes["objects"])]
        return {
            "targets": [str(each.target) for each in objects],
            "cubins": [bytes(each.object) for each in objects],
            "manifest": json.loads(ir.StringAttr(binary.attributes[mlir.MANIFEST]).value),
        }


def test_a_gpu_module_becomes_a_binary_of_cubins() -> None:
    found = through((HERE / "matmul.mlir").read_text(), FlowOptions(arch=("sm_80", "sm_90")))
    assert found["targets"] == ['#nvvm.target<chip = "sm_80">', '#nvvm.target<chip = "sm_90">']
    assert all(cubin.startswith(b"\x7fELF") for cubin in found["cubins"])
    assert len(set(found["cubins"])) == 2
    (kernel,) = found["manifest"]["kernels"]
    assert [each["arch"] for each in kernel["architectures"]] == ["sm_80", "sm_90"]


def test_targets_that_the_module_names_are_kept() -> None:
    attach = "builtin.module(nvvm-attach-target{chip=sm_86 O=3})"
    found = through((HERE / "matmul.mlir").read_text(), FlowOptions(), attach)
    assert len(found["targets"]) == 1
    assert 'chip = "sm_86"' in found["targets"][0]
    assert "O = 3" in found["targets"][0]


def test_every_kernel_of_a_module_is_in_its_cubin_under_the_bare_pointer_convention() -> None:
    found = through(BARE, FlowOptions(arch=("sm_90",), bare_pointers=True))
    assert [kernel["kernel"]["name"] for kernel in found["manifest"]["kernels"]] == ["twice", "none"]
    assert b".text.twice" in found["cubins"][0]
    assert b".text.none" in found["cubins"][0]


@pytest.mark.parametrize("bare", [False, True])
def test_both_conventions_compute_the_same(bare: bool) -> None:
    bindings()
    marked = BARE.replace("gpu.container_module", "gpu.container_module, hybridcc.bare_pointers") if bare else BARE
    (twice, _) = frontend.from_text(marked, "sm_90", name="bare.mlir")
    assert [len(argument.fields) for argument in twice.arguments] == [1 if bare else 7]
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    hybridcc.execute(twice.ptx, twice.entry, 1, (4, 8), flatten(twice.arguments, [a]))
    assert a.reshape(-1).tolist() == [2 * i for i in range(32)]


def test_a_dynamic_shape_has_no_bare_pointer() -> None:
    bindings()
    with pytest.raises(InputError):
        frontend.from_text(BARE.replace("8x4", "?x4"), "sm_90", name="bare.mlir", bare=True)


def test_linalg_to_a_binary_and_how_to_launch_it() -> None:
    bindings()
    root = Path(__file__).parents[2]
    command = [sys.executable, "examples/linalg.py", "--arch", "sm_80"]
    environment = {**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, check=True)
    assert "of cubin for sm_80, baseline of matmul_kernel" in done.stdout
    assert "launch: grid (8, 8, 1), block (8, 8, 1), 9 arguments" in done.stdout


def test_what_numba_cuda_mlir_hands_over() -> None:
    bindings()
    from numba_cuda_mlir import cuda, types  # pyright: ignore[reportAttributeAccessIssue]

    def scale(x, n):
        i = cuda.grid(1)
        if i < n:
            x[i] *= 2

    with numba_mlir._preset((9, 0)):
        text = cuda.compile_mlir(scale, types.void(types.float32[::1], types.int64), optimized=False, chip="sm_90")
    found = through(text, FlowOptions(arch=("sm_80",)))
    assert found["cubins"][0].startswith(b"\x7fELF")


def test_a_failure_is_a_diagnostic_and_leaves_the_module() -> None:
    text = (
        "module attributes {gpu.container_module} {\n gpu.module @k { gpu.func @f(%a: f16) kernel { gpu.return } }\n}"
    )
    with pytest.raises(Exception, match=r":2:\d+: hybridcc \[BAD_INPUT\]: arg0 is of type f16"):
        through(text, FlowOptions(arch=("sm_90",)))


def test_llvm_ir_to_cubins() -> None:
    found = llvm.run((HERE / "matmul.ll").read_text(), FlowOptions(arch=("sm_80",)))
    assert set(found.cubins) == {"sm_80"}
    assert ".target sm_80" in found.ptx["sm_80"]
    assert found.manifest["kernels"][0]["kernel"]["name"] == "matmul"
    with pytest.raises(InputError, match=r"^mine\.ll:1:\d+: "):
        llvm.run("nonsense", name="mine.ll")


def loads_first(region: Region) -> str:
    """The region with the loads of each turn before its arithmetic: another order, the same values."""
    lines = region.text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip() == "$L0:") + 1
    last = max(number for number, line in enumerate(lines) if " fma." in line) + 1
    body = lines[first:last]
    early = [line for line in body if " fma." not in line]
    return "\n".join([*lines[:first], *early, *(line for line in body if " fma." in line), *lines[last:]])


def example() -> object:
    a, b, c = np.ones(19 * 19, np.float32), np.ones(19 * 19, np.float32), np.zeros(19 * 19, np.float32)
    return (2, 3), (16, 8), (a, b, c, np.int64(19))


def test_a_proved_rewrite_is_what_the_flow_hands_on(tmp_path: Path) -> None:
    text = (HERE / "matmul.ll").read_text()
    (kernel,) = llvm_frontend.from_module(text, "sm_80", name="matmul.ll")
    region = regions_of(kernel)[0]
    answer = f"```ptx\n{loads_first(region)}\n```\n"
    asked = prompt.build(region, kernel)
    recording.write(
        tmp_path / "r.jsonl", [Recorded(asked.hash, asked.template_version, "by hand", "2026-12-01", answer)]
    )
    options = FlowOptions(
        arch=("sm_80",),
        rewriter=f"replay:{tmp_path / 'r.jsonl'}",
        select="proved",
        answers=1,
        examples={"matmul": example},
    )
    found = llvm.run(text, options)
    (architecture,) = found.manifest["kernels"][0]["architectures"]
    verdict = architecture["candidates"][0]["verdict"]
    assert verdict["kind"] == "proved", verdict
    assert architecture["selection"]["variant"] == "r0-0"
    assert found.ptx["sm_80"] != kernel.ptx
    assert found.cubins["sm_80"] != assemble(kernel.ptx, "sm_80").bytes
