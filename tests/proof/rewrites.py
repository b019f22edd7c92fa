"""Kernels as numba-cuda 0.30.4 compiles them for sm_90 (kernels/*.ptx) and right rewrites of their hot regions.

``candidate(kernel, unroll)`` replaces the text between two labels or branches. Entry names were shortened; nothing
else was edited. ``FACTS`` are those that Numba's array types promise: extents in [0, 2^62).
"""

from __future__ import annotations

from pathlib import Path

from hybridcc.passes.facts import Fact, Origin, Parameter, Relation

KERNELS = Path(__file__).parent / "kernels"


def base(kernel: str) -> str:
    return (KERNELS / f"{kernel}.ptx").read_text()


def _extents(*indices: int) -> tuple[Fact, ...]:
    found: list[Fact] = []
    for index in indices:
        extent = Parameter(index, f"extent {index}")
        found.append(Fact(extent, Relation.GE, 0, Origin.FRONTEND))
        found.append(Fact(extent, Relation.LT, 1 << 62, Origin.FRONTEND))
    return tuple(found)


def _equal(values: dict[int, int]) -> tuple[Fact, ...]:
    return tuple(Fact(Parameter(k, f"field {k}"), Relation.EQ, v, Origin.FRONTEND) for k, v in values.items())


FACTS: dict[str, tuple[Fact, ...]] = {
    "colsum": _extents(5, 6, 14),
    "conv1d": _extents(5, 12, 19),
    "matmul_naive": _extents(5, 6, 14, 15, 23, 24),
    "nbody": _extents(5, 6, 14, 15),
    "dot_rows": _extents(5, 6, 14, 15, 23),
    "gridstride": _extents(5, 12),
    "mandelbrot": _extents(5, 6),
    "stencil": _extents(5, 6, 14, 15),
    "saxpy": _extents(6, 13),
    "prefix": _extents(5, 6, 14),
    "reduce_shared": _extents(5, 12),
    "turns": _extents(5, 6, 14),
    "warp_sum": _extents(5, 12),
    "gather": _extents(5, 12, 19),
    "saxpy_rows": _extents(6, 7, 15, 16),
    "scale_rows": _extents(5, 6, 14, 21, 22),
    "saxpy_rows_mlir": (*_extents(4, 5, 11, 12), *_equal({3: 0, 7: 1, 10: 0, 14: 1})),
    "scale_rows_mlir": (*_extents(3, 4, 10, 15, 16), *_equal({2: 0, 6: 1, 9: 0, 11: 1, 14: 0, 18: 1})),
}
"""Kernels of numba-cuda-mlir (..._mlir) take offsets and strides in elements; its array types promise these."""


def _counted(pointers: list[tuple[str, str]], body: list[str], count: str, label: str) -> str:
    """``count`` > 0 trips of ``body``; each pointer goes on by its step, a register or a number."""
    lines = [f"{label}:", *body]
    lines += [f"add.s64 {p}, {p}, {step};" for p, step in pointers]
    lines += [f"add.s64 {count}, {count}, -1;", f"setp.ne.s64 %q0, {count}, 0;", f"@%q0 bra {label};"]
    return "\n".join(lines) + "\n"


def _unrolled(pointers: list[tuple[str, str]], body: list[str], count: str, label: str, unroll: int) -> str:
    """``count`` / unroll trips; the bodies follow one another, each with its pointers moved on."""
    lines = [f"{label}:"]
    for _ in range(unroll):
        lines += body
        lines += [f"add.s64 {p}, {p}, {step};" for p, step in pointers]
    lines += [f"add.s64 {count}, {count}, -{unroll};", f"setp.ne.s64 %q1, {count}, 0;", f"@%q1 bra {label};"]
    return "\n".join(lines) + "\n"


