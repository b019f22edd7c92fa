"""The kernels of sources.py as numba-cuda-mlir 0.5 compiles them for sm_90 (kernels/mlir), and right rewrites.

A thread index is computed in 32 bits there and may be negative, so a rewrite keeps the wraparound of what is indexed
by the thread. ``FACTS`` are those of the frontend: extents in [0, 2^62), no offset, a last stride of one element.
"""

from __future__ import annotations

import re

from rewrites import DECLARATIONS, KERNELS, NBODY, loop

from hybridcc.passes.facts import Fact, Origin, Parameter, Relation


def base(kernel: str) -> str:
    return (KERNELS / "mlir" / f"{kernel}.ptx").read_text()


def _facts(*arguments: int) -> tuple[Fact, ...]:
    """``arguments``: the axes of each array, 0 for a number. An array is two pointers, offset, extents, strides."""
    found: list[Fact] = []
    at = 0
    for axes in arguments:
        if axes == 0:
            at += 1
            continue
        found.append(Fact(Parameter(at + 2, "offset"), Relation.EQ, 0, Origin.FRONTEND))
        for extent in (Parameter(at + 3 + k, f"extent {k}") for k in range(axes)):
            found.append(Fact(extent, Relation.GE, 0, Origin.FRONTEND))
            found.append(Fact(extent, Relation.LT, 1 << 62, Origin.FRONTEND))
        found.append(Fact(Parameter(at + 2 + 2 * axes, "stride"), Relation.EQ, 1, Origin.FRONTEND))
        at += 3 + 2 * axes
    return tuple(found)


FACTS = {
    "conv1d": _facts(1, 1, 1),
    "colsum": _facts(2, 1),
    "matmul_naive": _facts(2, 2, 2),
    "nbody": _facts(2, 2, 0),
    "gridstride": _facts(1, 1),
    "dot_rows": _facts(2, 2, 1),
    "mandelbrot": _facts(2, 0, 0, 0, 0, 0),
    "stencil": _facts(2, 2),
    "saxpy": _facts(0, 1, 1),
    "prefix": _facts(2, 1),
    "reduce_shared": _facts(1, 1),
}


def _spliced(kernel: str, after: str, before: str, new: str) -> str:
    text = base(kernel)
    start = text.index(after) + len(after)
    end = text.index(before, start)
    text = f"{text[:start]}\n{new}\n{text[end:]}"
    return text.replace("\t.reg .pred", DECLARATIONS + "\t.reg .pred", 1)


def _wrapped(target: str, index: str, extent: str) -> list[str]:
    """``index``, or ``index + extent`` where it is negative."""
    return [
        f"shr.s64 {target}, {index}, 63;",
        f"and.b64 {target}, {target}, {extent};",
        f"add.s64 {target}, {target}, {index};",
    ]


def _row(target: str, index: str, extent: str, stride: str, start: str) -> list[str]:
    """The address of a row by its index."""
    return [
        *_wrapped(target, index, extent),
        f"mul.lo.s64 {target}, {target}, {stride};",
        f"shl.b64 {target}, {target}, 2;",
        f"add.s64 {target}, {target}, {start};",
    ]


def _element(target: str, index: str, extent: str, start: str) -> list[str]:
    return [
        *_wrapped(target, index, extent),
        f"shl.b64 {target}, {target}, 2;",
        f"add.s64 {target}, {target}, {start};",
    ]


def _colsum(unroll: int) -> str:
    setup = [*_element("%a0", "%rd2", "%rd31", "%rd1"), "shl.b64 %a1, %rd32, 2;"]
    body = ["ld.global.f32 %g0, [%a0];", "add.f32 %f24, %f24, %g0;"]
    new = loop(setup, "%rd30", [("%a0", "%a1")], body, "$L__BB0_8", unroll)
    return _spliced("colsum", "@%p2 bra 	$L__BB0_8;", "$L__BB0_8:", new)


