"""Broken PTX gives a module or a diagnostic, and nothing else. tests/deep/fuzz_parser.py runs a hundred thousand."""

import pytest

from hybridcc.errors import PtxSyntaxError
from hybridcc.ptx import parse, parse_statements
from tests.ptx.mutations import mutant
from tests.ptx.surviving import check

SEED = 20_261_201
COUNT = 3_000
CHUNK = 500


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_mutants_are_modules_or_refused(first: int) -> None:
    survived = 0
    for index in range(first, first + CHUNK):
        try:
            survived += check(mutant(SEED, index))
        except Exception as error:
            error.add_note(f"mutant({SEED}, {index})")
            raise
    assert 0 < survived < CHUNK


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        ".entry k() { " + "{" * 50_000,
        ".entry k() { mov.b32 a, " + "(" * 20_000,
        ".entry k() { mov.b32 a, " + "{" * 20_000 + ";",
        ".entry k() { mov.b32 a, " + "[" * 20_000 + "]" * 20_000 + "; }",
        ".entry k() { mov.b32 a, " + "1 ? 2 : " * 20_000 + "3; }",
        ".entry k() { mov.b32 a, " + "-" * 50_000 + "1; }",
        ".entry k() { x" + ".a" * 50_000 + "; }",
        ".entry k() { " + "/**/" * 50_000 + "ret; }",
        ".entry k() { " + "mov /*x*/ a /*y*/;" * 5_000 + "}",
        ".entry k() { " + "a|" * 20_000 + "; }",
        ".entry k() { " + "frob <" * 20_000 + "; }",
        ".global .b8 x[1] = {" + "1," * 100_000 + "1};",
        ".global .b8 x = " + "{" * 50_000 + "}" * 50_000 + ";",
        '.file 1 "' + "\\" * 50_001,
        "." * 100_000,
        "@" * 50_000,
        "}" * 50_000,
        "a:" * 20_000,
        "\0" * 10_000,
        ".entry k() { " + "L: " * 30_000 + "}",
        ".section .debug_info {" + "{" * 30_000,
        ".func " + "(" * 20_000,
        ".entry k(" + ".param .u32 a," * 20_000 + ".param .u32 b) { ret; }",
        ".entry k() { .reg .b32 " + "a<9>," * 20_000 + "b; }",
    ],
    ids=lambda t: repr(t[:24]),
)
def test_long_and_deep_inputs(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", ["", "\n", "// only", "/**/", "\r\n", '# 1 "x.cu"\n', ";", "\f\v\t "])
def test_next_to_nothing(text: str) -> None:
    assert check(text)
    parse_statements(text)


@pytest.mark.parametrize(
    "text",
    ["; // a", "// a\n; // b", ".entry k() { ; // a\n}", ".entry k() { // a\n; // b\n;/* c */ /* d */ ret; // e\n}"],
)
def test_comments_after_a_semicolon_that_ends_nothing(text: str) -> None:
    assert check(text)


def test_nothing_but_braces_is_no_module() -> None:
    with pytest.raises(PtxSyntaxError):
        parse("{}")