def loop(
    setup: list[str],
    trips: str,
    pointers: list[tuple[str, str]],
    body: list[str],
    leave: str,
    unroll: int,
    *,
    remainder_first: bool = False,
) -> str:
    """A counted loop: zero trips leave at once; unrolled, with the remainder in a loop of its own, last or first."""
    text = "\n".join([f"setp.lt.s64 %q2, {trips}, 1;", f"@%q2 bra {leave};", *setup, ""])
    if unroll == 1:
        return text + f"mov.u64 %n0, {trips};\n" + _counted(pointers, body, "%n0", "$ONE")
    text += f"and.b64 %n0, {trips}, {unroll - 1};\nsub.s64 %n1, {trips}, %n0;\n"
    if remainder_first:
        text += "setp.eq.s64 %q3, %n0, 0;\n@%q3 bra $MAIN;\n"
        text += _counted(pointers, body, "%n0", "$ONE")
        text += f"$MAIN:\nsetp.eq.s64 %q3, %n1, 0;\n@%q3 bra {leave};\n"
        return text + _unrolled(pointers, body, "%n1", "$MANY", unroll)
    text += "setp.eq.s64 %q3, %n1, 0;\n@%q3 bra $REST;\n"
    text += _unrolled(pointers, body, "%n1", "$MANY", unroll)
    text += f"$REST:\nsetp.eq.s64 %q3, %n0, 0;\n@%q3 bra {leave};\n"
    return text + _counted(pointers, body, "%n0", "$ONE")


DECLARATIONS = (
    ".reg .pred %q<9>;\n.reg .b64 %n<4>;\n.reg .b64 %a<40>;\n.reg .f32 %g<40>;\n.reg .f64 %h<20>;\n.reg .b32 %i<8>;\n"
)


def spliced(text: str, after: str, before: str, new: str) -> str:
    """Replace what stands between the two anchors."""
    start = text.index(after) + len(after)
    end = text.index(before, start)
    text = f"{text[:start]}\n{new}\n{text[end:]}"
    return text.replace("\t.reg .pred", DECLARATIONS + "\t.reg .pred", 1)


def _colsum(unroll: int) -> str:
    setup = [
        "mov.f32 %f24, 0f00000000;",
        "shl.b64 %a0, %rd2, 2;",
        "add.s64 %a0, %a0, %rd1;",
        "shl.b64 %a1, %rd31, 2;",
    ]
    body = ["ld.global.f32 %g0, [%a0];", "add.f32 %f24, %f24, %g0;"]
    new = "mov.f32 %f24, 0f00000000;\n" + loop(setup, "%rd30", [("%a0", "%a1")], body, "$L__BB0_8", unroll)
    return spliced(base("colsum"), "@%p1 bra 	$L__BB0_9;", "$L__BB0_8:", new)


def _conv1d(unroll: int) -> str:
    setup = ["shl.b64 %a0, %rd3, 2;", "add.s64 %a0, %a0, %rd2;", "mov.u64 %a1, %rd1;"]
    body = ["ld.global.f32 %g0, [%a1];", "ld.global.f32 %g1, [%a0];", "fma.rn.f32 %f29, %g1, %g0, %f29;"]
    new = "mov.f32 %f29, 0f00000000;\n"
    new += loop(setup, "%rd31", [("%a0", "4"), ("%a1", "4")], body, "$L__BB0_8", unroll)
    return spliced(base("conv1d"), "@%p1 bra 	$L__BB0_9;", "$L__BB0_8:", new)


def _matmul(unroll: int) -> str:
    setup = [
        "cvta.to.global.u64 %a4, %rd34;",
        "mul.lo.s64 %a0, %rd2, %rd33;",
        "shl.b64 %a0, %a0, 2;",
        "add.s64 %a0, %a0, %rd1;",
        "shl.b64 %a1, %rd3, 2;",
        "add.s64 %a1, %a1, %a4;",
        "shl.b64 %a2, %rd36, 2;",
    ]
    body = ["ld.global.f32 %g0, [%a1];", "ld.global.f32 %g1, [%a0];", "fma.rn.f32 %f29, %g1, %g0, %f29;"]
    new = "mov.f32 %f29, 0f00000000;\n"
    new += loop(setup, "%rd33", [("%a0", "4"), ("%a1", "%a2")], body, "$L__BB0_8", unroll)
    return spliced(base("matmul_naive"), "@%p3 bra 	$L__BB0_9;", "$L__BB0_8:", new)