FMA = ["ld.global.f32 %g0, [%a1];", "ld.global.f32 %g1, [%a2];", "fma.rn.f32 %f29, %g1, %g0, %f29;"]


def _conv1d(unroll: int) -> str:
    setup = ["mov.u64 %a0, %rd3;", "mov.u64 %a1, %rd1;"]
    body = [*_element("%a2", "%a0", "%rd30", "%rd2"), *FMA]
    new = loop(setup, "%rd33", [("%a0", "1"), ("%a1", "4")], body, "$L__BB0_8", unroll)
    return _spliced("conv1d", "@%p2 bra 	$L__BB0_8;", "$L__BB0_8:", new)


def _dot_rows(unroll: int) -> str:
    setup = [*_row("%a2", "%rd3", "%rd30", "%rd32", "%rd2"), *_row("%a1", "%rd3", "%rd35", "%rd37", "%rd1")]
    new = loop(setup, "%rd31", [("%a2", "4"), ("%a1", "4")], FMA, "$L__BB0_8", unroll)
    return _spliced("dot_rows", "@%p2 bra 	$L__BB0_8;", "$L__BB0_8:", new)


def _matmul(unroll: int) -> str:
    setup = [
        *_row("%a2", "%rd3", "%rd33", "%rd35", "%rd2"),
        *_element("%a1", "%rd4", "%rd39", "%rd1"),
        "shl.b64 %a3, %rd40, 2;",
    ]
    new = loop(setup, "%rd34", [("%a2", "4"), ("%a1", "%a3")], FMA, "$L__BB0_9", unroll)
    return _spliced("matmul_naive", "@%p3 bra 	$L__BB0_9;", "$L__BB0_9:", new)


def _nbody(unroll: int) -> str:
    setup = ["mov.u64 %a0, %rd2;", "shl.b64 %a1, %rd31, 2;"]
    new = loop(setup, "%rd30", [("%a0", "%a1")], NBODY, "$L__BB0_8", unroll)
    return _spliced("nbody", "@%p3 bra 	$L__BB0_8;", "$L__BB0_8:", new)


def _prefix(unroll: int) -> str:
    body = [
        "ld.global.f32 %g0, [%a0];",
        "ld.global.f32 %g1, [%a0+4];",
        "add.f32 %g2, %g1, %g0;",
        "st.global.f32 [%a0+4], %g2;",
    ]
    new = loop(_row("%a0", "%rd2", "%rd30", "%rd32", "%rd1"), "%rd35", [("%a0", "4")], body, "$L__BB0_8", unroll)
    return _spliced("prefix", "@%p2 bra 	$L__BB0_8;", "$L__BB0_8:", new)


def _gridstride(unroll: int) -> str:
    """The trip count stays as it is, and where the loop is unrolled its remainder goes first, as Numba has it."""
    body = [
        *_element("%a1", "%a0", "%rd37", "%rd2"),
        *_element("%a2", "%a0", "%rd40", "%rd1"),
        "ld.global.f32 %g0, [%a1];",
        "fma.rn.f32 %g1, %g0, %g0, 0f3F800000;",
        "st.global.f32 [%a2], %g1;",
    ]
    new = loop(["mov.u64 %a0, %rd152;"], "%rd54", [("%a0", "%rd4")], body, "$L__BB0_14", unroll, remainder_first=True)
    return _spliced("gridstride", "@%p7 bra 	$L__BB0_14;", "$L__BB0_14:", new)


