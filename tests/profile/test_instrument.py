"""Clones count exactly what the executor counts, and compute what the kernel computes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.errors import ProfileError
from hybridcc.passes.execute import execute
from hybridcc.passes.profile.instrument import counting_clone

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body: str, shared: str = "") -> str:
    return f"{HEADER}{shared}.visible .entry k(.param .u64 out)\n{{\n{body}\n}}\n"


def wandering(blocks: int, seed: int) -> str:
    """A thread walks at random between blocks until its fuel is used up: any graph, irreducible ones too."""
    dice = random.Random(seed)
    lines = [
        ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>;",
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;",
        "mad.lo.s32 %r2, %r1, 64, %r0; mul.lo.s32 %r3, %r2, -1640531527; rem.u32 %r4, %r2, 13;",
        "mul.wide.u32 %d1, %r2, 4; add.s64 %d2, %d0, %d1;",
    ]
    for block in range(blocks):
        a, b = dice.randrange(blocks), dice.randrange(blocks)
        lines.append(f"$B{block}: add.s32 %r4, %r4, -1; setp.lt.s32 %p0, %r4, 0;")
        lines.append(dice.choice(["@%p0 bra $END;", "@%p0 st.global.u32 [%d2], %r3; @%p0 ret;", "@%p0 exit;"]))
        lines.append(f"mad.lo.s32 %r3, %r3, 1664525, {1013904223 + block}; shr.u32 %r5, %r3, 30; ")
        lines.append(f"setp.eq.u32 %p1, %r5, {dice.randrange(4)}; @{dice.choice(['', '!'])}%p1 bra $B{a};")
        if dice.random() < 0.5:
            lines.append(f"bra.uni $B{b};" if dice.random() < 0.1 else f"bra $B{b};")
    lines.append("$END: st.global.u32 [%d2], %r3; ret;")
    return kernel("\n".join(lines))


def counts_agree(ptx: str, *, grid: int = 3, block: int = 64, every: int = 1) -> None:
    plain, cloned = (np.zeros(grid * block, np.uint32) for _ in range(2))
    clone = counting_clone(ptx, "k", every=every)
    expected = execute(ptx, "k", grid, block, [plain])
    result = execute(clone.ptx, "k", grid, block, [cloned])
    assert np.array_equal(plain, cloned)
    got = clone.counts(result.variables[clone.symbol], clone.counted(grid) * block)
    if every == 1:
        assert got == expected.counts_by_index
    else:
        alone = execute(ptx, "k", clone.counted(grid), block, [np.zeros(grid * block, np.uint32)])
        assert got == alone.counts_by_index


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**32))
def test_any_control_flow_is_counted_exactly(blocks: int, seed: int) -> None:
    counts_agree(wandering(blocks, seed))


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_counts_its_blocks_and_computes_all(seed: int) -> None:
    """Block 0 of 3 is in a sample of one in four, so what is counted is what one block alone would do."""
    counts_agree(wandering(6, seed), every=4)


def test_barriers_in_loops_and_lanes_that_left() -> None:
    counts_agree(
        kernel(
            """.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>;
ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r7, 0;
mad.lo.s32 %r2, %r1, 64, %r0; mul.wide.u32 %d1, %r2, 4; add.s64 %d2, %d0, %d1;
mov.u32 %r3, buffer; shl.b32 %r4, %r0, 2; add.s32 %r5, %r3, %r4; mov.u32 %r6, 5;
LOOP: st.shared.u32 [%r5], %r6; bar.sync 0; and.b32 %r8, %r0, 1; setp.eq.u32 %p1, %r8, 0;
@%p1 bra SKIP; add.s32 %r7, %r7, %r6;
SKIP: bar.sync 0; add.s32 %r6, %r6, -1; setp.ne.s32 %p0, %r6, 0; @%p0 bra LOOP;
setp.gt.u32 %p2, %r0, 40; @%p2 exit;
st.global.u32 [%d2], %r7; ret;""",
            ".shared .align 4 .b8 buffer[256];\n",
        )
    )


def test_a_kernel_that_ends_at_its_brace() -> None:
    counts_agree(
        kernel(
            """.reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<3>; ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x;
mul.wide.u32 %d1, %r0, 4; add.s64 %d2, %d0, %d1; setp.gt.u32 %p, %r0, 9; mov.u32 %r1, 3;
AGAIN: add.s32 %r1, %r1, -1; setp.ne.s32 %p, %r1, 0; @%p bra AGAIN; st.global.u32 [%d2], %r0;"""
        ),
        grid=1,
    )


def test_counters_hold_more_than_a_warp_can_sum_at_once() -> None:
    """A register's pieces of 27 bits are summed apart: made visible by a kernel whose counter starts high."""
    ptx = kernel(
        """.reg .pred %p; .reg .b32 %r<3>; mov.u32 %r1, 2;
AGAIN: add.s32 %r1, %r1, -1; setp.ne.s32 %p, %r1, 0; @%p bra AGAIN; ret;"""
    )
    clone = counting_clone(ptx, "k")
    start = 3 << 54 | 5 << 27 | (1 << 27) - 1
    high = clone.ptx.replace("c0, 0;", f"c0, {start};", 1)
    assert high != clone.ptx
    result = execute(high, "k", 1, 32, [np.zeros(1, np.uint32)])
    assert clone.totals(result.variables[clone.symbol])[0] == 32 * (start + 2) % 2**64


def test_a_call_that_may_end_the_thread_is_refused() -> None:
    ptx = (
        f"{HEADER}.func leave()\n{{\nexit;\n}}\n"
        ".visible .entry k(.param .u64 out)\n{\n{\ncall.uni leave, ();\n}\nret;\n}\n"
    )
    with pytest.raises(ProfileError, match="may end the thread") as caught:
        counting_clone(ptx, "k")
    assert caught.value.reason == "CALL_MAY_EXIT"


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "proof" / "kernels").glob("*.ptx")), ids=str)
def test_numba_kernels_have_clones_that_assemble(path: Path) -> None:
    from hybridcc.ptx import parse
    from hybridcc.runtime.assemble import assemble

    ptx = path.read_text()
    entry = parse(ptx).entries[0].name
    clone = counting_clone(ptx, entry)
    cubin = assemble(clone.ptx, "sm_90")
    assert cubin.spill_loads == 0
    assert clone.symbol.encode() in cubin.bytes