def _dot_rows(unroll: int) -> str:
    setup = [
        "mul.lo.s64 %a0, %rd3, %rd32;",
        "shl.b64 %a0, %a0, 2;",
        "add.s64 %a0, %a0, %rd2;",
        "mul.lo.s64 %a1, %rd3, %rd34;",
        "shl.b64 %a1, %a1, 2;",
        "add.s64 %a1, %a1, %rd1;",
    ]
    body = ["ld.global.f32 %g0, [%a1];", "ld.global.f32 %g1, [%a0];", "fma.rn.f32 %f29, %g1, %g0, %f29;"]
    new = "mov.f32 %f29, 0f00000000;\n"
    new += loop(setup, "%rd32", [("%a0", "4"), ("%a1", "4")], body, "$L__BB0_8", unroll)
    return spliced(base("dot_rows"), "@%p1 bra 	$L__BB0_9;", "$L__BB0_8:", new)


NBODY = [
    "ld.global.f32 %g0, [%a0];",
    "ld.global.f32 %g1, [%a0+4];",
    "ld.global.f32 %g2, [%a0+8];",
    "sub.f32 %g3, %g0, %f1;",
    "sub.f32 %g4, %g1, %f2;",
    "sub.f32 %g5, %g2, %f3;",
    "mul.f32 %g6, %g4, %g4;",
    "fma.rn.f32 %g7, %g3, %g3, %g6;",
    "fma.rn.f32 %g8, %g5, %g5, %g7;",
    "add.f32 %g9, %g8, %f25;",
    "sqrt.rn.f32 %g10, %g9;",
    "rcp.rn.f32 %g11, %g10;",
    "mul.f32 %g12, %g11, %g11;",
    "mul.f32 %g13, %g11, %g12;",
    "fma.rn.f32 %f129, %g3, %g13, %f129;",
    "fma.rn.f32 %f128, %g4, %g13, %f128;",
    "fma.rn.f32 %f127, %g5, %g13, %f127;",
]


def _nbody(unroll: int) -> str:
    setup = ["mov.u64 %a0, %rd1;", "shl.b64 %a1, %rd28, 2;"]
    new = loop(setup, "%rd27", [("%a0", "%a1")], NBODY, "$L__BB0_8", unroll)
    return spliced(base("nbody"), "mov.f32 	%f129, %f127;", "$L__BB0_8:", new)


def _prefix(unroll: int) -> str:
    """Each trip loads again what the one before stored."""
    setup = [
        "mul.lo.s64 %a0, %rd2, %rd32;",
        "shl.b64 %a0, %a0, 2;",
        "add.s64 %a0, %a0, %rd1;",
        "add.s64 %a1, %rd32, -1;",
    ]
    body = [
        "ld.global.f32 %g0, [%a0];",
        "ld.global.f32 %g1, [%a0+4];",
        "add.f32 %g2, %g1, %g0;",
        "st.global.f32 [%a0+4], %g2;",
    ]
    new = "add.s64 %a1, %rd32, -1;\n" + loop(setup, "%a1", [("%a0", "4")], body, "$L__BB0_8", unroll)
    return spliced(base("prefix"), "@%p1 bra 	$L__BB0_8;", "$L__BB0_8:", new)


def _prefix_forwarded(unroll: int) -> str:
    """The running sum stays in a register: right, since each trip loads exactly what the one before stored."""
    setup = [
        "mul.lo.s64 %a0, %rd2, %rd32;",
        "shl.b64 %a0, %a0, 2;",
        "add.s64 %a0, %a0, %rd1;",
        "ld.global.f32 %g0, [%a0];",
    ]
    body = ["ld.global.f32 %g1, [%a0+4];", "add.f32 %g0, %g1, %g0;", "st.global.f32 [%a0+4], %g0;"]
    new = "add.s64 %a1, %rd32, -1;\n" + loop(setup, "%a1", [("%a0", "4")], body, "$L__BB0_8", unroll)
    return spliced(base("prefix"), "@%p1 bra 	$L__BB0_8;", "$L__BB0_8:", new)


