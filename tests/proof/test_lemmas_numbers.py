"""The rules of lemmas.py as statements about numbers: every pair of small formats, and f32 itself on NumPy."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from small_format import Format, Number

from hybridcc.passes.verify.proof import lemmas

NARROW = Format(3, -3, 3)
WIDE = Format(8, -20, 20)
"""As f32 is to f64: 2p + 2 digits for p, and exponents that no operation leaves."""
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


def twice_rounded(exact: Number, wide: Format, narrow: Format) -> Number:
    return narrow.round(wide.round(exact))


@pytest.mark.parametrize("operation", EXACT)
@pytest.mark.parametrize("narrow", [NARROW, Format(4, -2, 1)], ids=["3 digits", "4 digits"])
def test_demotion_for_every_pair(operation: str, narrow: Format) -> None:
    wide = Format(2 * narrow.digits + 2, -20, 20)
    for x in narrow.signed():
        for y in narrow.signed():
            if operation == "div" and y == 0:
                continue
            exact = EXACT[operation](x, y)
            assert twice_rounded(exact, wide, narrow) == narrow.round(exact), (x, y)


def test_demotion_of_roots() -> None:
    for digits in (3, 4, 5, 6):
        narrow, wide = Format(digits, -6, 6), Format(2 * digits + 2, -30, 30)
        for x in narrow.numbers():
            root = wide.root(x)
            assert narrow.round(root) == narrow.root(x), x


def test_the_margin_is_needed() -> None:
    """With fewer digits between them the rule fails: so the test above can fail."""
    narrow, wide = Format(4, 0, 2), Format(6, -20, 20)
    numbers = narrow.numbers()
    wrong = [(x, y) for x in numbers for y in numbers if twice_rounded(x * y, wide, narrow) != narrow.round(x * y)]
    assert wrong


def test_fma_has_no_demotion() -> None:
    """The counterexample to what everybody hopes: a product rounded with its sum, and then again."""
    narrow = Format(3, -3, 7)
    numbers, tiny = narrow.numbers()[20::2], narrow.numbers()[1:3]
    wrong = [
        (x, y, z)
        for x in numbers
        for y in numbers
        for z in tiny
        if twice_rounded(x * y + z, WIDE, narrow) != narrow.round(x * y + z)
    ]
    assert wrong


def test_powers_of_two_for_every_number() -> None:
    numbers = set(NARROW.signed())
    powers = [p for p in numbers if p and abs(p.numerator * p.denominator).bit_count() == 1 and 1 / p in numbers]
    assert len(powers) >= 10
    for c in powers:
        for x in numbers:
            assert NARROW.round(x * c) == NARROW.round(x / (1 / c))
    assert all(NARROW.round(x + x) == NARROW.round(x * 2) for x in numbers)
    assert any(NARROW.round(NARROW.round(x * 2) / 2) != x for x in numbers)


def test_integers_pass_through_more_digits() -> None:
    """Every integer of 5 bits through 5 digits and more; one digit fewer rounds some."""
    assert all(Format(5, -9, 9).round(Fraction(i)) == i for i in range(-16, 32))
    assert any(Format(4, -9, 9).round(Fraction(i)) != i for i in range(-16, 32))


# --- f32 and f64 ----------------------------------------------------------------------------------------


def operands(count: int, seed: int) -> np.ndarray:
    """f32 bits: random ones, exponents near each other, subnormals, edges."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 32, count, dtype=np.uint32)
    near = (bits & 0x83FFFFFF) + np.uint32(0x3C000000)
    tiny = bits & 0x800FFFFF
    edges = np.array(
        [0, 1, 2, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00005], np.uint32
    )
    edges = np.concatenate([edges, edges | np.uint32(1 << 31)])
    kind = random.integers(0, 8, count)
    chosen = np.where(kind < 3, bits, np.where(kind < 6, near, tiny))
    return np.where(kind == 7, edges[random.integers(0, len(edges), count)], chosen).astype(np.uint32)


@pytest.mark.parametrize("operation", [*EXACT, "sqrt"])
def test_demotion_of_f32(operation: str) -> None:
    x, y = (operands(200_000, seed).view(np.float32) for seed in (1, 2))
    with np.errstate(all="ignore"):
        if operation == "sqrt":
            single, double = np.sqrt(x), np.sqrt(x.astype(np.float64))
        else:
            single, double = EXACT[operation](x, y), EXACT[operation](x.astype(np.float64), y.astype(np.float64))
        narrow = double.astype(np.float32)
    same = (single.view(np.uint32) == narrow.view(np.uint32)) | (np.isnan(single) & np.isnan(narrow))
    assert same.all(), (x[~same][:3], y[~same][:3])


@pytest.mark.parametrize("power", [-127, -126, -60, -1, 0, 1, 24, 100, 126, 127])
def test_powers_of_two_of_f32(power: int) -> None:
    x = operands(50_000, power + 200).view(np.float32)
    (bits,) = struct.unpack("<I", struct.pack("<f", 2.0**power))
    inverse = lemmas.inverse(bits)
    assert inverse is not None
    c = np.array([bits, inverse], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        product, quotient = x * c[0], x / c[1]
    same = (product.view(np.uint32) == quotient.view(np.uint32)) | (np.isnan(product) & np.isnan(quotient))
    assert same.all()


@pytest.mark.parametrize("bits", [0, 1 << 31, 1, 0x00200000, 0x3F800001, 0x40400000, 0x7F800000, 0x7FC00000])
def test_what_has_no_inverse(bits: int) -> None:
    """Zeros, powers of two whose inverse overflows, other numbers, infinity, NaN."""
    assert lemmas.inverse(bits) is None


@pytest.mark.parametrize(
    ("number", "narrow"),
    [
        (0.5, 0x3F000000),
        (-0.0, 0x80000000),
        (2.0**-149, 1),
        (float("inf"), 0x7F800000),
        (0.1, None),
        (2.0**-150, None),
        (2.0**128, None),
        (float.fromhex("0x1.fffffep127"), 0x7F7FFFFF),
        (float.fromhex("0x1.ffffffp127"), None),
        (float("nan"), None),
    ],
)
def test_literals_that_are_f32_numbers(number: float, narrow: int | None) -> None:
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    assert lemmas.narrow_constant(bits) == narrow
