"""Whole programs: what compilers emit for calls, tables, memories and barriers, against plain answers."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc.errors import ExecutionError, InputError
from hybridcc.passes.execute import execute, run

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"

CALLS = """
.func (.param .b32 result) twice(.param .b32 x, .param .align 4 .b8 pair[8])
{
.reg .b32 %a, %b; .reg .pred %p;
ld.param.b32 %a, [x]; ld.param.b32 %b, [pair+4];
setp.lt.u32 %p, %a, 8;
@%p bra SMALL;
add.u32 %a, %a, %b;
SMALL: shl.b32 %a, %a, 1;
st.param.b32 [result], %a;
ret;
}
.visible .entry k(.param .u64 out)
{
.reg .b32 %t, %r, %seven; .reg .b64 %o, %d;
mov.u32 %t, %tid.x; mov.u32 %seven, 7;
{ .param .b32 x; .param .align 4 .b8 pair[8]; .param .b32 result;
st.param.b32 [x], %t; st.param.b32 [pair+4], %seven;
call.uni (result), twice, (x, pair);
ld.param.b32 %r, [result]; }
ld.param.u64 %o, [out]; mul.wide.u32 %d, %t, 4; add.s64 %o, %o, %d; st.global.b32 [%o], %r;
ret;
}
"""


def test_a_call_with_parameters_in_memory_and_divergence_inside():
    out = np.zeros(64, np.uint32)
    execute(HEAD + CALLS, "k", 1, 64, [out])
    t = np.arange(64)
    assert (out == np.where(t < 8, 2 * t, 2 * (t + 7))).all()


TABLE = """
.visible .entry k(.param .u64 out)
{
.reg .b32 %t, %r, %i; .reg .b64 %o, %d;
mov.u32 %t, %tid.x; and.b32 %i, %t, 3; mov.u32 %r, 100;
WAYS: .branchtargets A, B, C, A;
brx.idx %i, WAYS;
A: add.u32 %r, %r, 1; bra END;
B: add.u32 %r, %r, 2;
C: add.u32 %r, %r, 10;
END: ld.param.u64 %o, [out]; mul.wide.u32 %d, %t, 4; add.s64 %o, %o, %d; st.global.b32 [%o], %r;
ret;
}
"""


def test_a_branch_table_with_a_case_that_falls_through():
    out = np.zeros(8, np.uint32)
    execute(HEAD + TABLE, "k", 1, 8, [out])
    assert out.tolist() == [101, 112, 110, 101] * 2


MEMORIES = """
.const .align 4 .b32 powers[4] = {1, 10, 100, 0x3E8};
.global .align 4 .b8 counter[4];
.extern .shared .align 8 .b8 dynamic[];
.visible .entry k(.param .u64 out, .param .u32 scale)
{
.reg .b32 %t, %i, %a, %b; .reg .b64 %o, %d, %g; .local .align 8 .b8 stack[32]; .reg .b32 %s;
mov.u32 %t, %tid.x; and.b32 %i, %t, 3; shl.b32 %i, %i, 2;
mov.u64 %d, powers; cvt.u64.u32 %o, %i; add.s64 %d, %d, %o; ld.const.b32 %a, [%d];
mov.u64 %g, stack; cvta.local.u64 %g, %g; add.s64 %g, %g, %o; st.b32 [%g+16], %a; ld.b32 %b, [%g+16];
ld.param.u32 %a, [scale]; mul.lo.u32 %b, %b, %a;
shl.b32 %s, %t, 2; mov.u32 %a, dynamic; add.u32 %s, %s, %a; st.shared.b32 [%s], %b;
bar.sync 0;
mov.u32 %s, dynamic; xor.b32 %a, %t, 1; shl.b32 %a, %a, 2; add.u32 %s, %s, %a; ld.shared.b32 %b, [%s];
red.global.add.u32 [counter], 1;
ld.param.u64 %o, [out]; mul.wide.u32 %d, %t, 4; add.s64 %o, %o, %d; st.global.b32 [%o], %b;
bar.sync 0;
mov.u64 %g, counter; ld.global.b32 %b, [%g]; add.u32 %b, %b, 0; st.global.b32 [%o+256], %b;
ret;
}
"""


def test_constant_local_dynamic_shared_and_global_variables():
    out = np.zeros(128, np.uint32)
    execute(HEAD + MEMORIES, "k", 1, 64, [out, np.uint32(3)], shared_bytes=256)
    assert out[:4].tolist() == [30, 3, 3000, 300]
    assert (out[64:] == 64).all()


def test_dynamic_shared_memory_ends_where_the_launch_says():
    with pytest.raises(ExecutionError) as stopped:
        execute(HEAD + MEMORIES, "k", 1, 64, [np.zeros(128, np.uint32), np.uint32(3)], shared_bytes=252)
    assert stopped.value.reason == "OUT_OF_BOUNDS"
    assert stopped.value.thread == (63, 0, 0)


PIPE = """
.visible .entry k(.param .u64 out)
{
.reg .b32 %t, %a, %s; .reg .b64 %o, %d; .reg .pred %p; .shared .align 4 .b32 box[32];
mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32; mov.u32 %s, box; and.b32 %a, %t, 31; shl.b32 %a, %a, 2; add.u32 %s, %s, %a;
@!%p bra CONSUMER;
mul.lo.u32 %a, %t, %t; st.shared.b32 [%s], %a; barrier.arrive 1, 64;
ret;
CONSUMER: barrier.sync 1, 64; ld.shared.b32 %a, [%s];
ld.param.u64 %o, [out]; mul.wide.u32 %d, %t, 4; add.s64 %o, %o, %d; st.global.b32 [%o+-128], %a;
ret;
}
"""


@pytest.mark.parametrize("schedule", ["lowest", "random", "reversed"])
def test_a_named_barrier_between_a_producer_and_a_consumer(schedule):
    out = np.zeros(32, np.uint32)
    execute(HEAD + PIPE, "k", 1, 64, [out], schedule=schedule, seed=3)
    assert (out == np.arange(32) ** 2).all()


GRID = """
.visible .entry k(.param .u64 out)
{
.reg .b32 %x, %y, %z, %n, %i, %b; .reg .b64 %o, %d;
mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %n, %ntid.x; mad.lo.u32 %i, %y, %n, %x;
mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %nctaid.x; mad.lo.u32 %b, %y, %z, %x;
mov.u32 %n, %ntid.y; mov.u32 %z, %ntid.x; mul.lo.u32 %n, %n, %z; mad.lo.u32 %i, %b, %n, %i;
ld.param.u64 %o, [out]; mul.wide.u32 %d, %i, 4; add.s64 %o, %o, %d; st.global.b32 [%o], %i;
ret;
}
"""


def test_a_grid_that_needs_too_much_memory_runs_in_slices(monkeypatch):
    whole, sliced = np.zeros(12 * 21, np.uint32), np.zeros(12 * 21, np.uint32)
    first = execute(HEAD + GRID, "k", (4, 3), (7, 3), [whole])
    monkeypatch.setattr(run, "MOST_REGISTER_BYTES", 10_000)
    second = execute(HEAD + GRID, "k", (4, 3), (7, 3), [sliced])
    assert (whole == np.arange(12 * 21)).all()
    assert (sliced == whole).all()
    assert first.block_counts == second.block_counts
    assert first.instructions == second.instructions


COUNTED = """
.visible .entry k(.param .u64 out)
{
.reg .b32 %t, %i; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %i, 0;
LOOP: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %t; @%p bra LOOP;
setp.gt.u32 %p, %t, 1000; @!%p bra END;
NEVER: add.u32 %i, %i, 1;
END: ret;
}
"""


def test_blocks_are_counted_exactly():
    result = execute(HEAD + COUNTED, "k", 2, 40, [np.zeros(1, np.uint32)])
    assert result.block_counts["LOOP"] == 2 * sum(max(1, t) for t in range(40))
    assert result.block_counts["NEVER"] == 0
    assert result.block_counts["END"] == 80


def test_arguments_that_do_not_fit():
    with pytest.raises(InputError, match="1024"):
        execute(HEAD + GRID, "k", 1, 1025, [np.zeros(1, np.uint32)])
    with pytest.raises(InputError):
        execute(HEAD + GRID, "k", 1, 32, [])
    with pytest.raises(InputError):
        execute(HEAD + GRID, "nothing", 1, 32, [np.zeros(1, np.uint32)])


def test_arrays_that_overlap_share_memory():
    data = np.arange(64, dtype=np.uint32)
    copy = """