def _mandelbrot(unroll: int) -> str:
    """A 32-bit counter where the original counts in 64 bits; unrolled, with each exit kept."""

    def trip(k: int) -> str:
        return """mul.f64 %h0, %fd21, %fd21;
mul.f64 %h1, %fd22, %fd22;
sub.f64 %h2, %h1, %h0;
add.f64 %h3, %fd1, %h2;
add.f64 %h4, %fd22, %fd22;
fma.rn.f64 %fd21, %fd21, %h4, %fd2;
add.s32 %r11, %r11, 1;
setp.ge.s32 %q0, %r11, %r3;
@%q0 bra $L__BB0_6;
mul.f64 %h5, %fd21, %fd21;
fma.rn.f64 %h6, %h3, %h3, %h5;
setp.lt.f64 %q1, %h6, 0d4010000000000000;
mov.f64 %fd22, %h3;
"""

    head = "mov.f64 %fd21, 0d0000000000000000;\nmov.f64 %fd22, %fd21;\n$ONE:\n"
    text = head
    for k in range(unroll):
        text += trip(k) + ("@%q1 bra $ONE;\n" if k == unroll - 1 else "@!%q1 bra $L__BB0_6;\n")
    return spliced(base("mandelbrot"), "@%p4 bra 	$L__BB0_6;", "$L__BB0_6:", text)


def _stencil(unroll: int) -> str:
    """One address and byte offsets in place of three."""
    new = """cvta.to.global.u64 %a0, %rd3;
shl.b64 %a1, %rd5, 2;
mul.lo.s64 %a2, %rd1, %rd5;
add.s64 %a2, %a2, %rd2;
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
cvta.to.global.u64 %a5, %rd6;
mad.lo.s64 %a6, %rd1, %rd7, %rd2;
shl.b64 %a6, %a6, 2;
add.s64 %a6, %a6, %a5;
st.global.f32 [%a6], %g7;
"""
    return spliced(base("stencil"), "@%p6 bra 	$L__BB0_3;", "$L__BB0_3:", new)


def _saxpy(unroll: int) -> str:
    """No wraparound: a thread index is never negative."""
    new = """cvta.to.global.u64 %a0, %rd2;
cvta.to.global.u64 %a1, %rd4;
shl.b64 %a2, %rd1, 2;
add.s64 %a0, %a0, %a2;
add.s64 %a1, %a1, %a2;
ld.global.f32 %g0, [%a0];
ld.global.f32 %g1, [%a1];
fma.rn.f32 %g2, %g0, %f1, %g1;
st.global.f32 [%a1], %g2;
"""
    return spliced(base("saxpy"), "@%p1 bra 	$L__BB0_2;", "$L__BB0_2:", new)


