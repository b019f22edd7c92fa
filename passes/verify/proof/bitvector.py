"""What the ring of terms.py does not do by itself: bitwise operations, shifts, division, changes of width.

Each function has the meaning of the SMT-LIB operation of that name (shifts clamp: an amount of width or more
gives 0, or the sign; ISA 9.7.8.7, 9.7.8.8), but division by zero, which PTX leaves open, means nothing that a
proof may use. Each normalisation below is an identity of two's complement; tests/proof/test_terms.py checks
every one at 8 bits for all values.
"""

from __future__ import annotations

from hybridcc.passes.verify.proof.terms import (
    Atom,
    Condition,
    Monomial,
    Polynomial,
    add,
    as_atom,
    as_condition,
    as_constant,
    atom,
    bit,
    conjunction,
    constant,
    from_monomials,
    mul,
    of_atom,
    scale,
    signed,
    signed_less,
    sub,
)

# --- bitwise --------------------------------------------------------------------------------------------


def bitwise_and(a: Polynomial, b: Polynomial) -> Polynomial:
    if a.width != b.width:
        raise ValueError(f"widths differ: {a.width} and {b.width} bits")
    x, y = as_constant(a), as_constant(b)
    if x is not None and y is not None:
        return constant(x & y, a.width)
    if a is b:
        return a
    if x is not None:
        return _and_constant(b, x)
    if y is not None:
        return _and_constant(a, y)
    for mask, other in ((a, b), (b, a)):
        condition = as_condition(scale(mask, -1))  # 0 or all ones: an arithmetic shift of a sign
        if condition is not None:
            return mul(bit(condition, a.width), other)
    left, right = as_condition(a), as_condition(b)
    if left is not None and right is not None:
        return bit(conjunction(left, right), a.width)
    first, second = sorted((a, b), key=_stable)
    return atom("and", (first, second), a.width)


def _stable(p: Polynomial) -> tuple[tuple[tuple[int, ...], int], ...]:
    return tuple((tuple(a.index for a in m), c) for m, c in p.monomials)


def _and_constant(a: Polynomial, mask: int) -> Polynomial:
    width, full = a.width, (1 << a.width) - 1
    if mask == 0:
        return constant(0, width)
    if mask == full:
        return a
    if mask >> (width - 1):  # a & mask == a - (a & ~mask): only masks with a clear top bit remain
        return sub(a, _and_constant(a, ~mask & full))
    bits = mask.bit_length()
    # Bits from `bits` upwards of `a` do not reach the result, so coefficients count modulo 2^bits only.
    a = from_monomials(width, {m: c & ((1 << bits) - 1) for m, c in a.monomials})
    value = as_constant(a)
    if value is not None:
        return constant(value & mask, width)
    single = as_atom(a)
    if single is not None:
        if mask == (1 << bits) - 1 and single.bound <= mask:
            return a
        if single.operation == "and" and isinstance(single.arguments[1], int):
            inner = single.arguments[0]
            assert isinstance(inner, Polynomial)
            return _and_constant(inner, mask & single.arguments[1])
    condition = as_condition(a)
    if condition is not None:
        return bit(condition, width) if mask & 1 else constant(0, width)
    return atom("and", (a, mask), width, mask)


def bitwise_or(a: Polynomial, b: Polynomial) -> Polynomial:
    return sub(add(a, b), bitwise_and(a, b))


def bitwise_xor(a: Polynomial, b: Polynomial) -> Polynomial:
    return sub(add(a, b), scale(bitwise_and(a, b), 2))


def bitwise_not(a: Polynomial) -> Polynomial:
    return sub(constant(-1, a.width), a)


# --- shifts ---------------------------------------------------------------------------------------------


def shift_left(a: Polynomial, amount: Polynomial) -> Polynomial:
    """``amount`` is unsigned, of any width."""
    n = as_constant(amount)
    if n is not None:
        return scale(a, 1 << n) if n < a.width else constant(0, a.width)
    return atom("shl", (a, amount), a.width)


