"""Data races are found whatever the schedule hides, and ordered programs are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc.errors import ExecutionError
from hybridcc.passes.execute import execute

HEAD = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag)
{{
.reg .pred %p, %q; .reg .b32 %me, %block, %lane, %a, %b, %c, %t; .reg .b64 %data, %flag, %mine, %o;
.shared .align 4 .b32 sm[64];
ld.param.u64 %data, [data]; ld.param.u64 %flag, [flag];
mov.u32 %me, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %lane, %laneid;
mad.lo.u32 %t, %block, 64, %me; mul.wide.u32 %o, %t, 4; add.s64 %mine, %data, %o;
shl.b32 %t, %me, 2; mov.u32 %c, sm; add.u32 %t, %t, %c;
{}
ret;
}}
"""


def run(body: str, grid: int = 1, schedule: str = "lowest") -> np.ndarray:
    data, flag = np.zeros(64 * grid, np.uint32), np.zeros(4, np.uint32)
    execute(HEAD.format(body), "k", grid, 64, [data, flag], schedule=schedule)
    return data


def races(body: str, grid: int = 1) -> str:
    with pytest.raises(ExecutionError) as stopped:
        run(body, grid)
    assert stopped.value.reason == "DATA_RACE"
    return str(stopped.value)


READ_THEN_WRITE = """st.shared.u32 [%t], %me; bar.sync 0;
ld.shared.u32 %a, [sm+{place}];
{between}
setp.eq.u32 %p, %me, {writer};
@%p st.shared.u32 [sm+{place}], %a;"""


@pytest.mark.parametrize(("writer", "place"), [(0, 0), (5, 0), (40, 0), (63, 252)])
def test_a_write_after_everyones_read(writer, place):
    """One thread overwrites what all have just read: only a barrier makes that right."""
    message = races(READ_THEN_WRITE.format(writer=writer, place=place, between=""))
    assert "a read by thread" in message
    assert f"by thread ({writer}, 0, 0)" in message
    assert "shared" in message
    run(READ_THEN_WRITE.format(writer=writer, place=place, between="bar.sync 0;"))
    # a warp's own barrier does not reach the readers of the other warp
    races(READ_THEN_WRITE.format(writer=writer, place=place, between="bar.warp.sync -1;"))


WITHIN_A_WARP = """and.b32 %b, %me, 32; shl.b32 %b, %b, 2; mov.u32 %c, sm; add.u32 %b, %b, %c;
setp.eq.u32 %p, %lane, 3; @%p st.shared.u32 [%b], %me;
{}
ld.shared.u32 %a, [%b];
{}
setp.eq.u32 %p, %lane, 7; @%p st.shared.u32 [%b], %me; st.global.u32 [%mine], %a;"""
SYNC = "bar.warp.sync -1;"


def test_a_warps_barrier_orders_the_warp():
    assert list(run(WITHIN_A_WARP.format(SYNC, SYNC))) == [3] * 32 + [35] * 32
    races(WITHIN_A_WARP.format(SYNC, ""))
    races(WITHIN_A_WARP.format("", SYNC))


def test_a_shuffle_orders_nothing():
    races(WITHIN_A_WARP.format("shfl.sync.idx.b32 %a, %me, 0, 31, -1;", SYNC))


def test_blocks_are_not_ordered_by_barriers():
    """Every block writes the first word of the next one."""
    body = "st.global.u32 [%mine], %me; bar.sync 0; setp.eq.u32 %p, %me, 0; @%p st.global.u32 [%mine+{}], %me;"
    message = races(body.format(256).replace("@%p", "setp.eq.and.u32 %p, %block, 0, %p; @%p"), grid=2)
    assert "global" in message
    assert "thread (0, 0, 0) of block (1, 0, 0)" in message
    run(body.format(0), grid=2)


LAST_BLOCK = """st.global.u32 [%mine], %me;
{fence}
bar.sync 0;
setp.eq.u32 %p, %me, 0;
@%p atom.global.add.u32 %a, [%flag], 1;
@%p st.shared.u32 [sm], %a;
bar.sync 0;
ld.shared.u32 %a, [sm]; setp.ne.u32 %q, %a, 3;
@%q ret;
ld.global.u32 %b, [%data]; ld.global.u32 %c, [%data+512]; add.u32 %b, %b, %c;
bar.sync 0;
st.global.u32 [%mine], %b;"""


@pytest.mark.parametrize("fence", ["membar.gl;", "fence.acq_rel.gpu;", "fence.sc.gpu;"])
@pytest.mark.parametrize("schedule", ["lowest", "reversed"])
def test_the_last_block_may_read_what_all_have_released(fence, schedule):
    run(LAST_BLOCK.format(fence=fence), grid=4, schedule=schedule)


def test_without_a_fence_it_may_not():
    races(LAST_BLOCK.format(fence=""), grid=4)


def test_atomics_do_not_race_with_each_other_but_with_the_rest():
    run("atom.global.add.u32 %a, [%flag], 1; red.global.max.u32 [%flag], 5;", grid=3)
    races("atom.global.add.u32 %a, [%flag], 1; setp.eq.u32 %p, %me, 9; @%p st.global.u32 [%flag], %a;")
    races("ld.global.u32 %a, [%flag]; atom.global.add.u32 %a, [%flag], 1;")


def test_bytes_of_one_word_are_places_of_their_own():
    own = "mul.wide.u32 %o, %me, 3; add.s64 %mine, %data, %me_; st.global.u8 [%mine], %me;"
    run(own.replace("%me_", "%o"))
    races("shr.u32 %a, %me, 1; cvt.u64.u32 %o, %a; add.s64 %mine, %data, %o; st.global.u8 [%mine], %me;")


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_reads_of_global_memory_that_is_written_later(barrier):
    """Reads wait until somebody writes there; what ordered them at their own time still counts."""
    body = f"ld.global.u32 %a, [%data+8]; {barrier} setp.eq.u32 %p, %me, 9; @%p st.global.u32 [%data+8], %a;"
    if barrier:
        run(body)
    else:
        assert "a read by" in races(body)


def test_reads_after_a_write_that_spans_both_arrays():
    """A store whose lanes fall into two allocations counts for each of them."""
    body = """setp.lt.u32 %p, %me, 32; selp.b64 %o, %data, %flag, %p; and.b32 %a, %me, 31; setp.eq.u32 %q, %a, 0;
    @%q st.global.u32 [%o], %me; ld.global.u32 %b, [%data];"""
    assert "a write by" in races(body)