def _dot_rows_vector(unroll: int) -> str:
    """Four elements at a time by 128-bit loads, where both rows are aligned; else one at a time."""
    setup = """mul.lo.s64 %a0, %rd3, %rd32;
shl.b64 %a0, %a0, 2;
add.s64 %a0, %a0, %rd2;
mul.lo.s64 %a1, %rd3, %rd34;
shl.b64 %a1, %a1, 2;
add.s64 %a1, %a1, %rd1;
and.b64 %n0, %rd32, 3;
sub.s64 %n1, %rd32, %n0;
or.b64 %a2, %a0, %a1;
and.b64 %a2, %a2, 15;
setp.ne.s64 %q4, %a2, 0;
setp.eq.s64 %q3, %n1, 0;
mov.u64 %n2, %rd32;
@%q4 bra $ONE;
@%q3 bra $REST;
$MANY:
ld.global.v4.f32 {%g0, %g1, %g2, %g3}, [%a0];
ld.global.v4.f32 {%g4, %g5, %g6, %g7}, [%a1];
fma.rn.f32 %f29, %g0, %g4, %f29;
fma.rn.f32 %f29, %g1, %g5, %f29;
fma.rn.f32 %f29, %g2, %g6, %f29;
fma.rn.f32 %f29, %g3, %g7, %f29;
add.s64 %a0, %a0, 16;
add.s64 %a1, %a1, 16;
add.s64 %n1, %n1, -4;
setp.ne.s64 %q1, %n1, 0;
@%q1 bra $MANY;
$REST:
setp.eq.s64 %q3, %n0, 0;
@%q3 bra $L__BB0_8;
mov.u64 %n2, %n0;
"""
    body = ["ld.global.f32 %g0, [%a1];", "ld.global.f32 %g1, [%a0];", "fma.rn.f32 %f29, %g1, %g0, %f29;"]
    new = "mov.f32 %f29, 0f00000000;\nsetp.lt.s64 %q2, %rd32, 1;\n@%q2 bra $L__BB0_8;\n" + setup
    new += _counted([("%a0", "4"), ("%a1", "4")], body, "%n2", "$ONE")
    return spliced(base("dot_rows"), "@%p1 bra 	$L__BB0_9;", "$L__BB0_8:", new)


def _dot_rows_pipelined(unroll: int) -> str:
    """The next pair of elements is loaded before this one is used; the last trip is peeled."""
    new = """mov.f32 %f29, 0f00000000;
setp.lt.s64 %q2, %rd32, 1;
@%q2 bra $L__BB0_8;
mul.lo.s64 %a0, %rd3, %rd32;
shl.b64 %a0, %a0, 2;
add.s64 %a0, %a0, %rd2;
mul.lo.s64 %a1, %rd3, %rd34;
shl.b64 %a1, %a1, 2;
add.s64 %a1, %a1, %rd1;
add.s64 %n0, %rd32, -1;
ld.global.f32 %g0, [%a0];
ld.global.f32 %g1, [%a1];
setp.eq.s64 %q3, %n0, 0;
@%q3 bra $LAST;
$ONE:
add.s64 %a0, %a0, 4;
add.s64 %a1, %a1, 4;
ld.global.f32 %g2, [%a0];
ld.global.f32 %g3, [%a1];
fma.rn.f32 %f29, %g0, %g1, %f29;
mov.f32 %g0, %g2;
mov.f32 %g1, %g3;
add.s64 %n0, %n0, -1;
setp.ne.s64 %q0, %n0, 0;
@%q0 bra $ONE;
$LAST:
fma.rn.f32 %f29, %g0, %g1, %f29;
"""
    return spliced(base("dot_rows"), "@%p1 bra 	$L__BB0_9;", "$L__BB0_8:", new)


def _warp_sum(unroll: int) -> str:
    """Numbers in place of registers, no predicates, and the lane from 32 bits."""
    new = "$L__BB0_2:\nmov.f32 %g0, %f14;\n"
    for step, distance in enumerate((16, 8, 4, 2, 1)):
        new += f"""mov.b32 %i0, %g{step};
shfl.sync.down.b32 %i1, %i0, {distance}, 31, -1;
mov.b32 %g{step + 10}, %i1;
add.f32 %g{step + 1}, %g{step}, %g{step + 10};
"""
    new += "mov.f32 %f3, %g5;\nand.b32 %i2, %r1, 31;\nsetp.ne.s32 %p8, %i2, 0;\n"
    return spliced(base("warp_sum"), "ld.global.f32 	%f14, [%rd13];", "@%p8 bra", new)


