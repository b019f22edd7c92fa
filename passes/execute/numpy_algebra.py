"""The NumPy interpretation of the algebra: bit-vectors are arrays of unsigned integers of just their width."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hybridcc.passes.execute import numpy_floats
from hybridcc.passes.execute.numpy_floats import SIGNED, UNSIGNED, to_f64
from hybridcc.ptx.algebra import Conversion, FloatOperation

Array = Any


@lru_cache(maxsize=65536)
def _constant(value: int, width: int) -> Any:
    return UNSIGNED[width](value & ((1 << width) - 1))


class NumpyAlgebra:
    """hybridcc.ptx.algebra.Algebra over arrays; scalars broadcast."""

    @staticmethod
    def constant(value: int, width: int) -> Array:
        return _constant(value, width)

    @staticmethod
    def truth(value: bool) -> Array:
        return np.bool_(value)

    @staticmethod
    def add(a: Array, b: Array, width: int) -> Array:
        return a + b

    @staticmethod
    def sub(a: Array, b: Array, width: int) -> Array:
        return a - b

    @staticmethod
    def mul(a: Array, b: Array, width: int) -> Array:
        return a * b

    @staticmethod
    def mul_high(a: Array, b: Array, width: int, signed: bool) -> Array:
        if width < 64:
            wide = SIGNED[2 * width] if signed else UNSIGNED[2 * width]
            x, y = (_signed(v, width).astype(wide) if signed else v.astype(wide) for v in (a, b))
            return ((x * y) >> wide(width)).astype(UNSIGNED[width])
        high = _mul_high64(a, b)
        if signed:
            high = high - np.where(_signed(a, 64) < 0, b, np.uint64(0)) - np.where(_signed(b, 64) < 0, a, np.uint64(0))
        return high

    @staticmethod
    def divide(a: Array, b: Array, width: int, signed: bool) -> Array:
        if not signed:
            return np.where(b == 0, ~UNSIGNED[width](0), a // np.where(b == 0, UNSIGNED[width](1), b))
        quotient, _ = _divide_signed(a, b, width)
        return quotient

    @staticmethod
    def remainder(a: Array, b: Array, width: int, signed: bool) -> Array:
        if not signed:
            return np.where(b == 0, a, a % np.where(b == 0, UNSIGNED[width](1), b))
        _, remainder = _divide_signed(a, b, width)
        return remainder

    @staticmethod
    def and_(a: Array, b: Array, width: int) -> Array:
        return a & b

    @staticmethod
    def or_(a: Array, b: Array, width: int) -> Array:
        return a | b

    @staticmethod
    def xor(a: Array, b: Array, width: int) -> Array:
        return a ^ b

    @staticmethod
    def not_(a: Array, width: int) -> Array:
        return ~a

    @staticmethod
    def shift_left(a: Array, amount: Array, width: int) -> Array:
        # NumPy masks neither way: C leaves a shift by the width or more open
        dtype = UNSIGNED[width]
        n = amount.astype(dtype) if width >= 32 else np.minimum(amount, np.uint32(width)).astype(dtype)
        if np.ndim(amount) == 0 or amount.max(initial=0) < width:
            return a << n if np.ndim(amount) or int(amount) < width else np.zeros_like(a)
        big = amount >= width
        return np.where(big, dtype(0), a << np.where(big, dtype(0), n))

    @staticmethod
    def shift_right(a: Array, amount: Array, width: int, signed: bool) -> Array:
        limit = np.uint32(width - 1)
        if signed:
            n = np.minimum(amount, limit).astype(SIGNED[width])
            return (_signed(a, width) >> n).view(UNSIGNED[width])
        n = np.minimum(amount, limit).astype(UNSIGNED[width])
        if np.ndim(amount) == 0:
            return a >> n if int(amount) < width else np.zeros_like(a)
        shifted = a >> n
        return shifted if amount.max(initial=0) < width else np.where(amount >= width, UNSIGNED[width](0), shifted)

    @staticmethod
    def population_count(a: Array, width: int) -> Array:
        return np.bitwise_count(a).astype(np.uint32)

    @staticmethod
    def leading_zeros(a: Array, width: int) -> Array:
        filled = np.array(a)
        step = 1
        while step < width:
            filled |= filled >> UNSIGNED[width](step)
            step *= 2
        return np.uint32(width) - np.bitwise_count(filled).astype(np.uint32)

    @staticmethod
    def reverse_bits(a: Array, width: int) -> Array:
        dtype = UNSIGNED[width]
        value = np.asarray(a)
        step = 1
        while step < width:
            mask = dtype(sum(((1 << step) - 1) << i for i in range(0, width, 2 * step)))
            value = ((value >> dtype(step)) & mask) | ((value & mask) << dtype(step))
            step *= 2
        return value

    @staticmethod
    def extend(a: Array, width: int, to: int, signed: bool) -> Array:
        if width in UNSIGNED:
            return _signed(a, width).astype(SIGNED[to]).view(UNSIGNED[to]) if signed else a.astype(UNSIGNED[to])
        # fields of odd widths (24-bit factors, exponents, nibbles) live in the next wider integer
        value = a.astype(UNSIGNED[to])
        if not signed:
            return value
        top = UNSIGNED[to](1 << (width - 1))
        return (value ^ top) - top

    @staticmethod
    def truncate(a: Array, width: int, to: int) -> Array:
        return a.astype(UNSIGNED[to])

    @staticmethod
    def extract(a: Array, width: int, low: int, to: int) -> Array:
        shifted = a >> UNSIGNED[width](low) if low else a
        if to in UNSIGNED:
            return shifted.astype(UNSIGNED[to])
        holder = next(w for w in UNSIGNED if w >= to)
        return (shifted & UNSIGNED[width]((1 << to) - 1)).astype(UNSIGNED[holder])

    @staticmethod
    def concatenate(parts: tuple[Array, ...], width: int) -> Array:
        total = UNSIGNED[width * len(parts)]
        value = parts[0].astype(total)
        for i, part in enumerate(parts[1:], 1):
            value = value | (part.astype(total) << total(width * i))
        return value

    @staticmethod
    def equal(a: Array, b: Array, width: int) -> Array:
        return a == b

    @staticmethod
    def less(a: Array, b: Array, width: int, signed: bool) -> Array:
        return _signed(a, width) < _signed(b, width) if signed else a < b

    @staticmethod
    def p_and(a: Array, b: Array) -> Array:
        return a & b

    @staticmethod
    def p_or(a: Array, b: Array) -> Array:
        return a | b

    @staticmethod
    def p_xor(a: Array, b: Array) -> Array:
        return a ^ b

    @staticmethod
    def p_not(a: Array) -> Array:
        return ~a

    @staticmethod
    def select(condition: Array, a: Array, b: Array, width: int) -> Array:
        return np.where(condition, a, b)

    @staticmethod
    def p_select(condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)

    @staticmethod
    def float_operation(operation: FloatOperation, operands: tuple[Array, ...]) -> Array:
        return numpy_floats.operation(operation, operands)

    @staticmethod
    def float_less(a: Array, b: Array, format: str, ftz: bool) -> Array:
        x, y = _compared(a, b, format, ftz)
        return x < y

    @staticmethod
    def float_equal(a: Array, b: Array, format: str, ftz: bool) -> Array:
        x, y = _compared(a, b, format, ftz)
        return x == y

    @staticmethod
    def is_nan(a: Array, format: str) -> Array:
        return np.isnan(_native(a, format))

    @staticmethod
    def convert(conversion: Conversion, a: Array) -> Array:
        return numpy_floats.convert(conversion, a)


ALGEBRA = NumpyAlgebra()


def _signed(a: Array, width: int) -> Array:
    return a.view(SIGNED[width])


def _native(a: Array, format: str) -> Array:
    if format == "f32":
        return a.view(np.float32)
    return a.view(np.float64) if format == "f64" else to_f64(a, format)


def _compared(a: Array, b: Array, format: str, ftz: bool) -> tuple[Array, Array]:
    if ftz:
        a, b = numpy_floats.flush(a, format), numpy_floats.flush(b, format)
    return _native(a, format), _native(b, format)


def _divide_signed(a: Array, b: Array, width: int) -> tuple[Array, Array]:
    """(quotient, remainder), truncating; the most negative number by -1 wraps."""
    x, y = _magnitude(a, width), _magnitude(b, width)
    zero = y == 0
    safe = np.where(zero, UNSIGNED[width](1), y)
    quotient, remainder = x // safe, x % safe
    negative = _signed(a, width) < 0
    flips = negative != (_signed(b, width) < 0)
    quotient = np.where(flips, UNSIGNED[width](0) - quotient, quotient)
    remainder = np.where(negative, UNSIGNED[width](0) - remainder, remainder)
    return np.where(zero, ~UNSIGNED[width](0), quotient), np.where(zero, a, remainder)


def _magnitude(a: Array, width: int) -> Array:
    return np.where(_signed(a, width) < 0, UNSIGNED[width](0) - a, a)


def _mul_high64(a: Array, b: Array) -> Array:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = a & mask, a >> half, b & mask, b >> half
    low = al * bl
    middle = ah * bl + (low >> half)
    other = al * bh + (middle & mask)
    return ah * bh + (middle >> half) + (other >> half)
