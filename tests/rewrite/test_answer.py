"""Answers as models give them: what is a rewrite passes, and each way of being none has its code and its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.errors import AnswerRejected
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.rewrite.answer import check
from hybridcc.passes.rewrite.extract import MOST_CHARACTERS
from hybridcc.passes.rewrite.rejection import NEXT_STEPS
from hybridcc.ptx import parse_statements
from tests.rewrite.made import AFTER, BEFORE, region


def fenced(code: str, language: str = "ptx") -> str:
    return f"```{language}\n{code}\n```"


def changed(old: str, new: str) -> str:
    assert old in AFTER
    return fenced(AFTER.replace(old, new, 1))


ROUNDED = """
.reg .f32 %t0, %t1;
.reg .f64 %t2;
mul.rn.f32 %t0, %in0, %in0;
add.rn.ftz.f32 %t1, %t0, %in0;
div.rn.f32 %t1, %t1, %t0;
fma.rn.f32 %out0, %t1, %t1, %t0;
"""


@pytest.mark.parametrize(
    "answer",
    [
        fenced(AFTER),
        AFTER,
        fenced(AFTER, ""),
        f"~~~\n{AFTER}\n~~~",
        f"Here is the rewrite:\n\n{fenced(AFTER)}\n\nIt batches four loads \u2014 as asked.",
        f"First the original:\n{fenced(BEFORE)}\nand now mine:\n{fenced(AFTER)}",
        f"<think>\nwhat about ```shared``` memory?\n```\nno\n```\n</think>\n{fenced(AFTER)}<|im_end|>",
        f"reasoning that the template opened</think>{fenced(AFTER)}</s>",
        f"<|im_start|>assistant\n{fenced(AFTER)}<|eot_id|>",
        fenced(AFTER.replace("$MAIN:", "$MAIN: // four at a time \u2013 no waiting \u00d7")),
        fenced(AFTER.replace("\n", "\r\n")),
        fenced("{\n" + AFTER + "\n}"),
        "\ufeff" + fenced(AFTER),
    ],
)
def test_whatever_stands_round_a_right_answer_comes_off(answer: str) -> None:
    rewrite = check(answer, region())
    assert rewrite.text.isascii()
    assert "//" not in rewrite.text
    assert "%v3" in rewrite.text
    assert parse_statements(rewrite.text) == rewrite.statements


def test_guards_are_the_comments_that_stay() -> None:
    asked = "// guard: %in0 multiple of 16\n// why: four at a time\n// Guard: %in1 < 1024\n"
    rewrite = check(fenced(asked + AFTER), region())
    lines = [line.strip() for line in rewrite.text.splitlines()]
    assert lines[:2] == ["// guard: %in0 multiple of 16", "// Guard: %in1 < 1024"]
    assert rewrite.text.count("//") == 2
    assert parse_statements(rewrite.text) == rewrite.statements


def test_a_guard_alone_is_no_rewrite() -> None:
    with pytest.raises(AnswerRejected) as error:
        check(fenced("// guard: %in1 < 1024\n" + BEFORE), region())
    assert error.value.reason == "NO_EFFECT"


LOAD = "ld.global.f32 %v0, [%ptr];"
ADD = "add.f32 %out0, %out0, %v0;"

REJECTED = [
    ("CUT_OFF", "```ptx\n" + AFTER[:300]),
    ("NO_CODE", "```ptx\n```"),
    ("NO_CODE", "   "),
    ("NO_CODE", fenced("$L:")),
    ("TOO_LARGE", fenced("add.s64 %a, %a, 1;\n" * (MOST_CHARACTERS // 10))),
    ("NOT_ASCII", changed("%left, -4", "%left, \u22124")),
    ("SYNTAX", "I am sorry, but I cannot help with that."),
    ("UNKNOWN_STATEMENT", changed("setp.ge.s64 %p1, %left, 4;", "setp.ge.s64 %p1, %left, <4>;")),
    ("SYNTAX", changed("$REST:", "}\n$REST:")),
    ("UNKNOWN_OPCODE", changed(LOAD, "fetch.global.f32 %v0, [%ptr];")),
    ("ARCHITECTURE", changed("$MAIN:", "$MAIN: elect.sync %left|%p0, -1;")),
    ("ARCHITECTURE", changed("$MAIN:", "$MAIN: setmaxnreg.inc.sync.aligned.u32 64;")),
    ("DIRECTIVE", changed("$MAIN:", ".maxnreg 16;\n$MAIN:")),
    ("DIRECTIVE", changed("$MAIN:", '.pragma "used_bytes_mask 0xfff";\n$MAIN:')),
    ("VARIABLE", changed("$MAIN:", ".shared .align 4 .b8 room[1024];\n$MAIN:")),
    ("INDIRECT", changed("@%p0 bra $REST;", "brx.idx %left, table;")),
    ("INDIRECT", changed("$MAIN:", "table: .branchtargets $REST, $DONE;\n$MAIN:")),
    ("CALL", changed("$MAIN:", "call.uni malloc;\n$MAIN:")),
    ("LEAVES", changed("$DONE:", "$DONE: ret;")),
    ("LEAVES", changed("@%p0 bra $REST;", "@%p0 exit;")),
    ("LEAVES", changed("$DONE:", "trap;\n$DONE:")),
    ("CLOCK", changed("mov.b64 %left, %in1;", "mov.u64 %left, %clock64;")),
    ("CLOCK", changed("mov.b64 %left, %in1;", "mov.u64 %left, %globaltimer;")),
    ("CLOCK", changed(LOAD, "ld.volatile.global.f32 %v0, [%ptr];")),
    ("STATE_SPACE", changed(LOAD, "ld.shared.f32 %v0, [%ptr];")),
    ("STATE_SPACE", changed(LOAD, "ld.f32 %v0, [%ptr];")),
    ("RESERVED_NAME", changed(".reg .pred %p<3>;", ".reg .pred %p<3>;\n.reg .b64 %tid;")),
    ("RESERVED_NAME", changed(".reg .pred %p<3>;", ".reg .pred %p<3>;\n.reg .b32 %a, %laneid;")),
    ("NON_COHERENT", changed(LOAD, "ld.global.nc.f32 %v0, [%ptr];")),
    ("LOWER_PRECISION", changed(ADD, "add.f16 %h0, %h0, %h1;")),
    ("LOWER_PRECISION", changed(ADD, "cvt.rn.bf16.f32 %h0, %v0;")),
    ("LOWER_PRECISION", changed(ADD, "fma.rn.f16x2 %h0, %h0, %h1, %h1;")),
    ("APPROXIMATION", changed(ADD, "sqrt.approx.f32 %v0, %v0;")),
    ("ROUNDING", changed(ADD, "add.rz.f32 %out0, %out0, %v0;")),
    ("ROUNDING", changed(ADD, "add.rn.f32 %out0, %out0, %v0;")),
    ("ROUNDING", changed(ADD, "add.sat.f32 %out0, %out0, %v0;")),
    ("FLUSHING", changed(ADD, "add.ftz.f32 %out0, %out0, %v0;")),
    ("CONTRACTION", changed(ADD, "mul.f32 %v0, %v0, %v0;")),
    ("EDIT", fenced("// edit: widen tile\n" + AFTER)),
    ("NO_EFFECT", fenced(BEFORE)),
]


@pytest.mark.parametrize(("code", "answer"), REJECTED)
def test_each_way_of_being_no_rewrite_has_its_code_and_a_sentence(code: str, answer: str) -> None:
    with pytest.raises(AnswerRejected) as error:
        check(answer, region())
    assert error.value.reason == code, str(error.value)
    assert error.value.next_step == NEXT_STEPS[code]
    assert len(error.value.what.split()) > 2


def test_no_code_is_without_a_case() -> None:
    reached = {code for code, _ in REJECTED}
    assert reached == set(NEXT_STEPS)


def test_a_rejection_shows_the_line_and_marks_the_place() -> None:
    with pytest.raises(AnswerRejected) as error:
        check(changed(LOAD, "ld.shared.f32 %v0, [%ptr];"), region())
    message = str(error.value)
    line = AFTER.split("\n").index("\t" + LOAD) + 1
    assert message.startswith(f"<answer>:{line}:")
    assert "ld.shared.f32 %v0, [%ptr];" in message
    assert "^^^" in message


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("mul.rn.f32", "mul.f32", "ROUNDING"),
        ("add.rn.ftz.f32", "add.rn.f32", "FLUSHING"),
        ("add.rn.ftz.f32", "add.ftz.f32", "ROUNDING"),
        ("div.rn.f32", "div.full.f32", "APPROXIMATION"),
        ("div.rn.f32", "div.approx.f32", "APPROXIMATION"),
        ("fma.rn.f32", "fma.rz.f32", "ROUNDING"),
        ("fma.rn.f32 %out0, %t1, %t1, %t0", "sub.f32 %out0, %t1, %t0", "CONTRACTION"),
        ("mul.rn.f32", "mul.rn.f16", "LOWER_PRECISION"),
    ],
)
def test_the_precision_audit_compares_with_the_original(old: str, new: str, code: str) -> None:
    assert check(fenced("mov.f32 %out0, %in0;" + ROUNDED), region(ROUNDED)).statements
    with pytest.raises(AnswerRejected) as error:
        check(fenced(ROUNDED.replace(old, new)), region(ROUNDED))
    assert error.value.reason == code


def test_demotion_of_an_exact_detour_is_left_to_the_later_checks() -> None:
    detour = """
    .reg .f64 %t0;
    cvt.f64.f32 %t0, %in0; mul.rn.f64 %t0, %t0, 0d3FD0000000000000; cvt.rn.f32.f64 %out0, %t0;
    """
    assert check(fenced("mul.rn.f32 %out0, %in0, 0f3E800000;"), region(detour)).statements


def test_non_coherent_loads_need_a_fact() -> None:
    fact = Fact(Parameter(4, "x"), Relation.READ_ONLY, None, Origin.DECLARED)
    answer = changed(LOAD, "ld.global.nc.f32 %v0, [%ptr];")
    assert ".nc" in check(answer, region(facts=(fact,))).text


@given(st.one_of(st.text(), st.text().map(fenced), st.tuples(st.integers(0, len(AFTER)), st.text(max_size=8)).map(
    lambda cut: fenced(AFTER[: cut[0]] + cut[1] + AFTER[cut[0] + len(cut[1]) :])
)))  # fmt: skip
def test_no_text_does_anything_but_pass_or_be_rejected(answer: str) -> None:
    assert outcome(answer) in {"passed", *NEXT_STEPS}


def outcome(answer: str) -> str:
    """``passed``, or the code; what passed must parse to what was checked."""
    try:
        rewrite = check(answer, region())
    except AnswerRejected as error:
        return error.reason
    return "passed" if parse_statements(rewrite.text) == rewrite.statements else "changed in printing"
