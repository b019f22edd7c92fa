"""What the solver is told means what the term means, and what it must not know it does not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from test_terms import environments, expressions

from hybridcc.passes.verify.proof import bitvector as bv
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.backends import backend
from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.integers import Integers
from hybridcc.passes.verify.proof.interpretation import Evaluation
from hybridcc.passes.verify.proof.memory import initial, load
from hybridcc.passes.verify.proof.solver import OutOfBudget, Solver

BACKENDS = ("bitwuzla", "z3")


def fixed(env: dict[str, int], width: int) -> list[t.Condition]:
    return [t.equal(t.variable(v, width), t.constant(c, width)) for v, c in env.items()]


@pytest.mark.parametrize("name", [*BACKENDS, "integers"])
@pytest.mark.parametrize("width", [8, 32, 64])
def test_a_term_with_its_variables_fixed_has_its_value(name: str, width: int) -> None:
    """With products abstracted the solver may not know the value, but it must never exclude it."""

    @settings(max_examples=40, deadline=None)
    @given(expressions(width, 3), environments(width))
    def check(pair: tuple[t.Polynomial, Callable[[dict[str, int]], int]], env: dict[str, int]) -> None:
        term, mean = pair
        solver = Solver(Integers() if name == "integers" else backend(name))
        right = t.equal(term, t.constant(mean(env), width))
        assert solver.check([*fixed(env, width), right])[0] == "sat"
        assert solver.check([right, *fixed(env, width)])[0] == "sat"
        linear = all(sum(a.operation != "bit" for a in m) < 2 for m, _ in term.monomials)
        if linear and "*" not in t.show(term).replace("*[", ""):
            assert solver.check([*fixed(env, width), t.negation(right)])[0] in ("unsat", "sat")

    check()


@pytest.mark.parametrize("name", BACKENDS)
def test_linear_facts_are_decided(name: str) -> None:
    solver = Solver(backend(name))
    i, n = t.variable("i", 32), t.variable("n", 32)
    known = Context(solver, (t.signed_less(i, n),))
    widened = bv.sign_extend(t.add(i, t.constant(1, 32)), 64)
    assert known.same(widened, t.add(bv.sign_extend(i, 64), t.constant(1, 64)))
    assert not Context(solver).same(widened, t.add(bv.sign_extend(i, 64), t.constant(1, 64)))
    x = t.variable("x", 64)
    rest = bv.bitwise_and(x, t.constant(3, 64))
    assert known.same(t.scale(bv.shift_right_logical(x, t.constant(2, 32)), 4), t.sub(x, rest))


OR, REST = bv.bitwise_or, lambda a, b: t.sub(a, bv.bitwise_and(a, t.constant(0x3C, 8)))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("make", [OR, REST, bv.bitwise_xor], ids=["or", "rest", "xor"])
def test_bits_that_the_ring_cannot_write_are_exact(name: str, make: Callable[..., t.Polynomial]) -> None:
    solver, rng = Solver(backend(name)), random.Random(1)
    x, y = t.variable("x", 8), t.variable("y", 8)
    inner = make(t.sub(x, t.scale(y, 3)), y)
    for term in (make(x, y), make(inner, x), t.scale(make(x, y), -1), bv.bitwise_and(inner, t.constant(0xF0, 8))):
        for _ in range(12):
            env = {"x": rng.randrange(256), "y": rng.randrange(256)}
            value = Evaluation(env, {}).polynomial(term)
            right = t.equal(term, t.constant(value, 8))
            assert solver.check([*fixed(env, 8), right])[0] == "sat"
            assert solver.check([*fixed(env, 8), t.negation(right)])[0] == "unsat"


def test_sums_in_order_are_decided_by_linear_arithmetic() -> None:
    solver = Solver(Integers())
    i, s, n, m = (t.variable(v, 64) for v in "isnm")
    most = [t.unsigned_less(v, t.constant(1 << 61, 64)) for v in (i, s, n, m)]
    step = [t.signed_less(t.add(i, t.add(m, s)), n), t.negation(t.signed_less(t.add(i, s), n))]
    assert solver.check([*most, *step])[0] == "unsat"
    assert solver.check([*most[:3], *step])[0] == "sat"  # m may be negative
    assert solver.check([*most[1:], *step])[0] == "sat"  # i + s may wrap


@pytest.mark.parametrize("name", BACKENDS)
def test_products_are_peeled_not_multiplied(name: str) -> None:
    solver = Solver(backend(name))
    a, b, s = (t.variable(v, 64) for v in "abs")
    known = Context(solver, (t.equal(a, t.add(b, t.constant(2, 64))),))
    assert known.same(t.mul(a, s), t.add(t.mul(b, s), t.scale(s, 2)))
    assert not known.same(t.mul(a, s), t.add(t.mul(b, s), s))


def test_a_product_of_bounded_values_is_bounded() -> None:
    solver = Solver(backend("bitwuzla"))
    tid, block = t.variable("tid", 32, 1023), t.variable("block", 32, (1 << 31) - 2)
    index = t.mul(bv.sign_extend(tid, 64), bv.sign_extend(block, 64))
    zero = t.constant(0, 64)
    assert Context(solver).holds(t.negation(t.signed_less(index, zero)))
    narrow = t.mul(tid, block)
    assert not Context(solver).holds(t.negation(t.signed_less(narrow, t.constant(0, 32))))


def test_congruence_under_a_path_condition() -> None:
    solver = Solver(backend("bitwuzla"))
    a, b = t.variable("a", 64), t.variable("b", 64)
    x, y = (load(initial("m"), "global", p, 32) for p in (a, b))
    assert not Context(solver).same(x, y)
    assert Context(solver, (t.equal(a, b),)).same(t.scale(x, 3), t.scale(y, 3))


def test_division_by_an_unknown_tells_nothing() -> None:
    solver = Solver(backend("bitwuzla"))
    x, y = t.variable("x", 32), t.variable("y", 32)
    zero = Context(solver, (t.equal(y, t.constant(0, 32)),))
    for value in (0, 1, -1):
        assert not zero.holds(t.equal(bv.unsigned_quotient(x, y), t.constant(value, 32)))
        assert not zero.holds(t.equal(bv.unsigned_remainder(x, y), t.constant(value, 32)))


def test_the_budget_is_counted() -> None:
    solver = Solver(backend("bitwuzla"), budget=2)
    x = t.variable("x", 8)
    solver.check([t.equal(x, t.constant(1, 8))])
    solver.check([t.equal(x, t.constant(2, 8))])
    with pytest.raises(OutOfBudget):
        solver.check([t.equal(x, t.constant(3, 8))])