def _gridstride(unroll: int) -> str:
    """No wraparound: pointers go on by the stride until the index reaches the extent, and nothing is divided.

    Unrolled, as many trips as the baseline's first loop makes come first, and the trip count is kept.
    """
    trip = [
        "ld.global.f32 %g0, [%a0];",
        "fma.rn.f32 %g1, %g0, %g0, 0f3F800000;",
        "st.global.f32 [%a1], %g1;",
        "add.s64 %a0, %a0, %a2;",
        "add.s64 %a1, %a1, %a2;",
        "add.s64 %n0, %n0, %rd6;",
    ]
    text = """setp.ge.s64 %q2, %rd127, %rd39;
@%q2 bra $L__BB0_12;
shl.b64 %a2, %rd6, 2;
shl.b64 %a3, %rd127, 2;
add.s64 %a0, %a3, %rd2;
add.s64 %a1, %a3, %rd1;
mov.u64 %n0, %rd127;
"""
    if unroll > 1:
        text = text.partition("shl")[1] + text.partition("shl")[2]
        few = [f"and.b64 %n1, %rd121, {unroll - 1};", f"shr.s64 %n2, %rd121, {unroll.bit_length() - 1};"]
        one = ["setp.eq.s64 %q3, %n1, 0;", "@%q3 bra $REST;", "$ONE:", *trip, "add.s64 %n1, %n1, -1;"]
        one += ["setp.ne.s64 %q0, %n1, 0;", "@%q0 bra $ONE;", "$REST:", "setp.eq.s64 %q3, %n2, 0;"]
        many = ["@%q3 bra $L__BB0_12;", "$MANY:", *(trip * unroll), "add.s64 %n2, %n2, -1;"]
        many += ["setp.ne.s64 %q1, %n2, 0;", "@%q1 bra $MANY;"]
        text += "\n".join([*few, *one, *many, ""])
        return spliced(base("gridstride"), "@%p8 bra \t$L__BB0_12;", "$L__BB0_12:", text)
    text += "\n".join(["$ONE:", *trip, "setp.lt.s64 %q0, %n0, %rd39;", "@%q0 bra $ONE;", ""])
    return spliced(base("gridstride"), "mul.wide.s32 \t%rd6, %r2, %r4;", "$L__BB0_12:", text)


def _reduce_shared(unroll: int) -> str:
    """Pointers into the tile and offsets from them, no sign corrections: a thread index is never negative."""
    new = """mov.u64 %a0, _cudapy_smem_1;
shl.b64 %a1, %rd1, 2;
add.s64 %a0, %a0, %a1;
st.shared.f32 [%a0], %f29;
bar.sync 0;
"""
    for n in (128, 64, 32, 16, 8, 4, 2, 1):
        new += f"""setp.ge.u32 %q0, %r1, {n};
@%q0 bra $STEP{n};
ld.shared.f32 %g0, [%a0];
ld.shared.f32 %g1, [%a0+{4 * n}];
add.f32 %g0, %g0, %g1;
st.shared.f32 [%a0], %g0;
$STEP{n}:
bar.sync 0;
"""
    new += """setp.ne.s32 %q0, %r1, 0;
@%q0 bra $L__BB0_20;
ld.shared.f32 %f28, [%a0];
cvta.to.global.u64 %a2, %rd7;
mul.wide.u32 %a3, %r3, 4;
add.s64 %a2, %a2, %a3;
st.global.f32 [%a2], %f28;
"""
    return spliced(base("reduce_shared"), "$L__BB0_2:", "$L__BB0_20:", new)


def _reduce_shared_rolled(unroll: int) -> str:
    """The steps as a loop again, one barrier for eight; ``unroll`` of them to a trip."""
    new = """mov.u64 %a0, _cudapy_smem_1;
shl.b64 %a1, %rd1, 2;
add.s64 %a0, %a0, %a1;
st.shared.f32 [%a0], %f29;
bar.sync 0;
mov.u32 %i0, 128;
$STEP:
"""
    for k in range(unroll):
        new += f"""setp.ge.u32 %q0, %r1, %i0;
@%q0 bra $SKIP{k};
mul.wide.u32 %a2, %i0, 4;
add.s64 %a2, %a2, %a0;
ld.shared.f32 %g0, [%a0];
ld.shared.f32 %g1, [%a2];
add.f32 %g0, %g0, %g1;
st.shared.f32 [%a0], %g0;
$SKIP{k}:
bar.sync 0;
shr.u32 %i0, %i0, 1;
"""
    new += """setp.ne.u32 %q1, %i0, 0;
@%q1 bra $STEP;
setp.ne.s32 %q0, %r1, 0;
@%q0 bra $L__BB0_20;
ld.shared.f32 %f28, [%a0];
cvta.to.global.u64 %a2, %rd7;
mul.wide.u32 %a3, %r3, 4;
add.s64 %a2, %a2, %a3;
st.global.f32 [%a2], %f28;
"""
    return spliced(base("reduce_shared"), "$L__BB0_2:", "$L__BB0_20:", new)


