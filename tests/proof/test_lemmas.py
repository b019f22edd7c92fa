"""Identities of floating point: each rule against exact arithmetic and the executor, what they prove, and traps."""

from __future__ import annotations

import json
import re
import struct
from types import ModuleType

import pytest
import rewrites
import rewrites_mlir
from lemma_pairs import ASIDE, EVERY_BIT, LOAD, STORE, WIDE
from test_small import kernel, verdict

from hybridcc.passes.verdict import NAN_PAYLOADS, Proved, Unknown
from hybridcc.passes.verify import proving
from hybridcc.passes.verify.proof import payloads
from hybridcc.passes.verify.proof.reading import read_program
from hybridcc.ptx import parse
from hybridcc.report.words import verdict_text
from hybridcc.selection import accepted


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


# --- kernels that Numba compiled ------------------------------------------------------------------------


def in_f64(text: str) -> str:
    """A kernel with each ``add.f32`` and ``mul.f32`` done in f64 and rounded back, as a literal of Python makes it."""
    changed, count = re.subn(
        r"(add|mul)\.f32 \t(%f\d+), (%f\d+), (\S+);",
        lambda m: f"cvt.f64.f32 %w0, {m[3]}; {_second(m[4])} {m[1]}.f64 %w0, %w0, %w1; cvt.rn.f32.f64 {m[2]}, %w0;",
        text,
    )
    assert count
    return changed.replace("\t.reg .pred", ".reg .f64 %w<2>;\n\t.reg .pred", 1)


def _second(operand: str) -> str:
    if not operand.startswith("0f"):
        return f"cvt.f64.f32 %w1, {operand};"
    (number,) = struct.unpack(">f", bytes.fromhex(operand[2:]))
    return f"mov.f64 %w1, 0d{struct.pack('>d', number).hex()};"


@pytest.mark.parametrize("kernels", [rewrites, rewrites_mlir], ids=["numba-cuda", "numba-cuda-mlir"])
def test_a_stencil_with_a_literal_of_f64(kernels: ModuleType) -> None:
    base, facts = in_f64(kernels.base("stencil")), kernels.FACTS["stencil"]
    for new in (kernels.base("stencil"), kernels.candidate("stencil")):
        found = proving.run(proving.Task(base, new, "stencil", facts, (1,)))
        assert isinstance(found, Proved), found
        assert found.aside == (NAN_PAYLOADS,)
    again = proving.recheck(found.certificate, base, new, "stencil", facts)
    assert isinstance(again, Proved)
    assert again.aside == (NAN_PAYLOADS,)
    wrong = new.replace("0f3E800000", "0f3E800001")
    assert wrong != new
    assert not isinstance(proving.run(proving.Task(base, wrong, "stencil", facts, (1,))), Proved)


@pytest.mark.slow
def test_a_sum_in_f64_in_every_trip_of_a_loop() -> None:
    base, new = in_f64(rewrites.base("colsum")), rewrites.candidate("colsum", 1)
    found = proving.run(proving.Task(base, new, "colsum", rewrites.FACTS["colsum"], (1,)))
    assert isinstance(found, Proved), found
    assert found.aside == (NAN_PAYLOADS,)


def test_a_certificate_cannot_claim_the_stronger_sense() -> None:
    base, candidate = (kernel(body) for body in ASIDE["a literal that is an f32 number"])
    found = proving.run(proving.Task(base, candidate, "k", (), (1,)))
    assert isinstance(found, Proved)
    document = json.loads(found.certificate)
    assert document["certificate"].pop("ideal")
    assert isinstance(proving.recheck(json.dumps(document), base, candidate, "k"), Unknown)


def test_the_default_policy_takes_payloads_aside_and_no_more() -> None:
    assert accepted(Proved("", (NAN_PAYLOADS,)), "proved")
    assert not accepted(Proved("", (NAN_PAYLOADS, "contraction")), "proved")
    assert verdict_text(Proved("", (NAN_PAYLOADS,))) == "proved, NaN payloads aside"
