"""Wrong rewrites as a language model writes them, through the whole path: none may be ``tested`` where a launch that
the kernel's types allow tells them apart. The right rewrite of each kernel stands beside them, and is ``tested``."""

from pathlib import Path

import pytest

from hybridcc.asking import prompts_of
from hybridcc.building import build
from hybridcc.passes.rewrite import recording
from hybridcc.passes.rewrite.recording import Recorded
from hybridcc.passes.verdict import Refuted, Tested
from hybridcc.sources import load

KERNELS = """
from numba import cuda, float32
import hybridcc

@hybridcc.jit("void(float32[::1], int32[::1], float32[::1])")
def gather(x, index, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(index.shape[0]):
            s += x[index[k]]
        y[i] = s

@hybridcc.jit("void(float32[::1], float32[::1], int64)")
def decay(x, y, n):
    i = cuda.grid(1)
    if i < y.shape[0]:
        for k in range(n):
            y[i] = y[i] * float32(0.5) + x[i]

@hybridcc.jit("void(float32[:,:], float32[:])")
def colsum(a, y):
    j = cuda.grid(1)
    if j < y.shape[0]:
        s = float32(0)
        for k in range(a.shape[0]):
            s += a[k, j]
        y[j] = s

@hybridcc.jit("void(float32[::1], float32[::1])")
def double(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < y.shape[0]:
        y[i] = x[i] * float32(2)
        i += step
"""

GATHER = """
.reg .pred %p; .reg .b64 %n, %q, %i, %s, %a; .reg .f32 %v;
    mov.f32 %out0, 0f00000000; mov.b64 %n, %in0; mov.b64 %q, %in1;
    setp.lt.s64 %p, %n, 1; @%p bra E;
L:  ld.global.s32 %i, [%q];
    shr.s64 %s, %i, 63; and.b64 %s, %s, %in2; add.s64 %i, %i, %s;
    shl.b64 %i, %i, 2; add.s64 %a, %in3, %i; ld.global.f32 %v, [%a];
    add.f32 %out0, %out0, %v;
    add.s64 %q, %q, 4; add.s64 %n, %n, -1; setp.gt.s64 %p, %n, 0; @%p bra L;
E:
"""
DECAY = """
.reg .pred %p; .reg .b64 %n, %o, %x, %y; .reg .f32 %a, %b;
    mov.b64 %n, %in0;
    setp.lt.s64 %p, %n, 1; @%p bra E;
    shl.b64 %o, %in1, 2; add.s64 %y, %in3, %o; add.s64 %x, %in5, %o; ld.global.f32 %a, [%y];
L:  ld.global.f32 %b, [%x];
    fma.rn.f32 %a, %a, 0f3F000000, %b; st.global.f32 [%y], %a;
    add.s64 %n, %n, -1; setp.gt.s64 %p, %n, 0; @%p bra L;
E:
"""
COLSUM = """
.reg .pred %p; .reg .b64 %n, %o, %x, %step; .reg .f32 %b;
    mov.f32 %out0, 0f00000000; mov.b64 %n, %in0;
    setp.lt.s64 %p, %n, 1; @%p bra E;
    mul.lo.s64 %o, %in1, %in3; add.s64 %x, %in4, %o; mov.b64 %step, %in5;
L:  ld.f32 %b, [%x]; add.f32 %out0, %out0, %b; add.s64 %x, %x, %step;
    add.s64 %n, %n, -1; setp.gt.s64 %p, %n, 0; @%p bra L;
E:
"""
DOUBLE = """
.reg .pred %p; .reg .b64 %i, %o, %x, %y, %step; .reg .f32 %v; .reg .b32 %r;
    mov.b64 %i, %in0; mov.b64 %step, %in1;
L:  shl.b64 %o, %i, 2; add.s64 %x, %in4, %o; add.s64 %y, %in5, %o;
    ld.global.f32 %v, [%x]; add.f32 %v, %v, %v; st.global.f32 [%y], %v;
    add.s64 %i, %i, %step; setp.lt.s64 %p, %i, %in2; @%p bra L;
"""

