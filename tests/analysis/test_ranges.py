"""What is known of registers: every interval must hold whatever the values, and the useful ones must be found."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.analysis.interval import Interval, Known, whole
from hybridcc.passes.analysis.ranges import ranges_at
from hybridcc.passes.analysis.transfer import transfer
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.ptx import parse, parse_statements
from hybridcc.ptx.nodes import Immediate, Instruction, Name, Operand

# --- one instruction ------------------------------------------------------------------------------------


def truncated(a: int, b: int) -> int:
    """Division towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "min": min,
    "max": max,
    "div": truncated,
    "rem": lambda a, b: a - truncated(a, b) * b,
}
UNARY = {"neg": operator.neg, "abs": abs, "not": operator.invert}


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - ((value >> (width - 1)) << width)


def as_type(value: int, kind: str, width: int) -> int:
    """The bits of a signed integer read by a type's sign."""
    return value & ((1 << width) - 1) if kind == "u" else value


def interval_around(draw, value: int, width: int) -> Interval:
    everything = whole(width)
    spread = st.one_of(st.integers(0, 3), st.integers(0, 1 << width))
    low, high = value - draw(spread), value + draw(spread)
    return Interval(max(low, everything.low), min(high, everything.high))


INTERESTING = [0, 1, -1, 2, 31, 32, 1023, 1 << 30, (1 << 31) - 1, -(1 << 31), 1 << 62, (1 << 63) - 1, -(1 << 63)]


@st.composite
def values(draw, width: int) -> int:
    chosen = draw(st.one_of(st.sampled_from(INTERESTING), st.integers(-40, 40), st.integers()))
    return signed(chosen, width)


@st.composite
def cases(draw):
    """(instruction, its operands with intervals that hold, width of the result, the exact result)."""
    width, kind = draw(st.sampled_from([32, 64])), draw(st.sampled_from("su"))
    a, b, c = (draw(values(width)) for _ in range(3))
    form = draw(st.sampled_from([*BINARY, *UNARY, "wide", "mad", "cvt", "shl", "shr", "selp", "mov"]))
    if form in BINARY:
        if form in ("div", "rem") and b == 0:
            b = 1
        if form in ("and", "or", "xor"):
            kind = "b"
        x, y = as_type(a, kind, width), as_type(b, kind, width)
        text, result, out = f"{form}.{kind}{width} %o, %a, %b;", BINARY[form](x, y), width
    elif form in UNARY:
        kind = "b" if form == "not" else "s"
        text, result, out = f"{form}.{kind}{width} %o, %a;", UNARY[form](a), width
    elif form in ("wide", "mad"):
        a, b, width = signed(a, 32), signed(b, 32), 32
        product = as_type(a, kind, 32) * as_type(b, kind, 32)
        if form == "wide":
            text, result, out = f"mul.wide.{kind}32 %o, %a, %b;", product, 64
        else:
            c = signed(c, 64)
            text, result, out = f"mad.wide.{kind}32 %o, %a, %b, %c;", product + c, 64
    elif form == "cvt":
        to, sign = draw(st.sampled_from([32, 64])), draw(st.sampled_from("su"))
        text, result, out = f"cvt.{sign}{to}.{kind}{width} %o, %a;", as_type(a, kind, width), to
    elif form in ("shl", "shr"):
        by = draw(st.integers(0, width - 1))
        if form == "shl":
            text, result = f"shl.b{width} %o, %a, {by};", a << by
        else:
            text, result = f"shr.{kind}{width} %o, %a, {by};", as_type(a, kind, width) >> by
        out = width
    elif form == "selp":
        text, result, out = f"selp.b{width} %o, %a, %b, %p;", draw(st.sampled_from([a, b])), width
    else:
        text, result, out = f"mov.u{width} %o, %a;", a, width
    widths = {"%a": width, "%b": width, "%c": 64 if form == "mad" else width}
    known = {
        name: Known(interval_around(draw, value, widths[name])) for name, value in (("%a", a), ("%b", b), ("%c", c))
    }
    return text, known, widths, out, signed(result, out)


