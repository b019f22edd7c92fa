"""What is said of division by an unknown is true of every value, and a loop that divides is not believed too easily."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from test_small import EXTENT, verdict

from hybridcc.passes.verdict import Proved, Unknown
from hybridcc.passes.verify.proof import bitvector as bv
from hybridcc.passes.verify.proof import division
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.interpretation import Evaluation
from hybridcc.passes.verify.proof.solver import Solver

WIDTH = 8
A, B, U = (t.variable(name, WIDTH) for name in "abu")


def truth(c: t.Condition, env: dict[str, np.ndarray], by_zero: int) -> np.ndarray:
    """A condition over whole arrays of 8-bit values; x / 0 is ``by_zero``."""
    x = [truth(y, env, by_zero) if isinstance(y, t.Condition) else number(y, env, by_zero) for y in c.arguments]
    match c.kind:
        case "true":
            return np.array(True)
        case "not":
            return ~x[0]
        case "and":
            return x[0] & x[1]
        case "eq":
            return x[0] == 0
        case "ult":
            return x[0] < x[1]
    raise AssertionError(c.kind)


def number(p: t.Argument, env: dict[str, np.ndarray], by_zero: int) -> np.ndarray:
    assert isinstance(p, t.Polynomial)
    total = np.zeros((), np.int64)
    for monomial, coefficient in p.monomials:
        term = np.asarray(coefficient, np.int64)
        for a in monomial:
            if a.operation == "variable":
                term = term * env[str(a.arguments[0])]
            else:
                assert a.operation == "udiv"
                x, y = (number(z, env, by_zero) for z in a.arguments)
                term = term * np.where(y == 0, by_zero, x // np.where(y == 0, 1, y))
            term = term & 255
        total = (total + term) & 255
    return total


def everywhere(conditions: tuple[t.Condition, ...], by_zero: int) -> None:
    values = np.arange(256)
    a, b = values[:, None], values[None, :]
    assert conditions
    for u in range(256):
        env = {"a": a, "b": b, "u": np.asarray(u)}
        for c in conditions:
            assert truth(c, env, by_zero).all(), (c, u)


@pytest.mark.parametrize("by_zero", [0, 255])
def test_the_lemmas_hold_for_all_8_bit_values(by_zero: int) -> None:
    everywhere(division.multiple_lemmas(A, B, U), by_zero)
    values = np.arange(256)
    for c in division.quotient_lemmas(A, B):
        assert truth(c, {"a": values[:, None], "b": values[None, :]}, by_zero).all()


def test_a_false_lemma_would_be_seen() -> None:
    """Without the bound on u the product may wrap."""
    wrong = division.implies(t.negation(t.equal(B, t.constant(0, 8))), division.at_most(U, t.mul(U, B)))
    with pytest.raises(AssertionError):
        everywhere((wrong,), 0)


@pytest.mark.parametrize("bounds", [(15, 15), (15, 17), (1, 255), (3, 4)])
def test_products_that_cannot_wrap(bounds: tuple[int, int]) -> None:
    x, y = (t.variable(f"{n}{bound}", WIDTH, bound) for n, bound in zip("xy", bounds, strict=True))
    ((monomial, _),) = t.mul(x, y).monomials
    conditions = division.product_lemmas(monomial)
    grid = np.arange(bounds[0] + 1)[:, None], np.arange(bounds[1] + 1)[None, :]
    env = {f"{n}{bound}": g for n, bound, g in zip("xy", bounds, grid, strict=True)}
    assert len(conditions) == 2
    for c in conditions:
        assert truth(c, env, 0).all()


def test_nothing_is_said_of_a_product_that_may_wrap() -> None:
    x, y = t.variable("x16", WIDTH, 16), t.variable("y16", WIDTH, 16)
    ((monomial, _),) = t.mul(x, y).monomials
    assert division.product_lemmas(monomial) == ()


def improved_everywhere(terms: list[t.Polynomial], widths: dict[str, int]) -> int:
    """Under full knowledge of each environment in turn, a rule may fire and must then keep the value."""
    fired = 0
    for values in product(*(range(1 << w) for w in widths.values())):
        env = dict(zip(widths, values, strict=True))
        evaluation = Evaluation(env, {})
        for term in terms:
            single = t.as_atom(term)
            assert single is not None
            new = division.improved(single, evaluation.condition)
            if new is not None:
                fired += 1
                assert evaluation.polynomial(new) == evaluation.polynomial(term), (term, new, env)
    return fired


def test_signed_division_made_unsigned_for_all_values() -> None:
    x, y = t.variable("x", 6), t.variable("y", 6)
    terms = [bv.signed_quotient(x, y), bv.signed_remainder(x, y), bv.unsigned_remainder(x, y)]
    assert improved_everywhere(terms, {"x": 6, "y": 6}) > 3000


def test_narrow_division_made_wide_for_all_values() -> None:
    x, y = t.variable("x", 6), t.variable("y", 6)
    low, under = bv.truncate(x, 3), bv.truncate(y, 3)
    q = bv.unsigned_quotient(low, under)
    terms = [
        bv.zero_extend(p, 6)
        for p in (q, t.sub(low, t.mul(q, under)), t.add(q, t.constant(5, 3)), bv.unsigned_quotient(t.add(low, q), q))
    ]
    assert improved_everywhere(terms, {"x": 6, "y": 6}) > 100


# --- whole kernels ----------------------------------------------------------------------------------------

SETUP = "cvt.u64.u32 %a6, %r1; cvt.u64.u32 %a7, %r2; sub.s64 %a8, %a2, %a6; setp.lt.s64 %p0, %a8, 1; @%p0 bra $X;"
TRIP = "shl.b64 %a12, %a6, 2; add.s64 %a12, %a0, %a12; st.global.u32 [%a12], %r1; add.s64 %a6, %a6, %a7;"
COUNTED = f"""{SETUP}
add.s64 %a9, %a8, %a7; add.s64 %a9, %a9, -1; div.s64 %a10, %a9, %a7;
$L: {TRIP} add.s64 %a10, %a10, -1; setp.ne.s64 %p1, %a10, 0; @%p1 bra $L; $X: """
COMPARED = f"{SETUP} $L: {TRIP} setp.lt.s64 %p1, %a6, %a2; @%p1 bra $L; $X: "


def test_a_trip_count_is_as_good_as_a_comparison() -> None:
    for base, candidate in ((COUNTED, COMPARED), (COUNTED, COUNTED), (COUNTED.replace("div.s64", "div.u64"), COMPARED)):
        assert isinstance(verdict(base, candidate, EXTENT), Proved), verdict(base, candidate, EXTENT)


NARROW = "cvt.u32.u64 %r4, %a9; div.u32 %r4, %r4, %r2; cvt.u64.u32 %a10, %r4;"


def test_without_z3_it_is_not_known_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    monkeypatch.setattr(Solver.__init__, "__kwdefaults__", {"budget": 20_000, "milliseconds": 300})
    found = verdict(COUNTED, COMPARED, EXTENT)
    assert isinstance(found, Unknown)
    assert "z3-solver" in found.reason


STRIDE_MAY_BE_ZERO = ("cvt.u64.u32 %a7, %r2;", "cvt.u64.u32 %a7, %r0;")
TRAPS = {
    "one trip too many": (COUNTED, COMPARED.replace("setp.lt.s64 %p1", "setp.le.s64 %p1"), True),
    "the quotient rounded down": (COUNTED.replace("add.s64 %a9, %a9, -1;", "add.s64 %a9, %a8, 0;"), COMPARED, True),
    "a stride that may be zero": (COUNTED.replace(*STRIDE_MAY_BE_ZERO), COMPARED.replace(*STRIDE_MAY_BE_ZERO), True),
    "an extent up to which an index may wrap": (COUNTED, COMPARED, False),
    "an unsigned comparison of what may be negative": (
        COUNTED.replace("setp.lt.s64 %p0, %a8, 1; @%p0 bra $X;", "setp.lt.u64 %p0, %a2, %a6; @%p0 bra $X;"),
        COMPARED, True,
    ),
    "a division in 32 bits": (
        COUNTED,
        COUNTED.replace("div.s64 %a10, %a9, %a7;", NARROW),
        True,
    ),
    "a signed division for an unsigned one": (
        "cvt.u64.u32 %a6, %r2; div.s64 %a7, %a2, %a6; st.global.u64 [%a0], %a7;",
        "cvt.u64.u32 %a6, %r2; div.u64 %a7, %a2, %a6; st.global.u64 [%a0], %a7;",
        False,
    ),
    "a remainder that forgets zero": (
        "rem.u64 %a7, %a2, %a1; st.global.u64 [%a0], %a7;",
        "div.u64 %a7, %a2, %a1; mul.lo.s64 %a7, %a7, %a1; sub.s64 %a7, %a2, %a7; st.global.u64 [%a0], %a7;",
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_wrong_divisions_are_not_proved(name: str) -> None:
    base, candidate, facts = TRAPS[name]
    assert base != candidate
    assert not isinstance(verdict(base, candidate, EXTENT if facts else ()), Proved)
    assert not isinstance(verdict(candidate, base, EXTENT if facts else ()), Proved)


def test_a_remainder_is_what_the_quotient_leaves() -> None:
    whole = "cvt.u64.u32 %a6, %r2; rem.u64 %a7, %a1, %a6; st.global.u64 [%a0], %a7;"
    left = "cvt.u64.u32 %a6, %r2; div.u64 %a7, %a1, %a6; mul.lo.s64 %a7, %a7, %a6; sub.s64 %a7, %a1, %a7;"
    assert isinstance(verdict(whole, left + "st.global.u64 [%a0], %a7;"), Proved)
