"""What races for a case, made without a GPU: judged answers, Numba's code, the twin."""

import pytest

from benchmarks.suite import answers
from benchmarks.suite import case as cases
from benchmarks.suite.building import build
from benchmarks.suite.rehearsing import misfits
from hybridcc.passes.rewrite import recording
from hybridcc.passes.rewrite.recording import Recorded


def test_a_kernel_without_answers_has_all_but_rewrites():
    case = cases.load("rgb_to_gray")
    built = build(case, "sm_90", rewriter="none")
    assert built.variants == ()
    assert (built.answers, built.body) == (0, True)
    assert built.stock.cubin != built.fastmath.cubin
    assert built.twin.entry == "rgb_to_gray"
    assert misfits(case, built) == ()


LOOP = """```ptx
.reg .pred %p<2>;
.reg .b64 %ptr, %left, %offset;
.reg .f32 %x<4>, %d;
    mov.f32 %out0, 0f00000000;
    mul.lo.s64 %offset, %in0, %in2;
    shl.b64 %offset, %offset, 2;
    add.s64 %ptr, DATA, %offset;
    mov.b64 %left, %in2;
    setp.lt.s64 %p0, %left, 1;
    @%p0 bra $DONE;
$NEXT:
    .pragma "nounroll";
    ld.global.f32 %x0, [%ptr];
    add.s64 %ptr, %ptr, 4;
    add.s64 %left, %left, -1;
BODY
    setp.ge.s64 %p1, %left, 1;
    @%p1 bra $NEXT;
$DONE:
```"""

BODIES = {
    "r0": ("%in5", "    add.f32 %out0, %out0, %x0;"),
    "r1": ("%in6", "    sub.f32 %d, %x0, %in7;\n    fma.rn.f32 %out0, %d, %d, %out0;"),
}
"""By region of row_variance: where its data pointer comes in, and what its loop does with an element."""


@pytest.mark.slow
def test_rewrites_of_two_loops_are_proved_alone_and_together(tmp_path):
    case = cases.load("row_variance")
    asked = answers.prompts_of(case)
    texts = [LOOP.replace("DATA", data).replace("BODY", body) for data, body in BODIES.values()]
    kept = [
        Recorded(each.prompt.hash, each.prompt.template_version, "written for this test", "2026-12-01", text)
        for each, text in zip(asked, texts, strict=True)
    ]
    recording.write(tmp_path / "made.answers.jsonl", kept)
    built = build(case, "sm_90", rewriter=f"replay:{tmp_path / 'made.answers.jsonl'}")
    assert {variant.contender.name: variant.verdict for variant in built.variants} == {
        "r0-0+r1-0": "proved", "r0-0": "proved", "r1-0": "proved",
    }  # fmt: skip
    assert all(variant.policies == ("proved", "tested") for variant in built.variants)
    assert misfits(case, built) == ()
