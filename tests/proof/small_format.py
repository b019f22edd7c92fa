"""IEEE arithmetic in formats small enough to try every pair: exact rational numbers, rounded to nearest, ties to even.

A format has ``digits`` of precision, a least exponent (subnormals below it) and a greatest one. Values are Fractions,
``inf``, ``-inf``; zeros carry no sign here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf, isqrt

Number = Fraction | float


@dataclass(frozen=True, slots=True)
class Format:
    digits: int
    least: int
    """The exponent of the least normal number, 2^least."""
    greatest: int

    def round(self, x: Number) -> Number:
        if isinstance(x, float) or x == 0:
            return x
        exponent = max(_exponent(x), self.least)
        unit = Fraction(2) ** (exponent - self.digits + 1)
        rounded = round(x / unit) * unit  # Fractions round half to even
        if abs(rounded) >= Fraction(2) ** (self.greatest + 1):
            return inf if x > 0 else -inf
        return rounded

    def numbers(self) -> tuple[Fraction, ...]:
        """Every number that is not negative and finite."""
        half = 1 << (self.digits - 1)
        unit = Fraction(2) ** (self.least - self.digits + 1)
        subnormal = [unit * k for k in range(half)]
        steps = range(self.greatest - self.least + 1)
        return (*subnormal, *(unit * 2**e * k for e in steps for k in range(half, 2 * half)))

    def signed(self) -> tuple[Fraction, ...]:
        return (*self.numbers(), *(-x for x in self.numbers() if x))

    def root(self, x: Fraction) -> Number:
        """The square root, rounded once: by an integer root with more digits than any tie has, and a sticky one."""
        if x == 0:
            return x
        shift = 4 * (self.digits + 40)
        scaled = x * 4**shift
        whole = isqrt(scaled.numerator // scaled.denominator)
        exact = Fraction(whole) ** 2 == scaled
        return self.round(Fraction(whole, 2**shift) if exact else Fraction(2 * whole + 1, 2 ** (shift + 1)))


@cache
def _exponent(x: Fraction) -> int:
    x = abs(x)
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1
