"""Right rewrites of Numba's kernels, each made wrong in the one way that people and models get wrong.

The executor refutes what it can hold; a trap that needs 2^31 threads or elements it cannot, and there the prover alone
stands. Each trap is one edit of a rewrite that is proved (test_kernels.py) or of the kernel itself.
"""

from __future__ import annotations

import pytest
from judging import FEW, ITSELF, executed, right, task

from hybridcc.passes.verdict import Proved
from hybridcc.passes.verify import proving

CASES: dict[str, tuple[str, str, int, tuple[tuple[str, str], ...], bool]] = {
    "a dropped wraparound of an index that was loaded": (
        "gather", ITSELF, 1, (("add.s64 	%rd19, %rd18, %rd16;", "mov.u64 	%rd19, %rd16;"),), True,
    ),
    "a wraparound by another array's extent": (
        "gather", ITSELF, 1, (("and.b64  	%rd18, %rd17, %rd3;", "and.b64  	%rd18, %rd17, %rd5;"),), True,
    ),
    "an index that overflows at 2^31 threads": (
        "saxpy", "saxpy", 1,
        (("shl.b64 %a2, %rd1, 2;", "mad.lo.s32 %i0, %r2, %r3, %r1;\nmul.wide.s32 %a2, %i0, 4;"),), False,
    ),
    "a grid's stride that overflows at 2^31 threads": (
        "gridstride", "gridstride", 1,
        (("shl.b64 %a2, %rd6, 2;", "mul.lo.s32 %i0, %r2, %r4;\nmul.wide.s32 %a2, %i0, 4;"),), False,
    ),
    "a remainder of one too few": (
        "conv1d", "conv1d", 4, (("and.b64 %n0, %rd31, 3;", "and.b64 %n0, %rd31, 2;"),), True,
    ),
    "a remainder that takes a whole trip more": (
        "conv1d", "conv1d", 4, (("sub.s64 %n1, %rd31, %n0;", "add.s64 %n1, %rd31, 3;\nand.b64 %n1, %n1, -4;"),), True,
    ),
    "no remainder": (
        "dot_rows", "dot_rows", 4, (("$REST:\nsetp.eq.s64 %q3, %n0, 0;\n@%q3 bra", "$REST:\nbra"),), True,
    ),
    "elements summed in another order": (
        "colsum", "colsum", 1,
        (
            ("$ONE:", "mul.lo.s64 %a2, %a1, %rd30;\nadd.s64 %a0, %a0, %a2;\n$ONE:\nsub.s64 %a0, %a0, %a1;"),
            ("add.s64 %a0, %a0, %a1;\nadd.s64 %n0", "add.s64 %n0"),
        ), True,
    ),
    "a load hoisted over a store to the same element": (
        "prefix", "prefix", 1,
        (("$ONE:\nld.global.f32 %g0, [%a0];", "ld.global.f32 %g0, [%a0];\n$ONE:"),), True,
    ),
    "both loads of an element-wise kernel hoisted over the other thread's store": (
        "saxpy", "saxpy", 1,
        (("st.global.f32 [%a1], %g2;", "st.global.f32 [%a1], %g2;\nst.global.f32 [%a0], %g0;"),), True,
    ),
    "a barrier moved over the store that it guards": (
        "reduce_shared", "reduce_shared_rolled", 1,
        (("st.shared.f32 [%a0], %f29;\nbar.sync 0;", "bar.sync 0;\nst.shared.f32 [%a0], %f29;"),), True,
    ),
    "a barrier moved into one arm": (
        "reduce_shared", "reduce_shared_rolled", 1, (("$SKIP0:\nbar.sync 0;", "bar.sync 0;\n$SKIP0:"),), True,
    ),
    "a barrier for a warp": (
        "reduce_shared", "reduce_shared_rolled", 1, (("$SKIP0:\nbar.sync 0;", "$SKIP0:\nbar.warp.sync -1;"),), True,
    ),
    "a barrier dropped": (
        "reduce_shared", "reduce_shared_rolled", 1, (("$SKIP0:\nbar.sync 0;", "$SKIP0:"),), True,
    ),
    "a shuffle whose mask leaves lanes out": (
        "warp_sum", "warp_sum", 1, (("%i0, 8, 31, -1;", "%i0, 8, 31, 65535;"),), True,
    ),
    "a shuffle over half the distance": (
        "warp_sum", "warp_sum", 1, (("%i0, 8, 31, -1;", "%i0, 4, 31, -1;"),), True,
    ),
    "a shuffle that not every lane reaches": (
        "warp_sum", "warp_sum", 1,
        (("mov.b32 %i0, %g4;", "setp.gt.u32 %q0, %r1, 15;\n@%q0 bra $L__BB0_4;\nmov.b32 %i0, %g4;"),), True,
    ),
    "a 32-bit counter for a 64-bit extent": (
        "conv1d", "conv1d", 1,
        (
            ("mov.u64 %n0, %rd31;", "cvt.u32.u64 %i0, %rd31;"),
            ("add.s64 %n0, %n0, -1;\nsetp.ne.s64 %q0, %n0, 0;", "add.s32 %i0, %i0, -1;\nsetp.ne.s32 %q0, %i0, 0;"),
        ), False,
    ),
    "a 32-bit offset for a row": (
        "dot_rows", "dot_rows", 1,
        (("mul.lo.s64 %a0, %rd3, %rd32;", "cvt.u32.u64 %i0, %rd3;\ncvt.u32.u64 %i1, %rd32;\n"
          "mul.lo.s32 %i0, %i0, %i1;\ncvt.s64.s32 %a0, %i0;"),), False,
    ),
}  # fmt: skip
"""Kernel, rewrite, unroll, replacements, and whether the executor can hold a launch that shows it."""


@pytest.mark.parametrize("name", CASES)
def test_a_trap_is_refuted_where_a_launch_can_show_it_and_never_proved(name: str) -> None:
    kernel, rewrite, unroll, edits, shown = CASES[name]
    text = right(kernel, rewrite, unroll)
    for old, new in edits:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    told = executed(kernel, text, 1, 3 * FEW)
    assert (told is not None) == shown, told
    verdict = proving.run(task(kernel, text))
    assert not isinstance(verdict, Proved)


def test_the_gathering_kernel_equals_itself() -> None:
    assert isinstance(proving.run(task("gather", None)), Proved)
