"""Normal forms are exact: every rule is checked for all 8-bit values, and at 32 and 64 bits by sampling and solver."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.passes.verify.proof import bitvector as bv
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.interpretation import Chain, Evaluation
from hybridcc.passes.verify.proof.memory import initial, load, store
from hybridcc.passes.verify.proof.rewrite import Rewriter

Make = Callable[[t.Polynomial, t.Polynomial], t.Polynomial]
Mean = Callable[[int, int, int], int]


def sgn(x: int, w: int) -> int:
    return x - (1 << w) if x >> (w - 1) else x


BINARY: dict[str, tuple[Make, Mean]] = {
    "add": (t.add, lambda a, b, w: a + b),
    "sub": (t.sub, lambda a, b, w: a - b),
    "mul": (t.mul, lambda a, b, w: a * b),
    "and": (bv.bitwise_and, lambda a, b, w: a & b),
    "or": (bv.bitwise_or, lambda a, b, w: a | b),
    "xor": (bv.bitwise_xor, lambda a, b, w: a ^ b),
    "shl": (bv.shift_left, lambda a, b, w: a << b if b < w else 0),
    "lshr": (bv.shift_right_logical, lambda a, b, w: a >> b if b < w else 0),
    "ashr": (bv.shift_right_arithmetic, lambda a, b, w: sgn(a, w) >> min(b, w - 1)),
    "slt": (lambda a, b: t.bit(t.signed_less(a, b), a.width), lambda a, b, w: int(sgn(a, w) < sgn(b, w))),
    "ult": (lambda a, b: t.bit(t.unsigned_less(a, b), a.width), lambda a, b, w: int(a < b)),
    "eq": (lambda a, b: t.bit(t.equal(a, b), a.width), lambda a, b, w: int(a == b)),
    "max": (lambda a, b: t.select(t.signed_less(a, b), b, a), lambda a, b, w: max(sgn(a, w), sgn(b, w))),
    "mask": (lambda a, b: bv.bitwise_and(bv.shift_right_arithmetic(a, t.constant(a.width - 1, 32)), b),
             lambda a, b, w: b if a >> (w - 1) else 0),
}  # fmt: skip
DIVISION: dict[str, tuple[Make, Mean]] = {
    "udiv": (bv.unsigned_quotient, lambda a, b, w: a // b),
    "urem": (bv.unsigned_remainder, lambda a, b, w: a % b),
    "sdiv": (bv.signed_quotient, lambda a, b, w: int(abs(sgn(a, w)) // abs(sgn(b, w)))
             * (1 if (sgn(a, w) < 0) == (sgn(b, w) < 0) else -1)),
    "srem": (bv.signed_remainder, lambda a, b, w: abs(sgn(a, w)) % abs(sgn(b, w)) * (-1 if sgn(a, w) < 0 else 1)),
}  # fmt: skip


EDGES = (0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 64, 127, 128, 129, 240, 252, 254, 255)


def value(p: t.Polynomial, **variables: int) -> int:
    return Evaluation(variables, {"m": Chain(1)}).polynomial(p)


@pytest.mark.parametrize("name", [*BINARY, *DIVISION])
def test_an_operation_means_what_it_says_for_all_8_bit_values(name: str) -> None:
    make, mean = (BINARY | DIVISION)[name]
    x, y = t.variable("x", 8), t.variable("y", 8)
    both = make(x, y)
    divisors = [b for b in range(256) if b or name not in DIVISION]
    for a in range(256):
        for b in divisors:
            assert value(both, x=a, y=b) == mean(a, b, 8) & 255
    for c in EDGES:
        last, first = make(x, t.constant(c, 8)), make(t.constant(c, 8), x)
        for b in range(256):
            if c or name not in DIVISION:
                assert value(last, x=b) == mean(b, c, 8) & 255
                assert t.as_constant(make(t.constant(b, 8), t.constant(c, 8))) == mean(b, c, 8) & 255
            if b or name not in DIVISION:
                assert value(first, x=b) == mean(c, b, 8) & 255


BOUNDED = ((3, 5), (15, 15), (1, 127), (127, 127), (100, 200), (255, 255))


@pytest.mark.parametrize("bounds", BOUNDED)
@pytest.mark.parametrize("extend", [bv.sign_extend, bv.zero_extend])
def test_sums_of_bounded_values_are_extended_term_by_term(
    bounds: tuple[int, int], extend: Callable[[t.Polynomial, int], t.Polynomial]
) -> None:
    x, y = (t.variable(f"{n}<={b}", 8, b) for n, b in zip("xy", bounds, strict=True))
    one = t.constant(1, 8)
    sums = [t.sub(t.sub(x, y), one), t.add(t.add(x, y), one), t.mul(x, y), t.add(t.scale(x, 2), t.scale(y, -3))]
    sums += [t.sub(t.constant(200, 8), x), t.add(t.constant(100, 8), t.mul(x, y)), t.scale(t.mul(x, y), -1)]
    wide = [extend(p, 16) for p in sums]
    for a in range(0, bounds[0] + 1, 1 + bounds[0] // 40):
        for b in (*range(0, bounds[1] + 1, 1 + bounds[1] // 40), bounds[1]):
            env = {f"x<={bounds[0]}": a, f"y<={bounds[1]}": b}
            for narrow, extended in zip(sums, wide, strict=True):
                found = Evaluation(env, {}).polynomial(narrow)
                found = t.signed(found, 8) & 0xFFFF if extend is bv.sign_extend else found
                assert Evaluation(env, {}).polynomial(extended) == found, (narrow, extended, env)


def test_a_sum_in_range_is_extended_and_one_out_of_range_is_not() -> None:
    x, y = t.variable("x<=9", 8, 9), t.variable("y<=9", 8, 9)
    shown = t.show(bv.sign_extend(t.sub(x, y), 16))
    assert "sext" not in shown
    assert "zext(x<=9)" in shown
    assert "sext" in t.show(bv.sign_extend(t.mul(t.mul(x, y), y), 16))
    assert t.show(bv.zero_extend(t.sub(x, y), 16)).startswith("zext(")
    assert t.show(bv.zero_extend(t.add(x, y), 16)) == "zext(x<=9) + zext(y<=9)"


@pytest.mark.parametrize(("wide", "narrow"), [(8, 4), (8, 1), (8, 7), (9, 6)])
def test_changes_of_width_for_all_values(wide: int, narrow: int) -> None:
    x, y = t.variable("x", wide), t.variable("n", narrow)
    mask = (1 << narrow) - 1
    low, signed, zero = bv.truncate(x, narrow), bv.sign_extend(y, wide), bv.zero_extend(y, wide)
    assert bv.truncate(signed, narrow) is y
    assert bv.truncate(zero, narrow) is y
    shape = bv.truncate(t.add(t.mul(x, x), t.scale(signed, 3)), narrow)
    joined = bv.concatenate(y, t.variable("k", 4))
    for a, b in itertools.product(range(1 << wide), range(1 << narrow)):
        assert value(low, x=a) == a & mask
        assert value(signed, n=b) == sgn(b, narrow) & ((1 << wide) - 1)
        assert value(zero, n=b) == b
        assert value(shape, x=a, n=b) == (a * a + 3 * sgn(b, narrow)) & mask
        assert value(joined, n=b, k=a & 15) == b << 4 | a & 15
    assert bv.extract(joined, 4, narrow) is y
    assert bv.extract(joined, 0, 4) is t.variable("k", 4)


def test_what_the_ring_decides_by_normal_form_alone() -> None:
    i, n, s = (t.variable(v, 64) for v in "ins")
    c = t.signed_less(i, n)
    b = t.bit(c, 64)
    assert t.mul(b, b) is b
    assert t.add(b, t.bit(t.negation(c), 64)) is t.constant(1, 64)
    assert t.mul(t.add(i, t.constant(1, 64)), s) is t.add(t.mul(i, s), s)
    assert t.scale(t.add(i, t.constant(3, 64)), 4) is t.add(bv.shift_left(i, t.constant(2, 32)), t.constant(12, 64))
    assert t.select(c, i, n) is t.select(t.negation(c), n, i)
    wrap = bv.bitwise_and(bv.shift_right_arithmetic(i, t.constant(63, 32)), n)
    assert wrap is t.mul(t.bit(t.signed_less(i, t.constant(0, 64)), 64), n)
    assert bv.bitwise_and(t.add(i, t.constant(8, 64)), t.constant(7, 64)) is bv.bitwise_and(i, t.constant(7, 64))
    assert bv.bitwise_and(i, t.constant(-4, 64)) is t.sub(i, bv.bitwise_and(i, t.constant(3, 64)))
    assert t.equal(t.bit(c, 64), t.constant(0, 64)) is t.negation(c)


LEAVES = ("x", "y", "z")


@st.composite
def expressions(draw: st.DrawFn, width: int, depth: int = 4) -> tuple[t.Polynomial, Callable[[dict[str, int]], int]]:
    """A term together with its meaning, computed apart from the term."""
    mask = (1 << width) - 1
    kind = (
        draw(st.sampled_from(("leaf", "constant")))
        if depth == 0
        else draw(st.sampled_from((*BINARY, "leaf", "narrow")))
    )
    if kind == "leaf":
        name = draw(st.sampled_from(LEAVES))
        return t.variable(name, width), lambda env: env[name]
    if kind == "constant":
        number = draw(st.sampled_from((0, 1, 2, 3, 7, width - 1, 1 << (width - 1), mask, mask - 3)))
        return t.constant(number, width), lambda env: number & mask
    a, mean_a = draw(expressions(width, depth - 1))
    if kind == "narrow":
        narrow = draw(st.sampled_from((1, width // 2, width - 1)))
        sign = draw(st.booleans())
        low = bv.truncate(a, narrow)
        term = bv.sign_extend(low, width) if sign else bv.zero_extend(low, width)
        cut = (1 << narrow) - 1
        return term, lambda env: (sgn(mean_a(env) & cut, narrow) if sign else mean_a(env) & cut) & mask
    b, mean_b = draw(expressions(width, depth - 1))
    make, mean = BINARY[kind]
    return make(a, b), lambda env: mean(mean_a(env), mean_b(env), width) & mask


def environments(width: int) -> st.SearchStrategy[dict[str, int]]:
    edges = st.sampled_from((0, 1, 2, 3, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << width) - 1))
    return st.fixed_dictionaries({v: edges | st.integers(0, (1 << width) - 1) for v in LEAVES})


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_nested_terms_keep_their_meaning(width: int) -> None:
    @settings(max_examples=150, deadline=None)
    @given(expressions(width), st.lists(environments(width), min_size=4, max_size=4))
    def check(pair: tuple[t.Polynomial, Callable[[dict[str, int]], int]], envs: list[dict[str, int]]) -> None:
        term, mean = pair
        for env in envs:
            assert value(term, **env) == mean(env)
        # Substituting constants for the variables, one at a time, comes to the same number.
        atoms = {t.variable(v, width).monomials[0][0][0]: t.constant(c, width) for v, c in envs[0].items()}
        replaced = Rewriter(atoms=atoms)
        assert t.as_constant(replaced.polynomial(term)) == mean(envs[0])

    check()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_load_reads_what_the_bytes_hold(data: st.DataObject) -> None:
    """Symbolic loads over stores against a byte array, with stores and loads of 1, 2, 4 and 8 bytes that overlap."""
    chain, memory = initial("m"), {}
    concrete: list[tuple[int, int, int]] = []
    for k in range(data.draw(st.integers(0, 4))):
        width, at = data.draw(st.sampled_from((8, 16, 32, 64))), data.draw(st.integers(0, 12))
        content = data.draw(st.integers(0, (1 << width) - 1))
        chain = store(chain, "global", t.add(t.variable("base", 64), t.constant(at, 64)), t.constant(content, width))
        concrete.append((at, width, content))
        for byte in range(width // 8):
            memory[at + byte] = (content >> 8 * byte) & 255, k
    width, at = data.draw(st.sampled_from((8, 16, 32, 64))), data.draw(st.integers(0, 12))
    got = t.as_constant(load(chain, "global", t.add(t.variable("base", 64), t.constant(at, 64)), width))
    cells = [memory.get(at + byte) for byte in range(width // 8)]
    if got is not None:
        assert all(cell is not None for cell in cells)
        assert got == sum(cell[0] << 8 * k for k, cell in enumerate(cells) if cell)
    else:
        exact = [c for c in concrete if c[0] == at and c[1] == width]
        assert not exact or any(cell and cell[1] != concrete.index(exact[-1]) for cell in cells)


def test_spaces_keep_apart_and_generic_meets_all() -> None:
    a = t.variable("a", 64)
    chain = store(initial("m"), "shared", a, t.constant(1, 32))
    assert load(chain, "global", a, 32) is load(initial("m"), "global", a, 32)
    assert load(chain, "generic", a, 32) is not load(initial("m"), "generic", a, 32)