def shift_right_logical(a: Polynomial, amount: Polynomial) -> Polynomial:
    n, value = as_constant(amount), as_constant(a)
    if n is None:
        return atom("lshr", (a, amount), a.width)
    if n == 0:
        return a
    if n >= a.width:
        return constant(0, a.width)
    if value is not None:
        return constant(value >> n, a.width)
    single = as_atom(a)
    if single is not None and single.bound >> n == 0:
        return constant(0, a.width)
    high = _high_half(a, n)
    if high is not None:
        return high
    if n == a.width - 1:
        return bit(signed_less(a, constant(0, a.width)), a.width)
    return atom("lshr", (a, n), a.width, ((1 << a.width) - 1) >> n)


def _high_half(a: Polynomial, n: int) -> Polynomial | None:
    """``h`` for ``a == 2^n * h + l`` with atoms l < 2^n and h < 2^(width - n): what a packed pair holds."""
    high: Polynomial | None = None
    for monomial, coefficient in a.monomials:
        if len(monomial) == 1 and coefficient == 1 and monomial[0].bound >> n == 0:
            continue
        if len(monomial) == 1 and coefficient == 1 << n and monomial[0].bound >> (a.width - n) == 0:
            if high is not None:
                return None
            high = of_atom(monomial[0])
            continue
        return None
    lows = sum(1 for m, c in a.monomials if c == 1 and m and m[0].bound >> n == 0)
    return high if lows <= 1 else None


def shift_right_arithmetic(a: Polynomial, amount: Polynomial) -> Polynomial:
    n, value = as_constant(amount), as_constant(a)
    if n is None:
        return atom("ashr", (a, amount), a.width)
    n = min(n, a.width - 1)
    if n == 0:
        return a
    if value is not None:
        return constant(signed(value, a.width) >> n, a.width)
    if n == a.width - 1:  # 0 or all ones
        return scale(bit(signed_less(a, constant(0, a.width)), a.width), -1)
    return atom("ashr", (a, n), a.width)


# --- division -------------------------------------------------------------------------------------------


def _division(operation: str, a: Polynomial, b: Polynomial) -> Polynomial:
    if a.width != b.width:
        raise ValueError(f"widths differ: {a.width} and {b.width} bits")
    x, y = as_constant(a), as_constant(b)
    if x is not None and y:
        return constant(divide(operation, x, y, a.width), a.width)
    return atom(operation, (a, b), a.width)


def divide(operation: str, x: int, y: int, width: int) -> int:
    """The quotient or remainder of two bit patterns, y != 0; signed ones round towards zero (ISA 9.7.1.9)."""
    if operation == "udiv":
        return x // y
    if operation == "urem":
        return x % y
    p, q = signed(x, width), signed(y, width)
    quotient = abs(p) // abs(q)
    quotient = -quotient if (p < 0) != (q < 0) else quotient
    return (quotient if operation == "sdiv" else p - quotient * q) & ((1 << width) - 1)


def unsigned_quotient(a: Polynomial, b: Polynomial) -> Polynomial:
    n = _power_of_two(b)
    if n is not None:
        return shift_right_logical(a, constant(n, 32))
    return _division("udiv", a, b)


def unsigned_remainder(a: Polynomial, b: Polynomial) -> Polynomial:
    n = _power_of_two(b)
    if n is not None:
        return bitwise_and(a, constant((1 << n) - 1, a.width))
    return _division("urem", a, b)


def signed_quotient(a: Polynomial, b: Polynomial) -> Polynomial:
    return _division("sdiv", a, b)


def signed_remainder(a: Polynomial, b: Polynomial) -> Polynomial:
    return _division("srem", a, b)


def _power_of_two(p: Polynomial) -> int | None:
    value = as_constant(p)
    return value.bit_length() - 1 if value and value & (value - 1) == 0 else None


# --- changes of width -----------------------------------------------------------------------------------


def truncate(a: Polynomial, width: int) -> Polynomial:
    """The low ``width`` bits: a ring homomorphism, so it goes down to the atoms."""
    if width >= a.width:
        if width > a.width:
            raise ValueError("truncation cannot widen")
        return a
    total: dict[Monomial, int] = {}
    for monomial, coefficient in a.monomials:
        product = constant(coefficient, width)
        for factor in monomial:
            product = mul(product, _truncate_atom(factor, width))
        for m, c in product.monomials:
            total[m] = total.get(m, 0) + c
    return from_monomials(width, total)


