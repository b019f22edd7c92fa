"""What nothing may be concluded from: registers that hold no value yet, and facts that no launch keeps."""

from __future__ import annotations

import pytest
from test_attacks import MODULE

from hybridcc.passes.facts import Bytes, Fact, Origin, Parameter, Relation, Special
from hybridcc.passes.verdict import Proved, Unknown
from hybridcc.passes.verify import proving

STORE = "st.global.u32 [%d5], %r10;"


def kernel(body: str) -> str:
    return MODULE.format(module="", local="", directives="", body=body)


@pytest.mark.parametrize(
    "body",
    [
        "sub.s32 %r10, %r39, %r39;",
        "xor.b32 %r12, %r39, %r39; add.s32 %r10, %r12, 0;",
        "setp.eq.s32 %p1, %r39, %r39; selp.u32 %r10, 0, 1, %p1;",
    ],
)
def test_a_register_without_a_value_may_give_another_at_each_use_also_where_the_baseline_reads_it(body: str) -> None:
    base = kernel(f"add.s32 %r11, %r39, 1; mov.u32 %r10, 0; {STORE}")
    assert isinstance(proving.attempt(base, base, "k", ()).verdict, Proved)
    found = proving.attempt(base, kernel(f"{body} {STORE}"), "k", ()).verdict
    assert isinstance(found, Unknown)
    assert "may be read before it is written" in found.reason


@pytest.mark.parametrize(
    "facts",
    [
        [
            Fact(Parameter(4, "m"), Relation.GE, 1, Origin.DECLARED),
            Fact(Parameter(4, "m"), Relation.LE, 0, Origin.DECLARED),
        ],
        [Fact(Special("ntid.x"), Relation.GE, 2000, Origin.DECLARED)],
    ],
)
def test_facts_that_no_launch_keeps_prove_nothing(facts: list[Fact]) -> None:
    one, two = (kernel(f"st.global.u32 [%d5], {value};") for value in (1, 2))
    found = proving.attempt(one, two, "k", facts).verdict
    assert isinstance(found, Unknown)
    assert "no launch keeps all of them" in found.reason


@pytest.mark.parametrize(
    "load", ["ld.param.u32 %r10, [m+4];", "ld.param.u8 %r10, [m+1];", "ld.param.u16 %r10, [px+6];"]
)
def test_a_piece_of_a_parameter_is_no_crash(load: str) -> None:
    base = kernel(f"{load} {STORE}")
    assert isinstance(proving.attempt(base, base, "k", ()).verdict, Proved)
    assert isinstance(proving.attempt(base, kernel(f"mov.u32 %r10, 0; {STORE}"), "k", ()).verdict, Unknown)


@pytest.mark.parametrize(("place", "proved"), [("", True), ("L0", False)])
def test_that_ranges_are_apart_at_one_place_is_no_fact_of_the_whole_kernel(place: str, proved: bool) -> None:
    apart = (Bytes(Parameter(0, "px"), 4), Relation.DISJOINT, Bytes(Parameter(1, "py"), 4), Origin.DECLARED)
    one = kernel("st.global.u32 [%d1], 1; ld.global.u32 %r10, [%d2]; st.global.u32 [%d1+64], %r10;")
    two = kernel("ld.global.u32 %r10, [%d2]; st.global.u32 [%d1], 1; st.global.u32 [%d1+64], %r10;")
    found = proving.attempt(one, two, "k", [Fact(*apart, place=place)]).verdict
    assert isinstance(found, Proved) == proved