.visible .entry k(.param .u64 a, .param .u64 b)
{ .reg .b32 %t, %v; .reg .b64 %a, %b, %d;
mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 4; ld.param.u64 %a, [a]; ld.param.u64 %b, [b];
add.s64 %a, %a, %d; add.s64 %b, %b, %d; ld.global.b32 %v, [%a]; add.u32 %v, %v, 1000; st.global.b32 [%b], %v; ret; }
"""
    execute(HEAD + copy, "k", 1, 32, [data[:32], data[32:]])
    assert data.tolist() == [*range(32), *range(1000, 1032)]
    execute(HEAD + copy, "k", 1, 32, [data[:32], data[:32]])
    assert data[:32].tolist() == list(range(1000, 1032))


def test_an_unknown_instruction_stops_only_who_reaches_it():
    body = """
.visible .entry k(.param .u64 out)
{ .reg .b32 %t; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;
@%p bra END; frobnicate.b32 %t, %t; END: ret; }
"""
    execute(HEAD + body, "k", 1, 32, [np.zeros(1, np.uint32)])
    with pytest.raises(ExecutionError, match="frobnicate") as stopped:
        execute(HEAD + body, "k", 1, 64, [np.zeros(1, np.uint32)])
    assert stopped.value.reason == "UNSUPPORTED"