SHARED_LOAD = "ld.global.f32 %b, [%x];\n"
ZERO_TRIP = "setp.lt.s64 %p, %n, 1; @%p bra E;"

WRONG = {
    "gather": (
        GATHER,
        {
            "negative indices do not wrap": ("shr.s64 %s, %i, 63; and.b64 %s, %s, %in2; add.s64 %i, %i, %s;", ""),
            "runs once where there is nothing": (ZERO_TRIP, ""),
            "one short": ("mov.b64 %n, %in0;", "add.s64 %n, %in0, -1;"),
            "one too many": ("mov.b64 %n, %in0;", "add.s64 %n, %in0, 1;"),
            "another step": ("%q, %q, 4", "%q, %q, 8"),
        },
    ),
    "decay": (
        DECAY,
        {
            "a negative count is not none": (ZERO_TRIP, "setp.eq.s64 %p, %n, 0; @%p bra E;"),
            "a count of 32 bits": (
                "mov.b64 %n, %in0;",
                ".reg .b32 %m; cvt.u32.u64 %m, %in0; cvt.s64.s32 %n, %m;",
            ),
            "load hoisted over a store that may alias": ("L:  " + SHARED_LOAD, SHARED_LOAD + "L:\n"),
            "store sunk below loads that may alias": (
                "st.global.f32 [%y], %a;\n    add.s64 %n, %n, -1; setp.gt.s64 %p, %n, 0; @%p bra L;",
                "add.s64 %n, %n, -1; setp.gt.s64 %p, %n, 0; @%p bra L;\n    st.global.f32 [%y], %a;",
            ),
            "fma the other way round": ("%a, 0f3F000000, %b", "%b, 0f3F000000, %a"),
        },
    ),
    "colsum": (
        COLSUM,
        {
            "rows lie close": ("mov.b64 %step, %in5;", "mul.lo.s64 %step, %in2, %in3;"),
            "rows lie close, whatever the sign": (
                "mov.b64 %step, %in5;",
                "abs.s64 %step, %in3; mul.lo.s64 %step, %step, %in2;",
            ),
            "rows go upwards": ("mov.b64 %step, %in5;", "abs.s64 %step, %in5;"),
            "elements lie close": ("mul.lo.s64 %o, %in1, %in3;", "shl.b64 %o, %in1, 2;"),
            "sum from the other end": (
                "mov.b64 %step, %in5;",
                "add.s64 %o, %n, -1; mul.lo.s64 %o, %o, %in5; add.s64 %x, %x, %o; neg.s64 %step, %in5;",
            ),
        },
    ),
    "double": (
        DOUBLE,
        {
            "blocks of 32": (
                "mov.b64 %step, %in1;",
                "mov.u32 %r, %nctaid.x; mul.wide.u32 %step, %r, 32;",
            ),
            "one block": ("mov.b64 %step, %in1;", "mov.u32 %r, %ntid.x; cvt.u64.u32 %step, %r;"),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rewrites_are_refuted_and_the_right_one_is_not(name: str, tmp_path: Path) -> None:
    right, changes = WRONG[name]
    for old, _ in changes.values():
        assert old in right
    source = tmp_path / "kernels.py"
    source.write_text(KERNELS)
    (prompt,) = prompts_of(load(f"{source}:{name}", ["sm_80"])[0])
    texts = [right, *(right.replace(old, new) for old, new in changes.values())]
    recording.write(
        tmp_path / "hand.jsonl",
        [Recorded(prompt.hash, prompt.template_version, "by hand", "2026-01-01", f"```ptx\n{t}```") for t in texts],
    )
    (built,) = build(
        f"{source}:{name}",
        tmp_path / "out",
        arch=["sm_80"],
        rewriter=f"replay:{tmp_path / 'hand.jsonl'}",
        accept="tested",
        answers=len(texts),
    )
    (architecture,) = built.record.architectures
    verdicts = {
        label: candidate.evidence.verdict if candidate.evidence else candidate.fate
        for label, candidate in zip(["right", *changes], architecture.candidates, strict=True)
    }
    assert isinstance(verdicts.pop("right"), Tested)
    assert {label: verdict for label, verdict in verdicts.items() if not isinstance(verdict, Refuted)} == {}