def _turns(unroll: int) -> str:
    """Two barriers to a trip, and as many copies as trips: all threads of a block make equally many."""
    setup = [
        "mov.f32 %f44, 0f00000000;",
        "setp.lt.s64 %q5, %rd4, %rd39;",
        "shl.b64 %a0, %rd4, 2;",
        "add.s64 %a0, %a0, %rd1;",
        "shl.b64 %a1, %rd39, 2;",
        "mov.u64 %a4, _cudapy_smem_1;",
        "shl.b64 %a2, %rd2, 2;",
        "add.s64 %a2, %a2, %a4;",
        "sub.s64 %a3, %rd3, %rd2;",
        "shl.b64 %a3, %a3, 2;",
        "add.s64 %a3, %a3, %a4;",
    ]
    body = [
        "mov.f32 %g0, 0f00000000;",
        "@%q5 ld.global.f32 %g0, [%a0];",
        "st.shared.f32 [%a2], %g0;",
        "bar.sync 0;",
        "ld.shared.f32 %g1, [%a3+-4];",
        "add.f32 %f44, %f44, %g1;",
        "bar.sync 0;",
    ]
    new = loop(setup, "%rd38", [("%a0", "%a1")], body, "$L__BB0_17", unroll)
    return spliced(base("turns"), "@%p4 bra \t$L__BB0_17;", "$L__BB0_17:", new)


REWRITES = {
    "turns": _turns,
    "reduce_shared": _reduce_shared,
    "reduce_shared_rolled": _reduce_shared_rolled,
    "gridstride": _gridstride,
    "warp_sum": _warp_sum,
    "dot_rows_vector": _dot_rows_vector,
    "dot_rows_pipelined": _dot_rows_pipelined,
    "prefix_forwarded": _prefix_forwarded,
    "colsum": _colsum,
    "conv1d": _conv1d,
    "matmul_naive": _matmul,
    "dot_rows": _dot_rows,
    "nbody": _nbody,
    "prefix": _prefix,
    "mandelbrot": _mandelbrot,
    "stencil": _stencil,
    "saxpy": _saxpy,
}


# --- through the splicer, with guards -------------------------------------------------------------------

SAXPY_VECTOR = """// guard: {index} >= 0
// guard: {x} + 4 * {index} * {x_row} multiple of 16
// guard: {y} + 4 * {index} * {y_row} multiple of 16
.reg .pred %p<4>; .reg .b64 %x, %y, %rest, %n; .reg .f32 %v<8>;
setp.lt.s64 %p0, {n}, 1;
@%p0 bra $DONE;
mul.lo.s64 %x, {index}, {x_row};
shl.b64 %x, %x, 2;
add.s64 %x, %x, {x};
mul.lo.s64 %y, {index}, {y_row};
shl.b64 %y, %y, 2;
add.s64 %y, %y, {y};
and.b64 %rest, {n}, 3;
sub.s64 %n, {n}, %rest;
setp.eq.s64 %p1, %n, 0;
@%p1 bra $REST;
$MANY:
ld.global.v4.f32 {{%v0, %v1, %v2, %v3}}, [%x];
ld.global.v4.f32 {{%v4, %v5, %v6, %v7}}, [%y];
fma.rn.f32 %v4, %v0, {a}, %v4;
fma.rn.f32 %v5, %v1, {a}, %v5;
fma.rn.f32 %v6, %v2, {a}, %v6;
fma.rn.f32 %v7, %v3, {a}, %v7;
st.global.v4.f32 [%y], {{%v4, %v5, %v6, %v7}};
add.s64 %x, %x, 16;
add.s64 %y, %y, 16;
add.s64 %n, %n, -4;
setp.ne.s64 %p2, %n, 0;
@%p2 bra $MANY;
$REST:
setp.eq.s64 %p1, %rest, 0;
@%p1 bra $DONE;
$ONE:
ld.global.f32 %v0, [%x];
ld.global.f32 %v4, [%y];
fma.rn.f32 %v4, %v0, {a}, %v4;
st.global.f32 [%y], %v4;
add.s64 %x, %x, 4;
add.s64 %y, %y, 4;
add.s64 %rest, %rest, -1;
setp.ne.s64 %p3, %rest, 0;
@%p3 bra $ONE;
$DONE:
"""
"""Four elements at a time by 128-bit loads and stores. Rows that both begin at multiples of 16 bytes overlap in
whole vectors or not at all, so that the loads may run ahead of the stores."""

