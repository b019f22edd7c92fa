"""Whatever PTX leaves undefined stops the executor, with thread, block and line."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc.errors import ExecutionError
from hybridcc.passes.execute import execute

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
.shared .align 4 .b8 sm[128];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
"""


def run(body: str, **options: object) -> np.ndarray:
    memory = np.zeros(64, np.uint32)
    execute(HEAD + body + "\nret;\n}\n", "k", 1, 64, [memory], **options)  # type: ignore[arg-type]
    return memory


@pytest.mark.parametrize(
    ("reason", "thread", "line", "body"),
    [
        ("OUT_OF_BOUNDS", 63, 12, "st.global.u32 [%rd3+4], %r1;"),
        ("MISALIGNED", 0, 12, "st.global.u32 [%rd3+1], %r1;"),
        ("UNWRITTEN_REGISTER", 0, 12, "st.global.u32 [%rd3], %r5;"),
        ("UNWRITTEN_REGISTER", 5, 13, "setp.lt.u32 %p1, %r1, 5;\n@%p1 mov.u32 %r5, 1; st.global.u32 [%rd3], %r5;"),
        ("UNINITIALISED_MEMORY", 0, 12, "ld.shared.u32 %r5, [sm];"),
        ("BARRIER_DEADLOCK", 0, 12, "bar.sync 0, 128;"),
        ("STEP_LIMIT", 0, 12, "L: bra L;"),
        ("CONVERGENCE", 3, 14, "setp.lt.u32 %p1, %r1, 3;\n@%p1 bra L;\nshfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;\nL:"),
        ("TRAP", 0, 12, "trap;"),
        ("DATA_RACE", 0, 12, "st.global.u32 [%rd1], %r1;"),
    ],
)
def test_stops_with_the_place(reason: str, thread: int, line: int, body: str) -> None:
    with pytest.raises(ExecutionError) as stopped:
        run(body, step_limit=100_000)
    assert stopped.value.reason == reason
    assert stopped.value.thread == (thread, 0, 0)
    assert stopped.value.block == (0, 0, 0)
    assert stopped.value.where.startswith(f"<ptx>:{line}:")


SHARE = """setp.eq.u32 %p1, %r1, 3;
@%p1 st.shared.u32 [sm], %r1;
{}
ld.shared.u32 %r5, [sm];
st.global.u32 [%rd3], %r5;"""


def test_a_missing_barrier_is_a_race_that_names_both_sides() -> None:
    assert (run(SHARE.format("bar.sync 0;")) == 3).all()
    with pytest.raises(ExecutionError, match=r"a write by thread \(3, 0, 0\)") as stopped:
        run(SHARE.format(""))
    assert stopped.value.reason == "DATA_RACE"


@pytest.mark.parametrize("schedule", ["lowest", "random", "reversed"])
def test_schedules_agree_where_barriers_order(schedule: str) -> None:
    assert (run(SHARE.format("bar.sync 0;"), schedule=schedule, seed=5) == 3).all()


def test_barriers_count_live_threads_only() -> None:
    memory = run("setp.lt.u32 %p1, %r1, 3; @%p1 ret; bar.sync 0; st.global.u32 [%rd3], %r1;")
    assert list(memory[:5]) == [0, 0, 0, 3, 4]


def test_divergent_loops_reconverge() -> None:
    body = """mov.u32 %r6, 0;
    L: setp.ge.u32 %p1, %r6, %r1;
    @!%p1 add.u32 %r6, %r6, 1;
    @!%p1 bra L;
    st.global.u32 [%rd3], %r6;"""
    assert list(run(body)) == list(range(64))
