"""Identities of floating point: each rule against exact arithmetic and the executor, what they prove, and traps."""

from __future__ import annotations

import pytest
from test_small import kernel, verdict

from hybridcc.passes.verdict import NAN_PAYLOADS, Proved
from hybridcc.passes.verify.proof import payloads
from hybridcc.passes.verify.proof.reading import read_program
from hybridcc.ptx import parse

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


@pytest.mark.parametrize("name", ASIDE)
def test_proved_with_payloads_aside(name: str) -> None:
    found = verdict(*ASIDE[name])
    assert isinstance(found, Proved), found
    assert found.aside == (NAN_PAYLOADS,)


@pytest.mark.parametrize("name", EVERY_BIT)
def test_proved_to_the_bit(name: str) -> None:
    found = verdict(*EVERY_BIT[name])
    assert isinstance(found, Proved), found
    assert found.aside == ()


NARROW = f"{WIDE} mul.f64 %d2, %d0, %d1; cvt.rn.f32.f64 %f2, %d2;"
PRODUCT = f"{LOAD} mul.rn.f32 %f2, %f0, %f1;"
SEEN = {
    "as an integer": "mov.b32 %r4, %f2; shr.u32 %r4, %r4, 1; st.global.u32 [%a5], %r4;",
    "as an index": "mov.b32 %r4, %f2; mul.wide.u32 %a6, %r4, 4; add.s64 %a6, %a0, %a6; st.global.u32 [%a6], %r1;",
    "by a branch": "mov.b32 %r4, %f2; setp.eq.s32 %p0, %r4, -1; @%p0 bra $X; st.global.u32 [%a5], %r1; $X:",
    "by its sign": "copysign.f32 %f3, %f2, %f0; st.global.f32 [%a5], %f3;",
    "in part": "mov.b32 {%h0, %h1}, %f2; st.global.u16 [%a5], %h0;",
    "in a pair": "mov.b64 %a6, {%f2, %f0}; st.global.u64 [%a5], %a6;",
    "after a store, in part": "st.global.f32 [%a5], %f2; ld.global.u16 %h0, [%a5]; st.global.u16 [%a5], %h0;",
    "after a store, as an integer": "st.global.f32 [%a5], %f2; ld.global.u32 %r4, [%a4]; mul.lo.s32 %r4, %r4, 3;"
    "st.global.u32 [%a5+4], %r4;",
    "after a store, two words at once": "st.global.f32 [%a5], %f2; ld.global.u64 %a6, [%a0]; st.global.u64 [%a1], %a6;",
    "by an atomic": "st.global.f32 [%a5], %f2; atom.global.cas.b32 %r4, [%a5], 2147483647, 0;"
    "st.global.u32 [%a5+4], %r4;",
    "by another thread": "mov.u32 %r5, tile; st.shared.f32 [%r5], %f2; bar.sync 0; ld.shared.u32 %r4, [tile];"
    "and.b32 %r4, %r4, 7; st.global.u32 [%a5], %r4;",
    "by another thread, before": "ld.shared.u32 %r4, [tile]; and.b32 %r4, %r4, 7; bar.sync 0;"
    "st.global.f32 [%a5], %f2; st.global.u32 [%a5+4], %r4;",
    "when written over in part": "mov.b16 %h0, 1; st.global.f32 [%a5], %f2; st.global.u8 [%a5], %h0;"
    "ld.global.f32 %f3, [%a5]; add.f32 %f3, %f3, %f3; st.global.f32 [%a5], %f3;",
    "by a shuffle": "mov.b32 %r4, %f2; shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; st.global.u32 [%a5], %r5;",
    "by a volatile store": "st.volatile.global.f32 [%a5], %f2;",
    "by a sum in another loop trip": "mov.u32 %r4, 0; mov.u32 %r5, 0; $L: add.s32 %r5, %r5, %r4; mov.b32 %r4, %f2;"
    "add.s32 %r0, %r0, -1; setp.gt.s32 %p0, %r0, 0; @%p0 bra $L; st.global.u32 [%a5], %r5;",
}
TRAPS = {
    **{f"a payload seen {how}": (NARROW + rest, PRODUCT + rest) for how, rest in SEEN.items()},
    "fma": (
        f"{WIDE} fma.rn.f64 %d2, %d0, %d1, %d0; {STORE}",
        f"{LOAD} fma.rn.f32 %f2, %f0, %f1, %f0; st.global.f32 [%a5], %f2;",
    ),
    "two operations before one rounding": (
        f"{WIDE} mul.rn.f64 %d2, %d0, %d1; add.rn.f64 %d2, %d2, %d1; {STORE}",
        f"{LOAD} mul.rn.f32 %f2, %f0, %f1; add.rn.f32 %f2, %f2, %f1; st.global.f32 [%a5], %f2;",
    ),
    "a literal that is no f32 number": (
        f"{WIDE} mul.f64 %d2, %d0, 0d3FB999999999999A; {STORE}",
        f"{LOAD} mul.f32 %f2, %f0, 0f3DCCCCCD; st.global.f32 [%a5], %f2;",
    ),
    "a literal too large": (
        f"{WIDE} mul.f64 %d2, %d0, 0d47F0000000000000; {STORE}",
        f"{LOAD} mul.f32 %f2, %f0, 0f7F800000; st.global.f32 [%a5], %f2;",
    ),
    "a literal that is not a number": (
        f"{WIDE} mul.f64 %d2, %d0, 0d7FF8000000000000; {STORE}",
        f"{LOAD} mul.f32 %f2, %f0, 0f7FC00000; st.global.f32 [%a5], %f2;",
    ),
    "a widening that flushes": (
        f"{LOAD} cvt.ftz.f64.f32 %d0, %f0; cvt.f64.f32 %d1, %f1; mul.f64 %d2, %d0, %d1; {STORE}",
        f"{LOAD} mul.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "a narrowing that flushes": (
        f"{WIDE} mul.f64 %d2, %d0, %d1; cvt.rn.ftz.f32.f64 %f2, %d2; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.ftz.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "an operation that flushes": (
        NARROW + "st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.ftz.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "another rounding when narrowed": (
        f"{WIDE} mul.f64 %d2, %d0, %d1; cvt.rz.f32.f64 %f2, %d2; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "another rounding of the operation": (
        f"{WIDE} mul.rz.f64 %d2, %d0, %d1; {STORE}",
        f"{LOAD} mul.rz.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "saturation": (
        f"{WIDE} mul.f64 %d2, %d0, %d1; cvt.rn.sat.f32.f64 %f2, %d2; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "an approximate division": (
        f"{WIDE} div.rn.f64 %d2, %d0, %d1; {STORE}",
        f"{LOAD} div.full.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "an operand that is no f32": (
        f"{LOAD} cvt.f64.f32 %d0, %f0; ld.global.f64 %d1, [%a0]; mul.f64 %d2, %d0, %d1; {STORE}",
        f"{LOAD} ld.global.f64 %d1, [%a0]; cvt.rn.f32.f64 %f1, %d1; mul.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "a number that passes for its round trip": (
        "ld.global.f64 %d0, [%a0]; cvt.rn.f32.f64 %f0, %d0; cvt.f64.f32 %d1, %f0; st.global.f64 [%a1], %d1;",
        "ld.global.f64 %d0, [%a0]; st.global.f64 [%a1], %d0;",
    ),
    "an integer through f32": (
        "cvt.rn.f32.s32 %f0, %r0; cvt.rzi.s32.f32 %r4, %f0; st.global.u32 [%a5], %r4;",
        "st.global.u32 [%a5], %r0;",
    ),
    "an unsigned integer as a signed one": (
        "cvt.rn.f64.u32 %d0, %r0; cvt.rzi.s32.f64 %r4, %d0; st.global.u32 [%a5], %r4;",
        "st.global.u32 [%a5], %r0;",
    ),
    "a comparison with what is no f32": (
        f"{WIDE} setp.gt.f64 %p0, %d0, 0d3FB999999999999A; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;",
        f"{LOAD} setp.gt.f32 %p0, %f0, 0f3DCCCCCD; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;",
    ),
    "twice and half of that": (
        f"{LOAD} mul.rn.f32 %f2, %f0, 0f40000000; mul.rn.f32 %f2, %f2, 0f3F000000; st.global.f32 [%a5], %f2;",
        f"{LOAD} st.global.f32 [%a5], %f0;",
    ),
    "a doubled factor of fma": (
        f"{LOAD} fma.rn.f32 %f2, %f0, 0f40000000, %f1; st.global.f32 [%a5], %f2;",
        f"{LOAD} add.rn.f32 %f2, %f0, %f0; add.rn.f32 %f2, %f2, %f1; st.global.f32 [%a5], %f2;",
    ),
    "a divisor that is no power of two": (
        f"{LOAD} div.rn.f32 %f2, %f0, 0f40400000; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.f32 %f2, %f0, 0f3EAAAAAB; st.global.f32 [%a5], %f2;",
    ),
    "a power of two whose inverse is too large": (
        f"{LOAD} div.rn.f32 %f2, %f0, 0f00000001; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.f32 %f2, %f0, 0f7F800000; st.global.f32 [%a5], %f2;",
    ),
    "a flushed division": (
        f"{LOAD} div.rn.ftz.f32 %f2, %f0, 0f7F000000; st.global.f32 [%a5], %f2;",
        f"{LOAD} mul.rn.ftz.f32 %f2, %f0, 0f00400000; st.global.f32 [%a5], %f2;",
    ),
    "what satfinite does": (
        f"{LOAD} cvt.rn.satfinite.tf32.f32 %r4, %f0; st.global.b32 [%a5], %r4;",
        f"{LOAD} cvt.rn.tf32.f32 %r4, %f0; st.global.b32 [%a5], %r4;",
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_only_the_payloads_stand_in_the_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of those traps would be proved, were it not for payloads.check."""
    base, candidate = (".reg .b16 %h<4>;" + side + SEEN[name] for side in (NARROW, PRODUCT))
    program = read_program(parse(kernel(base)))
    with pytest.raises(payloads.PayloadSeen):
        payloads.check(program)
    monkeypatch.setattr(payloads, "check", lambda program: None)
    assert isinstance(verdict(base, candidate), Proved)


@pytest.mark.parametrize("name", TRAPS)
def test_traps_are_not_proved(name: str) -> None:
    base, candidate = (".reg .b16 %h<4>;" + body for body in TRAPS[name])
    assert not isinstance(verdict(base, candidate), Proved)
    for side in (base, candidate):
        itself = verdict(side, side)
        assert isinstance(itself, Proved), itself
        assert itself.aside == ()