SCALE_HOISTED = """// guard: {index} >= 0
// guard: {w}[4] disjoint from {y} + 4 * {index} * {y_row}[4 * {n}]
.reg .pred %p<2>; .reg .b64 %x, %y, %n; .reg .f32 %v<3>;
setp.lt.s64 %p0, {n}, 1;
@%p0 bra $DONE;
mul.lo.s64 %x, {index}, {x_row};
shl.b64 %x, %x, 2;
add.s64 %x, %x, {x};
mul.lo.s64 %y, {index}, {y_row};
shl.b64 %y, %y, 2;
add.s64 %y, %y, {y};
mov.b64 %n, {n};
ld.global.f32 %v0, [{w}];
$ONE:
ld.global.f32 %v1, [%x];
mul.f32 %v2, %v1, %v0;
st.global.f32 [%y], %v2;
add.s64 %x, %x, 4;
add.s64 %y, %y, 4;
add.s64 %n, %n, -1;
setp.ne.s64 %p1, %n, 0;
@%p1 bra $ONE;
$DONE:
"""
"""The factor is loaded once, ahead of all stores: right where it does not lie in the row that is written."""

_SAXPY = {"n": "%in0", "index": "%in1", "x": "%in5", "x_row": "%in0", "y": "%in6", "y_row": "%in4", "a": "%in7"}
_SCALE = {"n": "%in0", "index": "%in1", "x": "%in5", "x_row": "%in0", "w": "%in6", "y": "%in7", "y_row": "%in4"}
GUARDED: dict[str, tuple[str, dict[str, str]]] = {
    "saxpy_rows": (SAXPY_VECTOR, _SAXPY),
    "scale_rows": (SCALE_HOISTED, _SCALE),
    "saxpy_rows_mlir": (
        SAXPY_VECTOR,
        _SAXPY | {"x": "%in9", "x_row": "%in3", "y": "%in12", "y_row": "%in6", "a": "%in13"},
    ),
    "scale_rows_mlir": (
        SCALE_HOISTED,
        _SCALE | {"x": "%in11", "x_row": "%in3", "w": "%in5", "y": "%in14", "y_row": "%in8"},
    ),
}


def region_text(kernel: str) -> str:
    """The rewrite of the kernel's only region, its guards first."""
    text, ports = GUARDED[kernel]
    return text.format_map(ports)


def spliced_in(kernel: str, text: str) -> str:
    """The kernel with an answer in place of its hottest region: checked as an answer, then spliced."""
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.regions.find import find_in
    from hybridcc.passes.rewrite.answer import check
    from hybridcc.passes.splice import splice
    from hybridcc.ptx import parse

    module = parse(base(kernel), kernel)
    subject = Kernel(kernel, kernel, base(kernel), "sm_90", "test", facts=FACTS[kernel])
    region = find_in(module, module.entries[0], subject)[0]
    return splice(module, region, check(text, region).text).text


def candidate(kernel: str, unroll: int = 1) -> str:
    return REWRITES[kernel](unroll)
