"""The testing check on PTX: pairs of kernels with the verdict that each must get."""

import pytest

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verdict import Refuted, Tested, Unknown
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.reference import reference_for
from hybridcc.passes.verify.testing import examine

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 px, .param .u64 py, .param .u32 pn)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .f32 %f<16>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [px];
    ld.param.u64 %d1, [py];
    ld.param.u32 %r0, [pn];
    cvta.to.global.u64 %d2, %d0;
    cvta.to.global.u64 %d3, %d1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    setp.ge.s32 %p0, %r4, %r0;
    @%p0 bra $OUT;
    mul.wide.s32 %d4, %r4, 4;
    add.s64 %d5, %d2, %d4;
    add.s64 %d6, %d3, %d4;
$HOT:
"""
TAIL = """
$OUT:
    ret;
}
"""


def ptx(body: str) -> str:
    return HEAD + body + TAIL


ADD = "ld.global.f32 %f0, [%d5]; ld.global.f32 %f1, [%d6]; add.f32 %f2, %f0, %f1; st.global.f32 [%d6], %f2;"
TWICE = (
    "ld.global.f32 %f0, [%d5]; add.f32 %f1, %f0, %f0; st.global.f32 [%d6], %f1;"
    "ld.global.f32 %f2, [%d5]; add.f32 %f3, %f1, %f2; st.global.f32 [%d6], %f3;"
)

CASES = {
    "itself": (ADD, ADD, Tested),
    "sum the other way round": (ADD, ADD.replace("%f0, %f1;", "%f1, %f0;"), Tested),
    "subnormals flushed": (ADD, ADD.replace("add.f32 %f2", "add.ftz.f32 %f2"), Refuted),
    "writes a neighbour": (ADD, ADD.replace("[%d6], %f2", "[%d6+4], %f2"), Refuted),
    "reads past the end": (ADD, ADD + "ld.global.f32 %f9, [%d6+4096];", Refuted),
    "store left out": (ADD, ADD[: ADD.index("st.")], Refuted),
    "load hoisted over a store": (TWICE, TWICE.replace("ld.global.f32 %f2, [%d5];", "mov.f32 %f2, %f0;"), Refuted),
    "endless for nobody": (ADD, ADD.replace("st.", "setp.ne.u32 %p1, %r0, %r0; @%p1 bra $HOT; st."), Tested),
}


def kernel(body: str) -> Kernel:
    return with_arguments(Kernel("k", "k", ptx(body), "sm_80", "ptx"))


@pytest.mark.parametrize("name", CASES)
def test_pairs(name):
    old, new, expected = CASES[name]
    found = examine(reference_for(kernel(old), seed=1), ptx(new))
    assert isinstance(found.verdict, expected), found
    if isinstance(found.verdict, Tested):
        assert found.verdict.exercised > 50
    if isinstance(found.verdict, Refuted):
        replayed = examine(reference_for(kernel(old), [found.counterexample]), ptx(new))  # type: ignore[list-item]
        assert isinstance(replayed.verdict, Refuted)


def test_a_block_that_never_runs_is_no_evidence():
    dead = ADD.replace("st.", "setp.lt.u32 %p1, %r0, 0; @!%p1 bra $NEXT; $DEAD: mov.f32 %f2, 0f00000000; $NEXT: st.")
    found = examine(reference_for(kernel(ADD)), ptx(dead), rewritten=("$DEAD",))
    assert isinstance(found.verdict, Unknown)
    assert found.verdict.reason.startswith("not exercised: no launch executed the rewritten $DEAD; on others")
    assert "OUT_OF_BOUNDS 2x" in found.verdict.reason


def test_blocks_that_exclude_each_other_are_evidence_together():
    """The extent decides, so that no launch runs both; between them the launches do."""
    store = "st.global.f32 [%d6], %f2;"
    either = f"""and.b32 %r9, %r0, 1; setp.eq.u32 %p1, %r9, 0; @%p1 bra $EVEN;
    $ODD: {store} bra $DONE;
    $EVEN: {store}
    $DONE:"""
    found = examine(reference_for(kernel(ADD)), ptx(ADD.replace(store, either)), rewritten=("$ODD", "$EVEN"))
    assert isinstance(found.verdict, Tested)
    assert found.verdict.exercised == 0
    assert found.verdict.least > 5

    assert found.launches > 50
