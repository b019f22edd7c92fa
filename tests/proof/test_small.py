"""Small kernels, one idea each: what must be proved, and traps that must not be."""

from __future__ import annotations

import pytest

from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.verdict import Proved, Unknown, Verdict
from hybridcc.passes.verify import proving

HEAD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2, .param .u32 k_3)
{
.reg .pred %p<8>;
.reg .b32 %r<20>;
.reg .f32 %f<20>;
.reg .f64 %d<9>;
.reg .b64 %a<20>;
.shared .align 4 .b8 tile[1024];
ld.param.u64 %a0, [k_0];
ld.param.u64 %a1, [k_1];
ld.param.u64 %a2, [k_2];
ld.param.u32 %r0, [k_3];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %ctaid.x;
mul.wide.u32 %a3, %r1, 4;
add.s64 %a4, %a0, %a3;
add.s64 %a5, %a1, %a3;
"""
EXTENT = tuple(Fact(Parameter(2, "n"), r, v, Origin.FRONTEND) for r, v in ((Relation.GE, 0), (Relation.LT, 1 << 62)))


def kernel(body: str) -> str:
    return f"{HEAD}{body}\nret;\n}}\n"


def verdict(base: str, candidate: str, facts: tuple[Fact, ...] = ()) -> Verdict:
    return proving.run(proving.Task(kernel(base), kernel(candidate), "k", facts, (1,)))


EQUAL = {
    "a wraparound that a thread index never needs": (
        "cvt.s64.s32 %a6, %r1; shr.s64 %a7, %a6, 63; and.b64 %a7, %a7, %a2; add.s64 %a6, %a6, %a7;"
        "shl.b64 %a6, %a6, 2; add.s64 %a6, %a0, %a6; ld.global.f32 %f0, [%a6]; st.global.f32 [%a5], %f0;",
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0;",
    ),
    "a guarded instruction for a selection": (
        "setp.lt.s32 %p0, %r1, %r0; selp.b32 %r4, %r1, %r0, %p0; st.global.u32 [%a5], %r4;",
        "setp.ge.s32 %p0, %r1, %r0; mov.u32 %r4, %r1; @%p0 mov.u32 %r4, %r0; st.global.u32 [%a5], %r4;",
    ),
    "a branch for a selection": (
        "setp.lt.s32 %p0, %r1, %r0; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;",
        "mov.u32 %r4, 2; setp.ge.s32 %p0, %r1, %r0; @%p0 bra $X; mov.u32 %r4, 1; $X: st.global.u32 [%a5], %r4;",
    ),
    "a vector load where the alignment was tested": (
        "ld.global.f32 %f0, [%a0]; ld.global.f32 %f1, [%a0+4]; add.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
        "and.b64 %a6, %a0, 7; setp.ne.s64 %p0, %a6, 0; @%p0 bra $S; ld.global.v2.f32 {%f0, %f1}, [%a0]; bra $J;"
        "$S: ld.global.f32 %f0, [%a0]; ld.global.f32 %f1, [%a0+4]; $J: add.rn.f32 %f2, %f0, %f1;"
        "st.global.f32 [%a5], %f2;",
    ),
    "factors exchanged where nothing can be contracted": (
        "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5]; fma.rn.f32 %f2, %f0, %f1, %f0; st.global.f32 [%a5], %f2;",
        "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5]; fma.rn.f32 %f2, %f1, %f0, %f0; st.global.f32 [%a5], %f2;",
    ),
    "a value kept in a register after its store": (
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0; ld.global.f32 %f1, [%a5]; st.global.f32 [%a5+8], %f1;",
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0; st.global.f32 [%a5+8], %f0;",
    ),
    "a load moved over a store to other bytes": (
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0; ld.global.f32 %f1, [%a5+4]; st.global.f32 [%a5+8], %f1;",
        "ld.global.f32 %f1, [%a5+4]; ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0; st.global.f32 [%a5+8], %f1;",
    ),
    "shared memory, a barrier kept": (
        "mov.u32 %r4, tile; shl.b32 %r5, %r1, 2; add.s32 %r6, %r4, %r5; ld.global.f32 %f0, [%a4];"
        "st.shared.f32 [%r6], %f0; bar.sync 0; ld.shared.f32 %f1, [tile]; st.global.f32 [%a5], %f1;",
        "mov.u32 %r4, tile; mad.lo.s32 %r6, %r1, 4, %r4; ld.global.f32 %f0, [%a4];"
        "st.shared.f32 [%r6], %f0; bar.sync 0; ld.shared.f32 %f1, [%r4]; st.global.f32 [%a5], %f1;",
    ),
    "a carry chain for a 64-bit sum": (
        "cvt.u32.u64 %r4, %a2; shr.u64 %a6, %a2, 32; cvt.u32.u64 %r5, %a6; add.cc.u32 %r6, %r4, %r4;"
        "addc.u32 %r7, %r5, %r5; st.global.u32 [%a5], %r7;",
        "add.s64 %a6, %a2, %a2; shr.u64 %a6, %a6, 32; cvt.u32.u64 %r7, %a6; st.global.u32 [%a5], %r7;",
    ),
    "a pair packed and unpacked": (
        "mov.b64 %a6, {%r1, %r0}; mov.b64 {%r4, %r5}, %a6; st.global.u32 [%a5], %r5;",
        "st.global.u32 [%a5], %r0;",
    ),
    "shuffles with the same operands": (
        "shfl.sync.bfly.b32 %r4|%p0, %r1, 1, 31, -1; st.global.u32 [%a5], %r4;",
        "mov.u32 %r5, 1; shfl.sync.bfly.b32 %r4|%p0, %r1, %r5, 31, -1; st.global.u32 [%a5], %r4;",
    ),
    "an atomic with its address computed otherwise": (
        "atom.global.add.u32 %r4, [%a4], 1; st.global.u32 [%a5], %r4;",
        "mad.wide.u32 %a6, %r1, 4, %a0; atom.global.add.u32 %r4, [%a6], 1; st.global.u32 [%a5], %r4;",
    ),
}  # fmt: skip

TRAPS = {
    "terms of an f64 sum exchanged: another NaN's payload survives": (
        "ld.global.f64 %d0, [%a0]; ld.global.f64 %d1, [%a1]; add.rn.f64 %d2, %d0, %d1; st.global.f64 [%a1], %d2;",
        "ld.global.f64 %d0, [%a0]; ld.global.f64 %d1, [%a1]; add.rn.f64 %d2, %d1, %d0; st.global.f64 [%a1], %d2;",
    ),
    "factors of an f64 fma exchanged": (
        "ld.global.f64 %d0, [%a0]; ld.global.f64 %d1, [%a1]; fma.rn.f64 %d2, %d0, %d1, %d0; st.global.f64 [%a1], %d2;",
        "ld.global.f64 %d0, [%a0]; ld.global.f64 %d1, [%a1]; fma.rn.f64 %d2, %d1, %d0, %d0; st.global.f64 [%a1], %d2;",
    ),
    "32-bit index that overflows": (
        "mul.wide.s32 %a6, %r2, %r3; cvt.s64.s32 %a7, %r1; add.s64 %a6, %a6, %a7; st.global.u64 [%a5], %a6;",
        "mad.lo.s32 %r4, %r2, %r3, %r1; cvt.s64.s32 %a6, %r4; st.global.u64 [%a5], %a6;",
    ),
    "a dropped wraparound of a parameter": (
        "shr.s64 %a7, %a2, 63; and.b64 %a7, %a7, 8; add.s64 %a6, %a2, %a7; st.global.u64 [%a5], %a6;",
        "st.global.u64 [%a5], %a2;",
    ),
    "a load moved over a store that may alias": (
        "st.global.f32 [%a5], 0f3F800000; ld.global.f32 %f0, [%a4]; st.global.f32 [%a5+4], %f0;",
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], 0f3F800000; st.global.f32 [%a5+4], %f0;",
    ),
    "a load moved over a store that overlaps in part": (
        "st.global.u16 [%a4+2], %r1; ld.global.u32 %r4, [%a4]; st.global.u32 [%a5], %r4;",
        "ld.global.u32 %r4, [%a4]; st.global.u16 [%a4+2], %r1; st.global.u32 [%a5], %r4;",
    ),
    "a load that the baseline makes only on one path": (
        "setp.lt.s32 %p0, %r1, %r0; mov.f32 %f0, 0f00000000; @!%p0 bra $X; ld.global.f32 %f0, [%a4];"
        "$X: st.global.f32 [%a5], %f0;",
        "setp.lt.s32 %p0, %r1, %r0; ld.global.f32 %f1, [%a4]; selp.f32 %f0, %f1, 0f00000000, %p0;"
        "st.global.f32 [%a5], %f0;",
    ),
    "a vector load of unknown alignment": (
        "ld.global.f32 %f0, [%a0]; ld.global.f32 %f1, [%a0+4]; add.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
        "ld.global.v2.f32 {%f0, %f1}, [%a0]; add.rn.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
    ),
    "a vector store of unknown alignment": (
        "st.global.f32 [%a5], 0f3F800000; st.global.f32 [%a5+4], 0f3F800000;",
        "mov.f32 %f0, 0f3F800000; st.global.v2.f32 [%a5], {%f0, %f0};",
    ),
    "floating-point sums in another order": (
        "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5]; ld.global.f32 %f2, [%a4+4]; add.rn.f32 %f3, %f0, %f1;"
        "add.rn.f32 %f3, %f3, %f2; st.global.f32 [%a5], %f3;",
        "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5]; ld.global.f32 %f2, [%a4+4]; add.rn.f32 %f3, %f1, %f2;"
        "add.rn.f32 %f3, %f0, %f3; st.global.f32 [%a5], %f3;",
    ),
    "x - y for y - x": (
        "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5]; sub.f32 %f2, %f0, %f1; st.global.f32 [%a5], %f2;",
        "ld.global.f32 %f0, [%a4]; ld.global.f32 %f1, [%a5]; sub.f32 %f2, %f1, %f0; st.global.f32 [%a5], %f2;",
    ),
    "a fused operation for two": (
        "ld.global.f32 %f0, [%a4]; mul.rn.f32 %f1, %f0, %f0; add.rn.f32 %f1, %f1, %f0; st.global.f32 [%a5], %f1;",
        "ld.global.f32 %f0, [%a4]; fma.rn.f32 %f1, %f0, %f0, %f0; st.global.f32 [%a5], %f1;",
    ),
    "another rounding": (
        "ld.global.f32 %f0, [%a4]; add.rn.f32 %f1, %f0, %f0; st.global.f32 [%a5], %f1;",
        "ld.global.f32 %f0, [%a4]; add.rz.f32 %f1, %f0, %f0; st.global.f32 [%a5], %f1;",
    ),
    "subnormals flushed": (
        "ld.global.f32 %f0, [%a4]; add.rn.f32 %f1, %f0, %f0; st.global.f32 [%a5], %f1;",
        "ld.global.f32 %f0, [%a4]; add.rn.ftz.f32 %f1, %f0, %f0; st.global.f32 [%a5], %f1;",
    ),
    "not less is not greater or equal where NaN is about": (
        "mov.f32 %f1, 0f00000000; ld.global.f32 %f0, [%a4];"
        "setp.ge.f32 %p0, %f0, %f1; selp.b32 %r4, 1, 0, %p0; st.global.u32 [%a5], %r4;",
        "mov.f32 %f1, 0f00000000; ld.global.f32 %f0, [%a4];"
        "setp.lt.f32 %p0, %f0, %f1; selp.b32 %r4, 0, 1, %p0; st.global.u32 [%a5], %r4;",
    ),
    "a barrier dropped": (
        "st.shared.u32 [tile], %r1; bar.sync 0; ld.shared.u32 %r4, [tile]; st.global.u32 [%a5], %r4;",
        "st.shared.u32 [tile], %r1; ld.shared.u32 %r4, [tile]; st.global.u32 [%a5], %r4;",
    ),
    "a barrier moved over a load": (
        "st.shared.u32 [tile], %r1; bar.sync 0; ld.shared.u32 %r4, [tile+4]; st.global.u32 [%a5], %r4;",
        "st.shared.u32 [tile], %r1; ld.shared.u32 %r4, [tile+4]; bar.sync 0; st.global.u32 [%a5], %r4;",
    ),
    "another barrier": ("bar.sync 0; st.global.u32 [%a5], %r1;", "bar.sync 1; st.global.u32 [%a5], %r1;"),
    "a barrier in both arms of a branch": (
        "setp.lt.s32 %p0, %r1, %r0; bar.sync 0; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;",
        "setp.lt.s32 %p0, %r1, %r0; @%p0 bra $T; bar.sync 0; mov.u32 %r4, 2; bra $J; $T: bar.sync 0; mov.u32 %r4, 1;"
        "$J: st.global.u32 [%a5], %r4;",
    ),
    "another shuffle mask": (
        "shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1; st.global.u32 [%a5], %r4;",
        "shfl.sync.bfly.b32 %r4, %r1, 1, 31, 65535; st.global.u32 [%a5], %r4;",
    ),
    "a shuffle of another lane": (
        "shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1; st.global.u32 [%a5], %r4;",
        "shfl.sync.bfly.b32 %r4, %r1, 2, 31, -1; st.global.u32 [%a5], %r4;",
    ),
    "a barrier's count forgotten": (
        "setp.lt.s32 %p0, %r1, %r0; mov.u32 %r4, 7; bar.red.popc.u32 %r4, 0, %p0; st.global.u32 [%a5], %r4;",
        "setp.lt.s32 %p0, %r1, %r0; bar.red.popc.u32 %r4, 0, %p0; mov.u32 %r4, 7; st.global.u32 [%a5], %r4;",
    ),
    "a guarded branch that promises uniformity": (
        "setp.lt.s32 %p0, %r1, %r0; @%p0 bra $X; st.global.u32 [%a5], %r1; $X: ret;",
        "setp.lt.s32 %p0, %r1, %r0; @%p0 bra.uni $X; st.global.u32 [%a5], %r1; $X: ret;",
    ),
    "an atomic twice": (
        "atom.global.add.u32 %r4, [%a4], 1; st.global.u32 [%a5], %r4;",
        "atom.global.add.u32 %r4, [%a4], 1; atom.global.add.u32 %r4, [%a4], 1; st.global.u32 [%a5], %r4;",
    ),
    "an atomic of narrower scope": (
        "atom.sys.global.add.u32 %r4, [%a4], 1; st.global.u32 [%a5], %r4;",
        "atom.cta.global.add.u32 %r4, [%a4], 1; st.global.u32 [%a5], %r4;",
    ),
    "a volatile load made weak": (
        "ld.volatile.global.u32 %r4, [%a4]; st.global.u32 [%a5], %r4;",
        "ld.global.u32 %r4, [%a4]; st.global.u32 [%a5], %r4;",
    ),
    "two volatile loads made one": (
        "ld.volatile.global.u32 %r4, [%a4]; ld.volatile.global.u32 %r5, [%a4]; sub.s32 %r4, %r4, %r5;"
        "st.global.u32 [%a5], %r4;",
        "ld.volatile.global.u32 %r4, [%a4]; mov.u32 %r5, 0; st.global.u32 [%a5], %r5;",
    ),
    "a fence dropped": (
        "st.global.u32 [%a4], 1; membar.gl; st.global.u32 [%a5], 2;",
        "st.global.u32 [%a4], 1; st.global.u32 [%a5], 2;",
    ),
    "stores in another order": (
        "st.global.u32 [%a4], 1; st.global.u32 [%a5], 2;",
        "st.global.u32 [%a5], 2; st.global.u32 [%a4], 1;",
    ),
    "the non-coherent path": (
        "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], %f0;",
        "ld.global.nc.f32 %f0, [%a4]; st.global.f32 [%a5], %f0;",
    ),
    "another state space": (
        "ld.shared.u32 %r4, [tile]; st.global.u32 [%a5], %r4;",
        "ld.global.u32 %r4, [tile]; st.global.u32 [%a5], %r4;",
    ),
    "a register that was never written": (
        "mov.u32 %r4, 0; st.global.u32 [%a5], %r4;",
        "st.global.u32 [%a5], %r4;",
    ),
    "a register that was never written, and does not matter": (
        "mov.u32 %r4, 0; and.b32 %r4, %r4, 0; st.global.u32 [%a5], %r4;",
        "and.b32 %r4, %r4, 0; st.global.u32 [%a5], %r4;",
    ),
    "division by zero is not zero": (
        "div.u32 %r4, %r1, %r0; st.global.u32 [%a5], %r4;",
        "setp.eq.u32 %p0, %r0, 0; mov.u32 %r4, 0; @!%p0 div.u32 %r4, %r1, %r0; st.global.u32 [%a5], %r4;",
    ),
    "signed division is no shift": (
        "div.s32 %r4, %r0, 4; st.global.u32 [%a5], %r4;",
        "shr.s32 %r4, %r0, 2; st.global.u32 [%a5], %r4;",
    ),
    "a shift amount that wraps": (
        "shl.b32 %r4, %r1, %r0; st.global.u32 [%a5], %r4;",
        "and.b32 %r5, %r0, 31; shl.b32 %r4, %r1, %r5; st.global.u32 [%a5], %r4;",
    ),
    "an endless loop for an end": ("st.global.u32 [%a5], 1;", "st.global.u32 [%a5], 1; $L: bra $L;"),
    "an end for an endless loop": ("st.global.u32 [%a5], 1; $L: bra $L;", "st.global.u32 [%a5], 1;"),
    "a trap left out": (
        "setp.eq.s32 %p0, %r0, 0; @%p0 trap; st.global.u32 [%a5], 1;",
        "st.global.u32 [%a5], 1;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_equal_kernels_are_proved(name: str) -> None:
    assert isinstance(verdict(*EQUAL[name]), Proved), verdict(*EQUAL[name])


@pytest.mark.parametrize("name", TRAPS)
def test_traps_are_not_proved(name: str) -> None:
    base, candidate = TRAPS[name]
    assert not isinstance(verdict(base, candidate), Proved)
    assert not isinstance(verdict(candidate, base), Proved) or name in ONE_WAY


ONE_WAY = frozenset(
    (
        "a load that the baseline makes only on one path",
        "a register that was never written, and does not matter",
        "a vector load of unknown alignment",
        "a vector store of unknown alignment",
        "a guarded branch that promises uniformity",
        "a barrier in both arms of a branch",
    )
)
"""What is wrong in one direction only: taking a promise back is right."""


@pytest.mark.parametrize("name", [n for n in TRAPS if "register that was" not in n and "endless" not in n])
def test_each_side_of_a_trap_equals_itself(name: str) -> None:
    """So the refusal above is about the difference, not about something unsupported."""
    for side in TRAPS[name]:
        if "bra.uni" not in side:
            assert isinstance(verdict(side, side), Proved), verdict(side, side)


LOOP = """mov.u64 %a6, 0; mov.f32 %f0, 0f00000000; setp.lt.s64 %p0, %a2, 1; @%p0 bra $X;
$L: shl.b64 %a7, %a6, 2; add.s64 %a7, %a0, %a7; ld.global.f32 %f1, [%a7]; add.f32 %f0, %f0, %f1;
add.s64 %a6, %a6, 1; setp.lt.s64 %p1, %a6, %a2; @%p1 bra $L;
$X: st.global.f32 [%a5], %f0;"""
LOOP_TRAPS = {
    "a 32-bit counter": LOOP.replace("mov.u64 %a6, 0;", "mov.u64 %a6, 0; mov.u32 %r4, 0; cvt.u32.u64 %r5, %a2;")
    .replace("add.s64 %a6, %a6, 1;", "add.s32 %r4, %r4, 1; cvt.u64.u32 %a6, %r4;")
    .replace("setp.lt.s64 %p1, %a6, %a2", "setp.lt.s32 %p1, %r4, %r5"),
    "one trip too many": LOOP.replace("setp.lt.s64 %p1", "setp.le.s64 %p1"),
    "one trip too few": LOOP.replace("add.s64 %a6, %a6, 1; setp", "add.s64 %a6, %a6, 1; add.s64 %a8, %a6, 1; setp")
    .replace("setp.lt.s64 %p1, %a6, %a2", "setp.lt.s64 %p1, %a8, %a2"),
    "no guard for zero trips": LOOP.replace("@%p0 bra $X;", ""),
    "two accumulators": LOOP.replace(
        "add.f32 %f0, %f0, %f1;", "add.f32 %f2, %f0, %f1; mov.f32 %f0, %f3; mov.f32 %f3, %f2;"
    )
    .replace("mov.u64 %a6, 0;", "mov.u64 %a6, 0; mov.f32 %f3, 0f00000000;")
    .replace("$X: st", "$X: add.f32 %f0, %f0, %f3; st"),
    "a load past the end": LOOP.replace("add.s64 %a6, %a6, 1;", "ld.global.f32 %f4, [%a7+4]; add.s64 %a6, %a6, 1;"),
    "another stride": LOOP.replace("shl.b64 %a7, %a6, 2", "shl.b64 %a7, %a6, 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOP_TRAPS)
def test_wrong_loops_are_not_proved(name: str) -> None:
    assert LOOP_TRAPS[name] != LOOP
    assert not isinstance(verdict(LOOP, LOOP_TRAPS[name], EXTENT), Proved)


def test_the_loop_itself_is_proved_with_a_pointer_for_an_index() -> None:
    pointer = LOOP.replace("mov.u64 %a6, 0;", "mov.u64 %a6, 0; mov.u64 %a7, %a0;").replace(
        "$L: shl.b64 %a7, %a6, 2; add.s64 %a7, %a0, %a7;", "$L:"
    ).replace("add.s64 %a6, %a6, 1;", "add.s64 %a6, %a6, 1; add.s64 %a7, %a7, 4;")  # fmt: skip
    assert isinstance(verdict(LOOP, pointer, EXTENT), Proved)


def test_contraction_is_named() -> None:
    body = "ld.global.f32 %f0, [%a4]; mul.f32 %f1, %f0, %f0; add.f32 %f1, %f1, %f0; st.global.f32 [%a5], %f1;"
    found = verdict(body, body)
    assert isinstance(found, Proved)
    assert found.aside == ("contraction",)
    swapped = body.replace("add.f32 %f1, %f1, %f0", "add.f32 %f1, %f0, %f1")
    assert not isinstance(verdict(body, swapped), Proved)
    rounded = body.replace("mul.f32", "mul.rn.f32")
    assert not isinstance(verdict(body, rounded), Proved)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tile[1024]", "tile[2048]"),
        (".param .u32 k_3", ".param .u64 k_3"),
        (".target sm_90", ".target sm_80"),
        ("{\n.reg .pred", "{\n.shared .b32 more;\n.reg .pred"),
        (")\n{", ")\n.maxntid 128\n{"),
    ],
)
def test_the_surroundings_must_agree(old: str, new: str) -> None:
    base = kernel("st.global.u32 [%a5], %r1;")
    assert old in base
    task = proving.Task(base, base.replace(old, new), "k", (), (1,))
    assert not isinstance(proving.run(task), Proved)


def test_a_promise_about_bytes_is_no_pragma_to_ignore() -> None:
    base = "ld.global.u32 %r4, [%a4]; st.global.u32 [%a5], %r4;"
    assert not isinstance(verdict(base, '.pragma "used_bytes_mask 0x1"; ' + base), Proved)
    assert isinstance(verdict(base, '.pragma "nounroll"; ' + base), Proved)


# --- barriers in loops --------------------------------------------------------------------------------------

TURN = """st.shared.u32 [tile], %r9; bar.sync 0; ld.shared.u32 %r5, [tile]; bar.sync 0; add.s32 %r9, %r9, %r5;"""
TURNS = f"""mov.u32 %r9, %r1; TRIPS setp.lt.s32 %p0, %r6, 1; @%p0 bra $X;
$L: {TURN} add.s32 %r6, %r6, -1; setp.ne.s32 %p1, %r6, 0; @%p1 bra $L; $X: st.global.u32 [%a5], %r9;"""
TWICE = f"""mov.u32 %r9, %r1; TRIPS setp.lt.s32 %p0, %r6, 1; @%p0 bra $X; setp.lt.s32 %p0, %r6, 2; @%p0 bra $R;
$M: {TURN} {TURN} add.s32 %r6, %r6, -2; setp.gt.s32 %p1, %r6, 1; @%p1 bra $M; setp.eq.s32 %p1, %r6, 0; @%p1 bra $X;
$R: {TURN} $X: st.global.u32 [%a5], %r9;"""
ALIKE = {
    "a parameter": "mov.u32 %r6, %r0;",
    "made of the block's number and size": "mad.lo.s32 %r6, %r2, %r3, %r0; and.b32 %r6, %r6, 1023;",
    "a parameter, where some threads leave before": "setp.gt.s32 %p2, %r1, %r0; @%p2 ret; mov.u32 %r6, %r0;",
}
APART = {
    "the thread's number": "mov.u32 %r6, %r1;",
    "a parameter and the thread's number": "min.s32 %r6, %r0, %r1;",
    "loaded": "ld.global.u32 %r6, [%a4]; and.b32 %r6, %r6, 15;",
    "loaded from one address for all": "ld.global.u32 %r6, [%a0]; and.b32 %r6, %r6, 15;",
    "divided by what may be zero": "div.u32 %r6, %r3, %r0; and.b32 %r6, %r6, 255;",
    "a shuffle's": "shfl.sync.idx.b32 %r6, %r0, 0, 31, -1; and.b32 %r6, %r6, 15;",
}


@pytest.mark.parametrize("name", ALIKE)
def test_barriers_are_copied_where_all_threads_go_alike(name: str) -> None:
    base, candidate = (text.replace("TRIPS", ALIKE[name]) for text in (TURNS, TWICE))
    found = verdict(base, candidate)
    assert isinstance(found, Proved), found


@pytest.mark.parametrize("name", APART)
def test_barriers_are_not_copied_where_threads_may_part(name: str) -> None:
    base, candidate = (text.replace("TRIPS", APART[name]) for text in (TURNS, TWICE))
    found = verdict(base, candidate)
    assert isinstance(found, Unknown), found
    assert "barriers" in found.reason, found
    assert isinstance(verdict(base, base), Proved)


BRANCH = (
    "@%p0 bra $T; bar.sync 0; mov.u32 %r4, 2; bra $J; $T: bar.sync 0; mov.u32 %r4, 1; $J: st.global.u32 [%a5], %r4;"
)
UNIFORM = {
    "a parameter against the block's size": ("setp.lt.s32 %p0, %r2, %r0;", True),
    "a parameter against the thread's number": ("setp.lt.s32 %p0, %r1, %r0;", False),
    "the block's number and what was loaded": ("ld.global.u32 %r7, [%a0]; setp.lt.s32 %p0, %r3, %r7;", False),
    "a register that was never written": ("setp.lt.s32 %p0, %r3, %r8;", False),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_a_barrier_in_both_arms_of_a_branch(name: str) -> None:
    test, alike = UNIFORM[name]
    base = f"{test} bar.sync 0; selp.b32 %r4, 1, 2, %p0; st.global.u32 [%a5], %r4;"
    assert isinstance(verdict(base, test + BRANCH), Proved) is alike
    cluster = "barrier.cluster.arrive.aligned;"
    copied = (test + BRANCH).replace("bar.sync 0;", cluster)
    assert not isinstance(verdict(base.replace("bar.sync 0;", cluster), copied), Proved)


def test_a_turn_too_few_or_a_barrier_out_of_turn_is_no_copy() -> None:
    base = TURNS.replace("TRIPS", ALIKE["a parameter"])
    right = TWICE.replace("TRIPS", ALIKE["a parameter"])
    late = TURN.replace("st.shared.u32 [tile], %r9; bar.sync 0;", "bar.sync 0; st.shared.u32 [tile], %r9;")
    for old, new in (
        (f"$R: {TURN}", "$R: "),
        (f"{TURN} {TURN}", TURN + TURN.replace("bar.sync 0;", "", 1)),
        (f"{TURN} {TURN}", TURN + TURN.replace("bar.sync 0;", "bar.sync 1;", 1)),
        (f"{TURN} {TURN}", TURN + late),
    ):
        assert old in right
        assert new != old
        assert not isinstance(verdict(base, right.replace(old, new)), Proved), new
