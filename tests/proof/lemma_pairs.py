"""Pairs of bodies that the rules of lemmas.py prove equal: with payloads of NaNs aside, and to the bit.

They stand in ``test_small.kernel``: %f0 and %f1 are loaded from words that differ from thread to thread.
"""

from __future__ import annotations

LOAD = "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5];"
WIDE = LOAD + "cvt.f64.f32 %d0, %f0; cvt.f64.f32 %d1, %f1;"
STORE = "cvt.rn.f32.f64 %f2, %d2; st.global.f32 [%a5], %f2;"

ASIDE = {
    **{
        f"{op} in f64 of f32 numbers": (
            f"{WIDE} {op}{rn}.f64 %d2, %d0, %d1; {STORE}",
            f"{LOAD} {op}.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
        )
        for op, rn in (("add", ""), ("sub", ".rn"), ("mul", ""), ("div", ".rn"))
    },
    "a square root in f64": (
        f"{WIDE} sqrt.rn.f64 %d2, %d0; {STORE}",
        "ld.global.f32 %f0, [%a4]; sqrt.rn.f32 %f2, %f0; st.global.f32 [%a5], %f2;",
    ),
    "a literal that is an f32 number": (
        f"{WIDE} mul.f64 %d2, %d0, 0d3FD8000000000000; {STORE}",
        "ld.global.f32 %f0, [%a4]; mul.f32 %f2, %f0, 0f3EC00000; st.global.f32 [%a5], %f2;",
    ),
    "a round trip into arithmetic": (
        f"{WIDE} cvt.rn.f32.f64 %f3, %d0; add.f32 %f2, %f3, %f1; st.global.f32 [%a5], %f2;",
        f"{LOAD} add.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "a round trip into memory": (
        f"{WIDE} cvt.rn.f32.f64 %f3, %d0; st.global.f32 [%a5], %f3;",
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0;",
    ),
    "two demotions in a row": (
        f"{WIDE} mul.f64 %d2, %d0, %d1; cvt.rn.f32.f64 %f2, %d2; cvt.f64.f32 %d3, %f2; add.f64 %d4, %d3, %d1;"
        "cvt.rn.f32.f64 %f4, %d4; st.global.f32 [%a5], %f4;",
        f"{LOAD} mul.rn.f32 %f2, %f0, %f1; add.rn.f32 %f4, %f2, %f1; st.global.f32 [%a5], %f4;",
    ),
}
EVERY_BIT = {
    "an integer through f64": (
        "cvt.rn.f64.s32 %d0, %r0; cvt.rzi.s32.f64 %r4, %d0; st.global.u32 [%a5], %r4;",
        "st.global.u32 [%a5], %r0;",
    ),
    "an integer through f64 to f32": (
        "cvt.rn.f64.u32 %d0, %r0; cvt.rn.f32.f64 %f0, %d0; st.global.f32 [%a5], %f0;",
        "cvt.rn.f32.u32 %f0, %r0; st.global.f32 [%a5], %f0;",
    ),
    "a comparison of f32 numbers in f64": (
        f"{WIDE} setp.gt.f64 %p0, %d0, 0d3FE0000000000000; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;",
        f"{LOAD} setp.gt.f32 %p0, %f0, 0f3F000000; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;",
    ),
    "twice": (
        "ld.global.f32 %f0, [%a4]; mul.rn.f32 %f1, %f0, 0f40000000; st.global.f32 [%a5], %f1;",
        "ld.global.f32 %f0, [%a4]; add.f32 %f1, %f0, %f0; st.global.f32 [%a5], %f1;",
    ),
    "division by a power of two": (
        "ld.global.f32 %f0, [%a4]; div.rn.f32 %f1, %f0, 0fC1000000; st.global.f32 [%a5], %f1;",
        "ld.global.f32 %f0, [%a4]; mul.f32 %f1, %f0, 0fBE000000; st.global.f32 [%a5], %f1;",
    ),
    "a product that says its rounding": (
        f"{LOAD} mul.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
}