@settings(max_examples=600, deadline=None)
@given(cases())
def test_the_interval_of_a_result_holds_the_result(case):
    text, known, widths, out, result = case
    (instruction,) = parse_statements(text)
    assert isinstance(instruction, Instruction)

    def read(operand: Operand, width: int) -> Known:
        if isinstance(operand, Immediate):
            return Known(Interval(int(operand.text), int(operand.text)))
        assert isinstance(operand, Name)
        return known[operand.text] if widths.get(operand.text) == width else Known(whole(width))

    interval = transfer(instruction, out, read).interval
    assert result in interval
    assert interval.low >= whole(out).low
    assert interval.high <= whole(out).high


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("add.s64 %o, %a, %b;", 64, Interval(5, 1100)),
        ("mul.wide.s32 %o, %a, %b;", 64, Interval(0, 100_000)),
        ("mul.wide.u32 %o, %a, %b;", 64, Interval(0, 100_000)),
        ("cvt.s64.s32 %o, %a;", 64, Interval(0, 100)),
        ("cvt.u64.u32 %o, %a;", 64, Interval(0, 100)),
        ("and.b32 %o, %z, 3;", 32, Interval(0, 3)),
        ("shl.b32 %o, %a, 2;", 32, Interval(0, 400)),
        ("shr.u32 %o, %z, 31;", 32, Interval(0, 1)),
        ("rem.s32 %o, %a, %b;", 32, Interval(0, 100)),
        ("ld.global.u8 %o, [%rd];", 32, Interval(0, 255)),
        ("ld.global.s16 %o, [%rd];", 32, Interval(-32768, 32767)),
        ("ld.global.b8 %o, [%rd];", 32, whole(32)),
        ("add.sat.s32 %o, %a, %b;", 32, whole(32)),
        ("addc.s32 %o, %a, %b;", 32, whole(32)),
        ("mul.hi.s32 %o, %a, %b;", 32, whole(32)),
        ("cvt.rzi.s32.f32 %o, %a;", 32, whole(32)),
    ],
)
def test_what_plain_operations_are_known_to_give(text, width, expected):
    (instruction,) = parse_statements(text)
    assert isinstance(instruction, Instruction)
    known = {"%a": Interval(0, 100), "%b": Interval(5, 1000)}

    def read(operand: Operand, bits: int) -> Known:
        if isinstance(operand, Immediate):
            return Known(Interval(int(operand.text), int(operand.text)))
        return Known(known.get(operand.text, whole(bits)) if isinstance(operand, Name) else whole(bits))

    assert transfer(instruction, width, read).interval == expected