def _truncate_atom(single: Atom, width: int) -> Polynomial:
    if single.operation in ("sext", "zext"):
        inner = single.arguments[0]
        assert isinstance(inner, Polynomial)
        if inner.width >= width:
            return truncate(inner, width)
        return sign_extend(inner, width) if single.operation == "sext" else zero_extend(inner, width)
    if single.operation == "bit":
        inner = single.arguments[0]
        assert isinstance(inner, Condition)
        return bit(inner, width)
    if single.operation == "trunc":
        inner = single.arguments[0]
        assert isinstance(inner, Polynomial)
        return truncate(inner, width)
    return atom("trunc", (of_atom(single),), width, single.bound)


def sign_extend(a: Polynomial, width: int) -> Polynomial:
    if width == a.width:
        return a
    if width < a.width:
        raise ValueError("extension cannot narrow")
    value = as_constant(a)
    if value is not None:
        return constant(signed(value, a.width), width)
    single = as_atom(a)
    if single is not None:
        if single.bound >> (a.width - 1) == 0:
            return zero_extend(a, width)
        if single.operation == "sext":
            inner = single.arguments[0]
            assert isinstance(inner, Polynomial)
            return sign_extend(inner, width)
    condition = as_condition(scale(a, -1))
    if condition is not None:
        return scale(bit(condition, width), -1)
    wide = _in_range(a, width, -(1 << (a.width - 1)), (1 << (a.width - 1)) - 1)
    return atom("sext", (a,), width) if wide is None else wide


def _in_range(a: Polynomial, width: int, least: int, greatest: int) -> Polynomial | None:
    """The same sum of ``width`` bits, if the bounds of its atoms keep the sum of integers in the range: none wraps."""
    low = high = 0
    total = constant(0, width)
    for monomial, coefficient in a.monomials:
        c = signed(coefficient, a.width)
        size = abs(c)
        product = constant(c, width)
        for factor in monomial:
            size *= factor.bound
            product = mul(product, zero_extend(of_atom(factor), width))
        if not monomial:
            low, high = low + c, high + c
        else:
            low, high = low - size * (c < 0), high + size * (c > 0)
        if low < least - (1 << a.width) or high > greatest + (1 << a.width):
            return None  # no constant brings it back
        total = add(total, product)
    return total if least <= low and high <= greatest else None


def zero_extend(a: Polynomial, width: int) -> Polynomial:
    if width == a.width:
        return a
    if width < a.width:
        raise ValueError("extension cannot narrow")
    value = as_constant(a)
    if value is not None:
        return constant(value, width)
    condition = as_condition(a)
    if condition is not None:
        return bit(condition, width)
    single = as_atom(a)
    if single is None:
        wide = _in_range(a, width, 0, (1 << a.width) - 1)
        return atom("zext", (a,), width, (1 << a.width) - 1) if wide is None else wide
    if single.operation == "zext":
        inner = single.arguments[0]
        assert isinstance(inner, Polynomial)
        return zero_extend(inner, width)
    if single.operation == "trunc":
        inner = single.arguments[0]
        assert isinstance(inner, Polynomial)
        source = as_atom(inner)
        if source is not None and source.width == width and source.bound >> a.width == 0:
            return inner  # nothing was cut off
    return atom("zext", (a,), width, single.bound)


def extract(a: Polynomial, low: int, width: int) -> Polynomial:
    """Bits ``low`` to ``low + width - 1``."""
    return truncate(shift_right_logical(a, constant(low, 32)), width)


def concatenate(high: Polynomial, low: Polynomial) -> Polynomial:
    width = high.width + low.width
    return add(scale(zero_extend(high, width), 1 << low.width), zero_extend(low, width))


# --- uninterpreted, but for the order of two operands ---------------------------------------------------

COMMUTING = "commuting "
"""How the name of an operation begins whose first two operands may be exchanged."""


def commuting(name: str, operands: tuple[Polynomial, ...], width: int) -> Polynomial:
    first, second = sorted(operands[:2], key=_stable)
    name = name if name.startswith(COMMUTING) else COMMUTING + name
    return atom(name, (first, second, *operands[2:]), width)
