"""Correct rounding in NumPy, which itself only rounds to nearest: everything else goes through an exact detour.

The detour for formats of up to 24 bits: compute in f64 rounded *to odd* (Boldo and Melquiond, "When double rounding
is odd", 2005), then round once to the format. 53 bits are at least two more than any such format has, so the result
is the correctly rounded one. For f64 itself, fma uses error-free transformations where exponents allow and integers
elsewhere; directed roundings of f64 are computed with integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Bits = NDArray[np.uint64]


class Format(NamedTuple):
    """``precision`` counts the hidden bit; ``least`` is the exponent of the smallest subnormal's unit."""

    precision: int
    least: int
    largest: float


FORMATS = {
    "f16": Format(11, -24, 65504.0),
    "bf16": Format(8, -133, float.fromhex("0x1.fep127")),
    "f32": Format(24, -149, float.fromhex("0x1.fffffep127")),
    "tf32": Format(11, -136, float.fromhex("0x1.ffcp127")),
    "e4m3": Format(4, -9, 448.0),
    "e5m2": Format(3, -16, 57344.0),
}


def two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """(s, e): s is a + b rounded to nearest, e the exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a: F64) -> tuple[F64, F64]:
    c = 134217729.0 * a  # 2**27 + 1 (Veltkamp)
    high = c - (c - a)
    return high, a - high


def two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """(p, e): p is a * b rounded to nearest, e the exact error (Dekker); exponents must keep clear of both ends."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(s: F64, direction: F64) -> F64:
    """s, the nearest to an exact value that lies off it in ``direction`` (its sign; 0: on it), rounded to odd."""
    bits = s.view(np.int64) if s.ndim else np.asarray(s).view(np.int64)
    moves = (direction != 0) & ((bits & 1) == 0) & np.isfinite(s) & np.isfinite(direction)
    outward = (direction > 0) == (s > 0)
    return np.where(moves, bits + np.where(outward, 1, -1), bits).view(np.float64)


def round_to(x: F64, format: str, mode: str) -> F64:
    """x rounded to a narrow format, as an f64 value. ``mode``: rn rz rm rp, or rna (nearest, ties away)."""
    precision, least, largest = FORMATS[format]
    if format == "f32" and mode == "rn":
        return x.astype(np.float32).astype(np.float64)
    _, exponent = np.frexp(x)
    unit = np.maximum(exponent.astype(np.int64) - precision, least).astype(np.int32)
    scaled = np.ldexp(x, -unit)
    rounded = _integral(scaled, mode)
    value = np.ldexp(rounded, unit)
    value = np.copysign(value, x)
    over = np.isfinite(x) & (np.abs(value) > largest)
    if over.any():
        value = np.where(over, _overflow(x, largest, mode), value)
    return np.where(np.isfinite(x), value, x)


def _integral(x: F64, mode: str) -> F64:
    match mode[:2]:
        case "rz":
            return np.trunc(x)
        case "rm":
            return np.floor(x)
        case "rp":
            return np.ceil(x)
        case "rn" if mode == "rna":
            return np.copysign(np.floor(np.abs(x) + 0.5), x)
        case _:
            return np.rint(x)


def round_integral(x: F64, mode: str) -> F64:
    """rni rzi rmi rpi"""
    return np.copysign(_integral(x, mode[:2]), x)


def _overflow(x: F64, largest: float, mode: str) -> F64:
    to_infinity = {"rn": np.ones_like(x, bool), "rna": np.ones_like(x, bool), "rz": np.zeros_like(x, bool),
                   "rm": x < 0, "rp": x > 0}[mode]  # fmt: skip
    return np.copysign(np.where(to_infinity, np.inf, largest), x)


def fma_odd(a: F64, b: F64, c: F64) -> F64:
    """a*b + c rounded to odd, for a and b of at most 24 bits (so that their product is exact in f64)."""
    product = a * b
    s, e = two_sum(product, c)
    return to_odd(s, e)


def quotient_odd(a: F64, b: F64) -> F64:
    """a / b rounded to odd, for operands of at most 24 bits in the range of f32."""
    q = a / b
    p, e = two_product(q, b)
    residual = (a - p) - e
    return to_odd(q, np.where(np.isfinite(q), residual * np.sign(b), 0.0))


def root_odd(a: F64) -> F64:
    q = np.sqrt(a)
    p, e = two_product(q, q)
    return to_odd(q, np.where(np.isfinite(q), (a - p) - e, 0.0))


# --- f64 -------------------------------------------------------------------------------------------------