# --- whole kernels --------------------------------------------------------------------------------------

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 p, .param .u64 n, .param .u32 m) {attributes}\n{{\n"
    ".reg .pred %p<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>;\n"
    "ld.param.u64 %rd1, [n]; ld.param.u32 %r9, [m];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x;\n"
)
FACTS = (
    Fact(Parameter(1, "n"), Relation.GE, 0, Origin.FRONTEND),
    Fact(Parameter(1, "n"), Relation.LT, 1 << 62, Origin.FRONTEND),
)


def known_at(body: str, register: str, *, label: str = "HERE", attributes: str = "") -> Known:
    module = parse(HEAD.format(attributes=attributes) + body + "\nret;\n}\n")
    graph = graphs.build(module.entries[0], module)
    block = next(b.index for b in graph.blocks if label in map(graph.scoped.spelling, b.labels))
    known = ranges_at(graph, FACTS, block).of(register)
    assert known is not None
    return known


USE = "HERE: st.global.u64 [%rd2], %rd1;"


def test_a_thread_index_is_not_negative_in_64_bits_and_may_wrap_in_32():
    wide = "mul.wide.s32 %rd2, %r2, %r3; cvt.s64.s32 %rd3, %r1; add.s64 %rd4, %rd2, %rd3;"
    assert known_at(f"{wide} {USE}", "%rd4").interval == Interval(0, 1024 * ((1 << 31) - 2) + 1023)
    assert known_at(f"{wide} {USE}", "%rd4").origin is Origin.ISA
    narrow = "mad.lo.s32 %r4, %r2, %r3, %r1; cvt.s64.s32 %rd4, %r4;"
    assert known_at(f"{narrow} {USE}", "%rd4").interval == whole(32)
    assert known_at(f"{narrow} {USE}", "%r4").interval == whole(32)


def test_launch_bounds_bound_the_block():
    known = known_at(USE, "%r1", attributes=".maxntid 128, 1, 1")
    assert known.interval == Interval(0, 127)
    assert known.origin is Origin.FRONTEND
    assert known_at(USE, "%r2", attributes=".reqntid 64, 2, 1").interval == Interval(64, 64)


def test_parameter_facts_reach_registers_with_their_origin():
    known = known_at(USE, "%rd1")
    assert (known.interval, known.origin) == (Interval(0, (1 << 62) - 1), Origin.FRONTEND)
    assert known_at(USE, "%r9").interval == whole(32)


def test_a_dominating_branch_bounds_what_it_compared():
    body = "setp.lt.s64 %p1, %rd1, 1; @%p1 bra OUT; add.s64 %rd5, %rd1, -1; bra HERE; " + USE + " OUT:"
    assert known_at(body, "%rd1").interval.low == 1
    assert known_at(body, "%rd1").origin is Origin.INVARIANT
    assert known_at(body, "%rd5").interval == Interval(0, (1 << 62) - 2)


def test_where_the_branch_does_not_dominate_nothing_is_concluded():
    body = "setp.lt.s64 %p1, %rd1, 1; @%p1 bra HERE; add.s64 %rd5, %rd1, -1; " + USE
    assert known_at(body, "%rd1").interval.low == 0


@pytest.mark.parametrize(
    ("test", "low", "high"),
    [
        ("setp.lt.s64 %p1, %rd1, 9; @!%p1 bra OUT;", 0, 8),
        ("setp.le.s64 %p1, %rd1, 9; @!%p1 bra OUT;", 0, 9),
        ("setp.eq.s64 %p1, %rd1, 9; @!%p1 bra OUT;", 9, 9),
        ("setp.ne.s64 %p1, %rd1, 0; @!%p1 bra OUT;", 1, (1 << 62) - 1),
        ("setp.gt.s64 %p1, 9, %rd1; @!%p1 bra OUT;", 0, 8),
        ("setp.lt.u64 %p1, %rd1, 9; @!%p1 bra OUT;", 0, 8),
        ("setp.lt.s64 %p2, %rd1, 3; setp.gt.s64 %p3, %rd1, 7; or.pred %p1, %p2, %p3; @%p1 bra OUT;", 3, 7),
        ("setp.ge.s64 %p2, %rd1, 3; setp.le.s64 %p3, %rd1, 7; and.pred %p1, %p2, %p3; @!%p1 bra OUT;", 3, 7),
        ("setp.ge.s64 %p2, %rd1, 3; not.pred %p1, %p2; @%p1 bra OUT;", 3, (1 << 62) - 1),
        # a conjunction that fails, and a disjunction that holds, settle neither of their parts
        ("setp.ge.s64 %p2, %rd1, 3; setp.le.s64 %p3, %rd1, 7; and.pred %p1, %p2, %p3; @%p1 bra OUT;", 0, (1 << 62) - 1),
        ("setp.lt.s64 %p2, %rd1, 3; setp.gt.s64 %p3, %rd1, 7; or.pred %p1, %p2, %p3; @!%p1 bra OUT;", 0, (1 << 62) - 1),
        # floating point, or another width, says nothing
        ("setp.lt.s32 %p1, %r9, 9; @!%p1 bra OUT;", 0, (1 << 62) - 1),
    ],
)
def test_conditions_and_their_combinations(test, low, high):
    assert known_at(f"{test} {USE} OUT:", "%rd1").interval == Interval(low, high)


def test_an_unsigned_comparison_with_a_bound_shows_a_sign():
    body = "setp.ge.u32 %p1, %r9, 100; @%p1 bra OUT; " + USE + " OUT:"
    assert known_at(body, "%r9").interval == Interval(0, 99)
    huge = "setp.ge.u32 %p1, %r9, 0xfffffff0; @%p1 bra OUT; " + USE + " OUT:"
    assert known_at(huge, "%r9").interval == whole(32)


def test_a_counter_is_known_where_its_loop_begins_and_not_inside():
    body = "mov.u64 %rd5, 7; bra TOP; TOP: bra HERE; " + (
        "HERE: add.s64 %rd5, %rd5, 1; setp.lt.s64 %p1, %rd5, %rd1; @%p1 bra HERE;"
    )
    assert known_at(body, "%rd5", label="TOP").interval == Interval(7, 7)
    assert known_at(body, "%rd5", label="HERE").interval == whole(64)


def test_a_bound_of_this_trip_says_nothing_of_a_value_from_the_last():
    """%rd6 holds twice the counter of the trip before, which the test at the top of this one has not seen."""
    body = """
        mov.u64 %rd5, 0; mov.u64 %rd6, 0;
    TOP:
        ld.global.u64 %rd5, [%rd1];
        setp.lt.u64 %p1, %rd5, 10;
        @!%p1 bra NEXT;
        bra HERE;
    HERE:
        st.global.u64 [%rd1], %rd6;
    NEXT:
        and.b64 %rd6, %rd5, -1;
        setp.ne.s64 %p2, %rd5, 99;
        @%p2 bra TOP;
    """
    assert known_at(body, "%rd6").interval == whole(64)


def test_guarded_definitions_may_not_have_happened():
    body = "setp.lt.s64 %p1, %rd1, 5; mov.u64 %rd5, -3; @%p1 mov.u64 %rd5, 4; bra HERE; " + USE
    assert known_at(body, "%rd5").interval == Interval(-3, 4)


def test_comparisons_of_registers_are_kept():
    module = parse(
        HEAD.format(attributes="")
        + "cvt.s64.s32 %rd4, %r1; setp.ge.s64 %p1, %rd4, %rd1; @%p1 bra OUT; "
        + USE
        + " OUT: ret; }"
    )
    graph = graphs.build(module.entries[0], module)
    block = next(b.index for b in graph.blocks if "HERE" in b.labels)
    (comparison,) = ranges_at(graph, FACTS, block).comparisons
    assert (comparison.left, comparison.relation, comparison.right) == ("%rd4", Relation.LT, "%rd1")
