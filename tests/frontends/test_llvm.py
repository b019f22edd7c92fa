"""LLVM IR to kernels: text and bitcode, libdevice, what attributes promise, and where LLVM gives up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hybridcc.errors import InputError, ToolchainError, UnknownArchitecture
from hybridcc.frontends import llvm
from hybridcc.passes.kernel import ArrayType, LaunchBounds, ScalarType
from hybridcc.runtime.assemble import assemble

MODULE = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare float @__nv_tanhf(float)
define ptx_kernel void @k(ptr addrspace(1) noalias readonly align 16 %a, ptr addrspace(1) %b,
                          i64 range(i64 1, 4096) %n, double %f) "nvvm.maxntid"="64" {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %w = zext i32 %t to i64
  %pa = getelementptr inbounds float, ptr addrspace(1) %a, i64 %w
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %n
  %x = load float, ptr addrspace(1) %pa, align 4
  %y = call float @__nv_tanhf(float %x)
  store float %y, ptr addrspace(1) %pb, align 4
  ret void
}
"""
OLD = """
target triple = "nvptx64-nvidia-cuda"
define void @old(float* %a) {
  store float 1.0, float* %a
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{void (float*)* @old, !"kernel", i32 1}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_100"])
def test_text_to_kernel(arch: str, tmp_path: Path) -> None:
    (tmp_path / "k.ll").write_text(MODULE)
    (kernel,) = llvm.compile(tmp_path / "k.ll", arch)
    assert (kernel.name, kernel.launch_bounds) == ("k", LaunchBounds(64))
    assert f".target {arch}" in kernel.ptx
    assert "__nv_" not in kernel.ptx  # libdevice was linked in
    assert [a.type for a in kernel.arguments] == [
        ArrayType("float32", 1, readonly=True), ArrayType("float32", 1), ScalarType("int64"), ScalarType("float64"),
    ]  # fmt: skip
    said = {str(fact) for fact in kernel.facts if not str(fact).startswith("%ntid")}
    assert said == {"a multiple of 16", "a not written by this launch", "a disjoint from b", "n >= 1", "n < 4096"}
    assert assemble(kernel.ptx, arch).resources("k").registers > 0


def test_bitcode_says_what_its_text_says(tmp_path: Path) -> None:
    import llvmlite.binding as binding

    (tmp_path / "k.ll").write_text(MODULE)
    (tmp_path / "k.bc").write_bytes(binding.parse_assembly(MODULE).as_bitcode())
    (text,), (bitcode,) = (llvm.compile(tmp_path / f"k.{suffix}", "sm_80") for suffix in ("ll", "bc"))
    assert (text.ptx, text.facts, text.arguments) == (bitcode.ptx, bitcode.facts, bitcode.arguments)


def test_typed_pointers_and_annotations_of_older_producers() -> None:
    (kernel,) = llvm.from_module(OLD, "sm_90", name="old.ll")
    assert kernel.entry == "old"


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("readonly", set()),  # another pointer may write there
        ("noalias", {"a disjoint from b"}),
        ("align 8", {"a multiple of 8"}),
        ("dereferenceable(64) nonnull", set()),
    ],
)
def test_only_what_is_promised(attributes: str, said: set[str]) -> None:
    text = f"define ptx_kernel void @k(ptr {attributes} %a, ptr %b, i32 range(i32 8, 2) %wraps) {{ ret void }}"
    (kernel,) = llvm.from_module(text, "sm_80", name="k.ll")
    assert {str(fact) for fact in kernel.facts} == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("define ptx_kernel void @f() {\n  %x = add i32 1, %nope\n  ret void\n}",
         r"^k\.ll:2:\d+: use of undefined value '%nope'"),
        ("define ptx_kernel void @f() {\n br label %n\nn:\n %p = phi i32 [0, %n]\n ret void\n}", "PHI node"),
        ('target triple = "x86_64-pc-linux-gnu"\ndefine void @f() { ret void }', "x86_64"),
        ("define void @f() { ret void }", "holds no kernel"),
    ],
)  # fmt: skip
def test_refusals_in_llvms_own_words(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        llvm.from_module(text, "sm_80", name="k.ll")


def test_broken_bitcode(tmp_path: Path) -> None:
    (tmp_path / "k.bc").write_bytes(b"BC\xc0\xde garbage")
    with pytest.raises(InputError, match=r"k\.bc"):
        llvm.compile(tmp_path / "k.bc", "sm_80")


@pytest.mark.parametrize("arch", ["sm_999", "gfx90a", ""])
def test_unknown_architecture_is_not_taken_for_the_default(arch: str) -> None:
    with pytest.raises(UnknownArchitecture):
        llvm.from_module(MODULE, arch, name="k.ll")


def test_llvm_ending_its_process_is_an_error_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def too_low_a_ptx_version(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        code = Path(command[-1]).read_text().replace("+ptx90", "+ptx60")
        return run([sys.executable, "-c", code], **options)

    monkeypatch.setattr(subprocess, "run", too_low_a_ptx_version)
    with pytest.raises(ToolchainError, match=r"LLVM ended .*PTX version 6\.0 does not"):
        llvm.from_module(MODULE, "sm_90", name="k.ll")