def fma64(a: F64, b: F64, c: F64) -> F64:
    """a*b + c with one rounding to nearest. Special values follow IEEE (NaN where it says NaN)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    # a product that only overflows is no infinity: beside an infinite c it counts for nothing
    plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    small = (np.abs(a) < 2.0**450) & (np.abs(b) < 2.0**450) & (np.abs(c) < 2.0**900)
    product = np.abs(a * b)
    clear = (product > 2.0**-900) & ((np.abs(c) > 2.0**-900) | (c == 0))
    easy = finite & small & clear
    result = plain
    if easy.any():
        uh, ul = two_product(np.where(easy, a, 1.0), np.where(easy, b, 1.0))
        th, tl = two_sum(np.where(easy, c, 0.0), ul)
        vh, vl = two_sum(uh, th)
        z_sum, z_error = two_sum(tl, vl)
        result = np.where(easy, vh + to_odd(z_sum, z_error), plain)
    hard = finite & ~easy & (a != 0) & (b != 0)
    if hard.any():
        result = np.array(result)
        for i in zip(*np.nonzero(hard), strict=True) if result.ndim else [()]:
            exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
            zero = -0.0 if np.signbit(a[i]) != np.signbit(b[i]) and np.signbit(c[i]) else 0.0
            result[i] = round_fraction(exact, "rn", zero)
    return result


def round_fraction(x: Fraction, mode: str, zero: float = 0.0) -> float:
    """An exact rational to f64, ``zero`` where it is 0."""
    if x == 0:
        return zero
    sign = -1 if x < 0 else 1
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = max(exponent - 52, -1074)
    scaled = magnitude / Fraction(2) ** unit
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    whole += _goes_up(whole, Fraction(rest, scaled.denominator), mode, sign)
    if whole.bit_length() + unit > 1024:
        infinite = mode == "rn" or (mode == "rp" and sign > 0) or (mode == "rm" and sign < 0)
        return sign * (float("inf") if infinite else 1.7976931348623157e308)
    return sign * float(np.ldexp(float(whole), unit))


def _goes_up(whole: int, rest: Fraction, mode: str, sign: int) -> bool:
    if rest == 0:
        return False
    match mode:
        case "rn":
            return rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1 == 1)
        case "rp":
            return sign > 0
        case "rm":
            return sign < 0
        case _:
            return False


def directed64(name: str, operands: tuple[F64, ...], mode: str) -> F64:
    """An f64 operation rounded by rz, rm or rp, element by element with exact integers."""
    arrays = np.broadcast_arrays(*operands)
    nearest = _nearest64(name, arrays)
    result = np.array(nearest)
    finite = np.logical_and.reduce([np.isfinite(x) for x in arrays])
    flat = result.reshape(-1)
    columns = [np.asarray(x).reshape(-1) for x in arrays]
    for i in np.nonzero(finite.reshape(-1))[0]:
        values = [float(c[i]) for c in columns]
        exact = _exact64(name, values, mode)
        if exact is not None:
            flat[i] = exact
    return flat.reshape(result.shape)


def _nearest64(name: str, x: Sequence[F64]) -> F64:
    match name:
        case "add":
            return x[0] + x[1]
        case "sub":
            return x[0] - x[1]
        case "mul":
            return x[0] * x[1]
        case "div":
            return x[0] / x[1]
        case "rcp":
            return 1.0 / x[0]
        case "sqrt":
            return np.sqrt(x[0])
        case _:
            return fma64(x[0], x[1], x[2])


def _exact64(name: str, v: list[float], mode: str) -> float | None:
    """The rounded value, or None where IEEE's special rules (division by zero, signs of zero) already decided."""
    f = [Fraction(x) for x in v]
    cancel = -0.0 if mode == "rm" else 0.0
    match name:
        case "add" | "sub":
            second = f[1] if name == "add" else -f[1]
            exact = f[0] + second
            if exact == 0:
                return cancel if f[0] != 0 else _zero_sum(v, name, mode)
        case "mul":
            exact = f[0] * f[1]
        case "fma":
            exact = f[0] * f[1] + f[2]
            opposite = (np.signbit(v[0]) != np.signbit(v[1])) != np.signbit(v[2])
            if exact == 0 and (f[2] != 0 or opposite):
                return cancel
        case "div" | "rcp":
            below = f[-1]
            if below == 0:
                return None
            exact = (f[0] if name == "div" else Fraction(1)) / below
        case "sqrt":
            return None if v[0] <= 0 else _root(f[0], mode)
        case _:
            return None
    return None if exact == 0 else round_fraction(exact, mode)


def _zero_sum(v: list[float], name: str, mode: str) -> float | None:
    b = v[1] if name == "add" else -v[1]
    if np.signbit(v[0]) == np.signbit(b):
        return None
    return -0.0 if mode == "rm" else 0.0


def _root(x: Fraction, mode: str) -> float:
    shift = 2 * (120 + max(0, x.denominator.bit_length() - x.numerator.bit_length()))
    scaled = (x.numerator << shift) // x.denominator
    root = isqrt(scaled)
    exact = root * root == scaled and scaled * x.denominator == x.numerator << shift
    near = Fraction(2 * root + (0 if exact else 1), 2) / (1 << (shift // 2))
    return round_fraction(near, mode)
