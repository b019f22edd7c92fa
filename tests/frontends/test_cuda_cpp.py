"""CUDA C++ to kernels: what the source promises, templates, includes, and NVRTC's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc.errors import InputError, UnknownArchitecture
from hybridcc.frontends import cuda_cpp
from hybridcc.passes.kernel import ArrayType, LaunchBounds, ScalarType
from hybridcc.runtime.assemble import assemble

SOURCE = """
#include "factor.cuh"
/* __global__ void plain(int *decoy) {} */
template <class T> __global__ void scale(T *x, T by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by + FACTOR;
}
__global__ void __launch_bounds__(128, 4) plain(const double *__restrict__ x, const double *__restrict__ y,
                                                double *z, unsigned long long n) {
    if (threadIdx.x < n) z[threadIdx.x] = sin(x[threadIdx.x]) + y[threadIdx.x];
}
__global__ void odd(float (*x)[4]) { x[0][0] = 1; }
"""


def test_kernels_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "factor.cuh").write_text("#define FACTOR 2\n")
    (tmp_path / "k.cu").write_text(SOURCE)
    kernels = {
        kernel.name: kernel
        for kernel in cuda_cpp.compile(
            tmp_path / "k.cu", "sm_90", include=[tmp_path / "include"], instantiate=["scale<float>", "scale<int>"]
        )
    }
    assert set(kernels) == {"plain", "odd", "scale<float>", "scale<int>"}
    plain = kernels["plain"]
    assert plain.launch_bounds == LaunchBounds(128, 4)
    assert [a.type for a in plain.arguments] == [
        ArrayType("float64", 1, readonly=True), ArrayType("float64", 1, readonly=True), ArrayType("float64", 1),
        ScalarType("uint64"),
    ]  # fmt: skip
    assert {str(fact) for fact in plain.facts} == {
        *(f"%ntid.{axis} <= 128" for axis in "xyz"),
        "x not written by this launch", "y not written by this launch", "x disjoint from z", "y disjoint from z",
    }  # fmt: skip
    assert kernels["odd"].arguments == ()  # spelled in a way that is not read
    assert kernels["odd"].facts == ()
    assert kernels["scale<int>"].facts == ()  # no restrict, no promise
    cubin = assemble(plain.ptx, "sm_90")
    assert {kernel.entry for kernel in kernels.values()} == {entry.entry for entry in cubin.entries}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("float *a, float *b", set()),
        ("float *__restrict__ a, float *b", {"a disjoint from b"}),
        ("const float *a, float *b", set()),
        ("const float *__restrict__ a, const float *__restrict__ b",
         {"a not written by this launch", "b not written by this launch"}),
        ("float const * const __restrict__ a, float *b", {"a not written by this launch", "a disjoint from b"}),
        ("float *const a, float *b", set()),
        ("RESTRICTED a, float *__restrict__ b", set()),
    ],
)  # fmt: skip
def test_only_what_is_spelled_is_promised(parameters: str, said: set[str]) -> None:
    text = f"#define RESTRICTED float *__restrict__\n__global__ void k({parameters}) {{ }}"
    (kernel,) = cuda_cpp.from_text(text, "sm_80", name="k.cu")
    assert {str(fact) for fact in kernel.facts} == said


def test_a_name_that_two_kernels_share_promises_nothing() -> None:
    text = "__global__ void k(float *__restrict__ a, float *b) {}\n__global__ void k(double *a, float *b) {}"
    for kernel in cuda_cpp.from_text(text, "sm_80", name="k.cu"):
        assert kernel.facts == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__global__ void k(int *x) {\n  x[0] = nope;\n}", r'^k\.cu:2: identifier "nope" is undefined\n'),
        ('#include "no_such.h"\n', r"^k\.cu:1: .*no_such\.h"),
        ("__device__ int x;", "holds no kernel"),
        ("template <class T> __global__ void k(T *x) {}", "--instantiate"),
    ],
)
def test_refusals_in_nvrtcs_own_words(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cuda_cpp.from_text(text, "sm_80", name="k.cu")


def test_a_name_expression_that_names_nothing() -> None:
    with pytest.raises(InputError, match="nothing"):
        cuda_cpp.from_text("__global__ void k() {}", "sm_80", name="k.cu", instantiate=["nothing<int>"])


@pytest.mark.parametrize("arch", ["sm_999", "gfx90a", "sm_70"])
def test_unknown_architecture(arch: str) -> None:
    with pytest.raises(UnknownArchitecture):
        cuda_cpp.from_text("__global__ void k() {}", arch, name="k.cu")
