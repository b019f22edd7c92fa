"""The smaller rules, on regions of PTX as any compiler may write it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hybridcc.asking import body_of, regions_of
from hybridcc.passes.execute import execute
from hybridcc.passes.facts import Fact, Origin, Parameter, Relation
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite import answer
from hybridcc.passes.rewrite.rules.rewriter import Proposal, proposals
from hybridcc.passes.rewrite.rules.subject import Unrecognised
from hybridcc.passes.splice import splice
from hybridcc.ptx import parse

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 x, .param .u64 y, .param .u64 n)
{
	.reg .pred %p<9>;
	.reg .b32 %r<19>;
	.reg .b64 %rd<29>;
	.reg .f32 %f<19>;
	.reg .f64 %fd<9>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u64 %rd3, [n];
"""
LOOP = """	mov.u64 %rd4, 0;
	mov.f32 %f1, 0f00000000;
	setp.lt.s64 %p1, %rd3, 1;
	@%p1 bra DONE;
LOOP:
	shl.b64 %rd5, %rd4, 2;
	add.s64 %rd6, %rd1, %rd5;
	ld.global.f32 %f2, [%rd6];
	{work}
	add.s64 %rd4, %rd4, 1;
	add.s64 %rd3, %rd3, -1;
	setp.ne.s64 %p2, %rd3, 0;
	@%p2 bra LOOP;
DONE:
	st.global.f32 [%rd2], %f1;
	ret;
}
"""
SUM = "add.rn.f32 %f1, %f1, %f2;"
HALVED = """cvt.f64.f32 %fd1, %f2;
	mul.rn.f64 %fd2, %fd1, 0d3FD0000000000000;
	cvt.rn.f32.f64 %f3, %fd2;
	add.rn.f32 %f1, %f1, %f3;"""
TENTH = HALVED.replace("0d3FD0000000000000", "0d3FB999999999999A")
"""0.1 is no f32 number."""
CLAMPED = "max.f32 %f1, %f1, %f2;"


def region(work: str, facts: tuple[Fact, ...] = ()) -> tuple[Kernel, Region]:
    kernel = Kernel("kernel", "kernel", HEAD + LOOP.replace("{work}", work), "sm_80", "test", facts=facts)
    return kernel, next(r for r in regions_of(kernel) if r.eligible)


def rules(work: str, facts: tuple[Fact, ...] = ()) -> dict[str, Proposal]:
    kernel, found = region(work, facts)
    return {p.rule: p for p in proposals(found, 32, kernel.facts)}


@pytest.mark.parametrize("count", [0, 3, 4, 13])
@pytest.mark.parametrize("work", [SUM, HALVED, TENTH, CLAMPED])
def test_every_proposal_leaves_the_same_sum(work: str, count: int) -> None:
    kernel, found = region(work)
    x = np.random.default_rng(count).standard_normal(max(count, 1)).astype(np.float32)

    def ran(ptx: str) -> bytes:
        y = np.zeros(1, np.float32)
        execute(ptx, "kernel", 1, 1, [x, y, np.int64(count)])
        return y.tobytes()

    wanted = ran(kernel.ptx)
    for proposal in proposals(found, 32):
        text = answer.check(proposal.text, found, "sm_80").text
        assert ran(splice(parse(kernel.ptx), found, text).text) == wanted, proposal.rule


def test_a_product_that_is_exact_in_f64_is_made_in_f32() -> None:
    assert "mul.rn.f32" in rules(HALVED)["counted loop, 4x batched, f32 in the place of f64"].text
    assert "f64" not in rules(HALVED)["counted loop, 1x, f32 in the place of f64"].text


def test_a_factor_that_is_no_f32_number_stays_in_f64() -> None:
    assert not any("f32 in the place" in rule for rule in rules(TENTH))


def test_loads_are_non_coherent_where_a_fact_says_that_nobody_writes_and_nowhere_else() -> None:
    fact = Fact(Parameter(0, "x"), Relation.READ_ONLY, None, Origin.DECLARED)
    assert not any(".nc" in p.text for p in rules(SUM).values())
    assert any("ld.global.nc.f32" in p.text for p in rules(SUM, (fact,)).values())


def test_trips_are_counted_in_32_bits_under_a_guard_or_a_range_that_they_fit() -> None:
    guarded = rules(SUM)["counted loop, 4x batched narrow, guarded"].text
    assert "// guard: %in" in guarded
    assert "< 2147483648" in guarded
    few = Fact(Parameter(2, "n"), Relation.LT, 1000, Origin.DECLARED)
    assert "guard" not in rules(SUM, (few,))["counted loop, 4x batched narrow"].text


DIVIDED = """	or.b64 %rd4, %rd3, %rd2;
	and.b64 %rd5, %rd4, -4294967296;
	setp.eq.s64 %p1, %rd5, 0;
	@%p1 bra SHORT;
	div.u64 %rd6, %rd3, 7;
	bra.uni JOIN;
SHORT:
	cvt.u32.u64 %r1, %rd3;
	div.u32 %r2, %r1, 7;
	cvt.u64.u32 %rd6, %r2;
JOIN:
"""


def test_a_branch_that_facts_decide_goes_with_the_way_not_taken() -> None:
    from hybridcc.passes.rewrite.rules import fold

    body = DIVIDED.replace("%rd2", "%rd3") + "\tst.global.u64 [%rd1], %rd6;\n\tret;\n}\n"
    small = tuple(
        Fact(Parameter(2, "n"), relation, bound, Origin.DECLARED)
        for relation, bound in ((Relation.GE, 0), (Relation.LT, 1 << 31))
    )
    kernel = Kernel("kernel", "kernel", HEAD + body, "sm_80", "test", facts=small)
    (whole,) = body_of(kernel)
    found = fold.folded(whole, kernel.facts)
    assert found is not None
    assert found[0] == ()
    assert "div.u64" not in found[1].text
    assert "div.u32" in found[1].text
    assert fold.folded(whole, ()) is None


def test_what_no_rule_knows_has_a_reason() -> None:
    kernel, found = region(SUM)
    odd = replace(found, text=found.text.replace("-1;", "-3;"))
    with pytest.raises(Unrecognised, match="NO_COUNT"):
        proposals(odd, 4, kernel.facts)
