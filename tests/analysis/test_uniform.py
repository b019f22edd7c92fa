"""Which values are the same in all threads of a block, and where threads may part."""

from __future__ import annotations

from hybridcc.passes.analysis.uniform import divergent_branches, uniform_registers
from tests.analysis.test_graph import by_label, graph

START = """
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %laneid;
"""


def uniform(body: str) -> frozenset[str]:
    return uniform_registers(graph(START + body + " ret;"))


def test_parameters_and_block_wide_registers_are_uniform():
    found = uniform("mad.lo.s32 %r5, %r2, %r3, 7; add.s32 %r6, %r5, %r1; st.global.u32 [%rd1], %r6;")
    assert {"%rd1", "%r2", "%r3", "%r5"} <= found
    assert not {"%r1", "%r4", "%r6"} & found


def test_loads_atomics_shuffles_and_clocks_are_not():
    found = uniform(
        """
        ld.global.u32 %r5, [%rd1]; atom.global.add.u32 %r6, [%rd1], 1;
        shfl.sync.idx.b32 %r7, %r2, 0, 31, -1; mov.u32 %r8, %clock; ld.volatile.global.u32 %r9, [%rd1];
        """
    )
    assert not {"%r5", "%r6", "%r7", "%r8", "%r9"} & found


def test_a_value_chosen_by_a_thread_of_its_own_is_not_uniform_where_the_ways_meet():
    meet = "mov.u32 %r5, 1; @{} bra M; mov.u32 %r5, 2; M: st.global.u32 [%rd1], %r5;"
    own = "setp.lt.s32 %p1, %r1, 5; " + meet.format("%p1")
    all_ = "setp.lt.s32 %p1, %r2, 5; " + meet.format("%p1")
    assert "%r5" not in uniform(own)
    assert "%r5" in uniform(all_)


def test_leaving_early_leaves_the_rest_uniform_among_themselves():
    body = "setp.lt.s32 %p1, %r1, 5; @%p1 bra E; mov.u32 %r5, 2; add.s32 %r6, %r5, %r2; st.global.u32 [%rd1], %r6; E:"
    assert {"%r5", "%r6"} <= uniform(body)


def test_a_count_of_trips_that_differ_is_not_uniform_after_the_loop():
    loop = """
        mov.u32 %r5, 0;
    L:  add.s32 %r5, %r5, 1;
        setp.lt.s32 %p1, %r5, {};
        @%p1 bra L;
        st.global.u32 [%rd1], %r5;
    """
    assert "%r5" not in uniform(loop.format("%r1"))
    assert "%r5" in uniform(loop.format("%r2"))


def test_a_predicated_write_differs_by_its_predicate():
    assert "%r5" not in uniform("setp.lt.s32 %p1, %r1, 5; mov.u32 %r5, 1; @%p1 mov.u32 %r5, 2;")
    assert "%r5" in uniform("setp.lt.s32 %p1, %r2, 5; mov.u32 %r5, 1; @%p1 mov.u32 %r5, 2;")


def test_divergent_branches_are_those_that_threads_decide():
    cfg = graph(
        START
        + """
        setp.lt.s32 %p1, %r1, 5; @%p1 bra A; mov.u32 %r5, 1;
    A:  setp.lt.s32 %p2, %r2, 5; @%p2 bra B; mov.u32 %r5, 2;
    B:  ret;
        """
    )
    found = divergent_branches(cfg, uniform_registers(cfg))
    assert found == {0}
    assert by_label(cfg, "A") not in found


def test_ways_may_join_before_all_of_them_have_met():
    """%r5 is dead where the outer branch's ways have all met, and differs where two of the three join."""
    body = """
        setp.lt.s32 %p1, %r1, 5; setp.lt.s32 %p2, %r2, 5;
        @%p1 bra X;
        mov.u32 %r5, 1;
        bra J;
    X:  mov.u32 %r5, 2;
        @%p2 bra K;
    J:  add.s32 %r6, %r5, 1; st.global.u32 [%rd1], %r6;
    K:
    """
    assert not {"%r5", "%r6"} & uniform(body)


def test_a_loop_under_a_branch_of_each_thread_keeps_its_uniform_counter():
    body = """
        setp.ge.s32 %p1, %r1, 5; @%p1 bra E;
        mov.u32 %r5, 0;
    L:  add.s32 %r5, %r5, 1; setp.lt.s32 %p2, %r5, %r2; @%p2 bra L;
        st.global.u32 [%rd1], %r5;
    E:
    """
    assert "%r5" in uniform(body)