def _mandelbrot(unroll: int) -> str:
    """A 32-bit counter where the original counts in 64 bits; unrolled, with each exit kept."""
    trip = """mul.f64 %h0, %fd21, %fd21;
mul.f64 %h1, %fd22, %fd22;
sub.f64 %h2, %h1, %h0;
add.f64 %h3, %fd1, %h2;
add.f64 %h4, %fd22, %fd22;
fma.rn.f64 %fd21, %fd21, %h4, %fd2;
add.s32 %r15, %r15, 1;
setp.ge.s32 %q0, %r15, %r4;
@%q0 bra $L__BB0_7;
mul.f64 %h5, %fd21, %fd21;
fma.rn.f64 %h6, %h3, %h3, %h5;
setp.lt.f64 %q1, %h6, 0d4010000000000000;
mov.f64 %fd22, %h3;
"""
    new = "mov.f64 %fd21, 0d0000000000000000;\nmov.f64 %fd22, %fd21;\n$ONE:\n"
    new += (trip + "@!%q1 bra $L__BB0_7;\n") * (unroll - 1) + trip + "@%q1 bra $ONE;\n"
    return _spliced("mandelbrot", "@%p3 bra 	$L__BB0_7;", "$L__BB0_7:", new)


def _stencil(unroll: int) -> str:
    """One address and byte offsets."""
    new = """cvta.to.global.u64 %a0, %rd3;
shl.b64 %a1, %rd6, 2;
mad.lo.s64 %a2, %rd1, %rd6, %rd2;
shl.b64 %a2, %a2, 2;
add.s64 %a2, %a0, %a2;
sub.s64 %a3, %a2, %a1;
add.s64 %a4, %a2, %a1;
ld.global.f32 %g0, [%a3];
ld.global.f32 %g1, [%a4];
add.f32 %g2, %g0, %g1;
ld.global.f32 %g3, [%a2+-4];
add.f32 %g4, %g2, %g3;
ld.global.f32 %g5, [%a2+4];
add.f32 %g6, %g4, %g5;
mul.f32 %g7, %g6, 0f3E800000;
cvta.to.global.u64 %a5, %rd8;
mad.lo.s64 %a6, %rd1, %rd10, %rd2;
shl.b64 %a6, %a6, 2;
add.s64 %a6, %a6, %a5;
st.global.f32 [%a6], %g7;
"""
    return _spliced("stencil", "@%p6 bra 	$L__BB0_3;", "$L__BB0_3:", new)


def _saxpy(unroll: int) -> str:
    new = [
        "cvta.to.global.u64 %a2, %rd2;",
        "cvta.to.global.u64 %a3, %rd6;",
        *_element("%a0", "%rd1", "%rd4", "%a2"),
        *_element("%a1", "%rd1", "%rd8", "%a3"),
        "ld.global.f32 %g0, [%a0];",
        "ld.global.f32 %g1, [%a1];",
        "fma.rn.f32 %g2, %g0, %f1, %g1;",
        "st.global.f32 [%a1], %g2;",
    ]
    return _spliced("saxpy", "@%p1 bra 	$L__BB0_2;", "$L__BB0_2:", "\n".join(new))


def _reduce_shared(unroll: int) -> str:
    """No wraparound: a thread index in a block is never negative. Every barrier stays."""
    step = re.compile(
        r"setp\.lt\.s32 \t%p\d+, %r\d, -\d+;\n\tselp\.b64 \t%rd\d+, \d+, (\d+), %p\d+;\n.*\n.*\n.*\n"
        r"\tld\.shared\.f32 \t(%f\d+), \[%rd\d+\];"
    )
    text, steps = step.subn(lambda m: f"ld.shared.f32 {m[2]}, [%rd3+{4 * int(m[1])}];", base("reduce_shared"))
    assert steps == 8
    return text


REWRITES = {
    "colsum": _colsum,
    "conv1d": _conv1d,
    "matmul_naive": _matmul,
    "dot_rows": _dot_rows,
    "nbody": _nbody,
    "prefix": _prefix,
    "gridstride": _gridstride,
    "mandelbrot": _mandelbrot,
    "stencil": _stencil,
    "saxpy": _saxpy,
    "reduce_shared": _reduce_shared,
}
LOOPS = ("colsum", "conv1d", "matmul_naive", "dot_rows", "nbody", "prefix", "gridstride", "mandelbrot")


def candidate(kernel: str, unroll: int = 1) -> str:
    return REWRITES[kernel](unroll)
