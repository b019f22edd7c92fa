"""Which kernels hold a pair that ptxas may fuse."""

from __future__ import annotations

import pytest
from rewrites import base
from test_small import kernel

from hybridcc.passes.verify.proof.contraction import contractible_pairs
from hybridcc.passes.verify.proof.reading import read_program
from hybridcc.ptx import parse


def pairs(text: str) -> int:
    return len(contractible_pairs(read_program(parse(text))))


@pytest.mark.parametrize(
    ("name", "holds"),
    [("conv1d", False), ("colsum", False), ("nbody", False), ("stencil", False), ("mandelbrot", True)],
)
def test_real_kernels(name: str, holds: bool) -> None:
    assert bool(pairs(base(name))) == holds


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ("mul.f32 %f0, %f1, %f2; add.f32 %f3, %f0, %f1;", True),
        ("mul.f32 %f0, %f1, %f2; sub.f32 %f3, %f1, %f0;", True),
        ("mul.rn.f32 %f0, %f1, %f2; add.f32 %f3, %f0, %f1;", False),
        ("mul.f32 %f0, %f1, %f2; add.rn.f32 %f3, %f0, %f1;", False),
        ("add.f32 %f3, %f0, %f1; mul.f32 %f0, %f1, %f2;", False),
        ("$L: add.f32 %f3, %f0, %f1; mul.f32 %f0, %f1, %f2; @%p0 bra $L;", True),
        ("mul.f32 %f0, %f1, %f2; neg.f32 %f4, %f0; add.f32 %f3, %f4, %f1;", True),
        ("mul.f32 %f0, %f1, %f2; mov.b32 %r4, %f0; mov.b32 %f5, %r4; add.f32 %f3, %f5, %f1;", True),
        ("mul.f32 %f0, %f1, %f2; selp.f32 %f4, %f0, %f1, %p0; add.f32 %f3, %f4, %f1;", True),
        ("mul.f32 %f0, %f1, %f2; st.global.f32 [%a4], %f0; ld.global.f32 %f4, [%a4]; add.f32 %f3, %f4, %f1;", True),
        ("ld.global.f32 %f4, [%a4]; add.f32 %f3, %f4, %f1; mul.f32 %f0, %f3, %f2; st.global.f32 [%a4], %f0;", False),
        ("mul.f32 %f0, %f1, %f2; fma.rn.f32 %f3, %f0, %f1, %f2;", False),
        ("mul.lo.s32 %r4, %r1, %r2; add.s32 %r5, %r4, %r1;", False),
        ("mul.f64 %d0, %d1, %d2; add.f64 %d3, %d0, %d1;", True),
        ("mul.f32 %f0, %f1, %f2; cvt.f64.f32 %d0, %f0; add.f64 %d3, %d0, %d1;", False),
    ],
)
def test_pairs(body: str, holds: bool) -> None:
    assert bool(pairs(kernel(body))) == holds
