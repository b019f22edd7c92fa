"""Integer arithmetic, bit fields and carries (PTX ISA 9.0, sections 9.7.1 and 9.7.2)."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import PACKED, is_signed, width


def _typed(m: Modifiers) -> tuple[str, int, bool]:
    return m.type, width(m.type), is_signed(m.type)


def packed(m: Modifiers, of_element: Any, count_of_sources: int) -> Operation:
    """An operation on .u16x2, .s16x2, .f16x2 …, element by element; ``of_element(type)`` is the scalar one."""
    element, count = PACKED[m.type]
    inner = of_element(Modifiers(m.words, (element, *m.types[1:])))
    w = width(element)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        lanes = [inner.apply(alg, tuple(alg.extract(x, w * count, w * i, w) for x in s))[0] for i in range(count)]
        return (alg.concatenate(tuple(lanes), w),)

    total = w * count
    return Operation((total,) * count_of_sources, (total,), apply, exact=inner.exact)


def add_sub(opcode: str, m: Modifiers) -> Operation:
    t, w, _ = _typed(m)
    if t in PACKED:
        return packed(m, lambda e: add_sub(opcode, e), 2)
    if m.has("cc"):
        return carried(opcode, m)
    if m.has("sat"):
        if t != "s32":
            raise Unsupported(f"{opcode}.sat.{t}")
        return Operation((w, w), (w,), lambda alg, s: (_saturated(alg, opcode, s, w),))
    if opcode == "add":
        return Operation((w, w), (w,), lambda alg, s: (alg.add(s[0], s[1], w),))
    return Operation((w, w), (w,), lambda alg, s: (alg.sub(s[0], s[1], w),))


def _saturated(alg: Any, opcode: str, s: tuple[Any, ...], w: int) -> Any:
    a, b = (alg.extend(x, w, 2 * w, True) for x in s[:2])
    wide = alg.add(a, b, 2 * w) if opcode == "add" else alg.sub(a, b, 2 * w)
    return clamp_signed(alg, wide, 2 * w, w)


def clamp_signed(alg: Any, value: Any, from_width: int, w: int) -> Any:
    """A signed value of ``from_width`` bits clamped to the signed range of ``w`` bits."""
    most = alg.constant((1 << (w - 1)) - 1, from_width)
    least = alg.constant((1 << from_width) - (1 << (w - 1)), from_width)
    low = alg.select(alg.less(value, least, from_width, True), least, value, from_width)
    both = alg.select(alg.less(most, low, from_width, True), most, low, from_width)
    return alg.truncate(both, from_width, w)


def carried(opcode: str, m: Modifiers) -> Operation:
    """add.cc, addc[.cc], sub.cc, subc[.cc]. The carry of a subtraction is its borrow (9.7.2.3: CC.CF is borrow-out).

    add.cc: carry out where the sum is below an operand; with a carry in, at the sum's own wrap as well.
    """
    _, w, _ = _typed(m)
    takes, gives = opcode in ("addc", "subc"), m.has("cc")
    subtracts = opcode.startswith("sub")

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        a, b = s[0], s[1]
        one, zero = alg.constant(1, w), alg.constant(0, w)
        step = alg.select(s[2], one, zero, w) if takes else zero
        if subtracts:
            first = alg.sub(a, b, w)
            value = alg.sub(first, step, w)
            carry = alg.p_or(alg.less(a, b, w, False), alg.less(first, step, w, False))
        else:
            first = alg.add(a, b, w)
            value = alg.add(first, step, w)
            carry = alg.p_or(alg.less(first, a, w, False), alg.less(value, first, w, False))
        return (value, carry) if gives else (value,)

    return Operation((w, w), (w,), apply, carry_in=takes, carry_out=gives)


def mul(m: Modifiers) -> Operation:
    t, w, signed = _typed(m)
    mode = m.one_of(("lo", "hi", "wide"))
    if mode == "wide":
        return Operation((w, w), (2 * w,), lambda alg, s: (_wide(alg, s[0], s[1], w, signed),))
    if mode == "hi":
        return Operation((w, w), (w,), lambda alg, s: (alg.mul_high(s[0], s[1], w, signed),))
    if mode == "lo":
        return Operation((w, w), (w,), lambda alg, s: (alg.mul(s[0], s[1], w),))
    raise Unsupported(f"mul.{t} without .lo, .hi or .wide")


def _wide(alg: Any, a: Any, b: Any, w: int, signed: bool) -> Any:
    return alg.mul(alg.extend(a, w, 2 * w, signed), alg.extend(b, w, 2 * w, signed), 2 * w)


def mad(opcode: str, m: Modifiers) -> Operation:
    t, w, signed = _typed(m)
    mode = m.one_of(("lo", "hi", "wide"))
    takes, gives = opcode == "madc", m.has("cc")
    if mode == "wide":
        return Operation((w, w, 2 * w), (2 * w,), lambda alg, s: (
            alg.add(_wide(alg, s[0], s[1], w, signed), s[2], 2 * w),))  # fmt: skip
    if mode not in ("lo", "hi"):
        raise Unsupported(f"{opcode}.{t} without .lo, .hi or .wide")
    product = mul(Modifiers(frozenset({mode}), (t,)))
    if m.has("sat"):
        if (t, mode) != ("s32", "hi"):
            raise Unsupported(f"mad.{mode}.sat.{t}")
        return Operation((w, w, w), (w,), lambda alg, s: (
            _saturated(alg, "add", (alg.mul_high(s[0], s[1], w, True), s[2]), w),))  # fmt: skip
    if not takes and not gives:
        return Operation((w, w, w), (w,), lambda alg, s: (alg.add(product.apply(alg, s[:2])[0], s[2], w),))
    adder = carried("addc" if takes else "add", Modifiers(frozenset({"cc"}) if gives else frozenset(), (t,)))

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        return adder.apply(alg, (product.apply(alg, s[:2])[0], s[2], *s[3:]))

    return Operation((w, w, w), (w,), apply, carry_in=takes, carry_out=gives)


def mul24(opcode: str, m: Modifiers) -> Operation:
    """The low 24 bits of each factor; .lo gives product bits 31..0, .hi bits 47..16."""
    _, w, signed = _typed(m)
    low = 0 if m.has("lo") else 16
    if m.has("sat") and (opcode, m.type, low) != ("mad24", "s32", 16):
        raise Unsupported(f"{opcode}.sat.{m.type}")

    def product(alg: Any, a: Any, b: Any) -> Any:
        x, y = (alg.extend(alg.extract(v, 32, 0, 24), 24, 64, signed) for v in (a, b))
        return alg.extract(alg.mul(x, y, 64), 64, low, 32)

    if opcode == "mul24":
        return Operation((w, w), (w,), lambda alg, s: (product(alg, s[0], s[1]),))
    if m.has("sat"):
        return Operation((w, w, w), (w,), lambda alg, s: (
            _saturated(alg, "add", (product(alg, s[0], s[1]), s[2]), w),))  # fmt: skip
    return Operation((w, w, w), (w,), lambda alg, s: (alg.add(product(alg, s[0], s[1]), s[2], w),))


def sad(m: Modifiers) -> Operation:
    """c + |a - b|"""
    _, w, signed = _typed(m)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        less = alg.less(s[0], s[1], w, signed)
        distance = alg.select(less, alg.sub(s[1], s[0], w), alg.sub(s[0], s[1], w), w)
        return (alg.add(s[2], distance, w),)

    return Operation((w, w, w), (w,), apply)


def div_rem(opcode: str, m: Modifiers) -> Operation:
    _, w, signed = _typed(m)
    if opcode == "div":
        return Operation((w, w), (w,), lambda alg, s: (alg.divide(s[0], s[1], w, signed),))
    return Operation((w, w), (w,), lambda alg, s: (alg.remainder(s[0], s[1], w, signed),))


def abs_neg(opcode: str, m: Modifiers) -> Operation:
    t, w, _ = _typed(m)
    if t in PACKED:
        return packed(m, lambda e: abs_neg(opcode, e), 1)
    if opcode == "neg":
        return Operation((w,), (w,), lambda alg, s: (alg.sub(alg.constant(0, w), s[0], w),))

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        zero = alg.constant(0, w)
        return (alg.select(alg.less(s[0], zero, w, True), alg.sub(zero, s[0], w), s[0], w),)

    return Operation((w,), (w,), apply)


def min_max(opcode: str, m: Modifiers) -> Operation:
    t, w, signed = _typed(m)
    if t in PACKED:
        return packed(m, lambda e: min_max(opcode, e), 2)
    relu = m.has("relu")

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        less = alg.less(s[0], s[1], w, signed)
        a, b = (s[0], s[1]) if opcode == "min" else (s[1], s[0])
        value = alg.select(less, a, b, w)
        if relu:
            zero = alg.constant(0, w)
            value = alg.select(alg.less(value, zero, w, True), zero, value, w)
        return (value,)

    return Operation((w, w), (w,), apply)


def counting(opcode: str, m: Modifiers) -> Operation:
    """popc, clz, brev, bfind"""
    _, w, signed = _typed(m)
    if opcode == "popc":
        return Operation((w,), (32,), lambda alg, s: (alg.population_count(s[0], w),))
    if opcode == "clz":
        return Operation((w,), (32,), lambda alg, s: (alg.leading_zeros(s[0], w),))
    if opcode == "brev":
        return Operation((w,), (w,), lambda alg, s: (alg.reverse_bits(s[0], w),))
    shift_amount = m.has("shiftamt")

    def bfind(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        value = s[0]
        if signed:  # the most significant bit that differs from the sign
            value = alg.select(alg.less(value, alg.constant(0, w), w, True), alg.not_(value, w), value, w)
        zeros = alg.leading_zeros(value, w)
        none = alg.equal(zeros, alg.constant(w, 32), 32)
        found = zeros if shift_amount else alg.sub(alg.constant(w - 1, 32), zeros, 32)
        return (alg.select(none, alg.constant(0xFFFFFFFF, 32), found, 32),)

    return Operation((w,), (32,), bfind)


def _low_amount(alg: Any, value: Any, w: int) -> Any:
    """Position and length: 32-bit fields use the low 8 bits, 64-bit ones all 32 (measured, ptx-test errata)."""
    return alg.and_(value, alg.constant(0xFF, 32), 32) if w == 32 else value


def bfe(m: Modifiers) -> Operation:
    """The field at ``pos`` of ``len`` bits; beyond the top come zeros or copies of the sign (9.7.1.19)."""
    _, w, signed = _typed(m)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        a = s[0]
        position, length = _low_amount(alg, s[1], w), _low_amount(alg, s[2], w)
        zero = alg.constant(0, w)
        shifted = alg.shift_right(a, position, w, signed)
        full = alg.not_(zero, w)
        field = alg.not_(alg.shift_left(full, length, w), w)
        value = alg.and_(shifted, field, w)
        if signed:
            # the sign is bit min(pos + len - 1, msb); a length of 0 gives 0
            one = alg.constant(1, 32)
            top = alg.sub(alg.add(position, length, 32), one, 32)
            wraps = alg.p_or(alg.less(alg.add(position, length, 32), position, 32, False),
                             alg.less(alg.constant(w - 1, 32), top, 32, False))  # fmt: skip
            top = alg.select(wraps, alg.constant(w - 1, 32), top, 32)
            sign = alg.and_(alg.shift_right(a, top, w, False), alg.constant(1, w), w)
            negative = alg.equal(sign, alg.constant(1, w), w)
            value = alg.select(negative, alg.or_(value, alg.not_(field, w), w), value, w)
        empty = alg.equal(length, alg.constant(0, 32), 32)
        return (alg.select(empty, zero, value, w),)

    return Operation((w, 32, 32), (w,), apply)


def bfi(m: Modifiers) -> Operation:
    _, w, _ = _typed(m)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        position, length = _low_amount(alg, s[2], w), _low_amount(alg, s[3], w)
        full = alg.not_(alg.constant(0, w), w)
        field = alg.not_(alg.shift_left(full, length, w), w)
        mask = alg.shift_left(field, position, w)
        inserted = alg.and_(alg.shift_left(s[0], position, w), mask, w)
        return (alg.or_(inserted, alg.and_(s[1], alg.not_(mask, w), w), w),)

    return Operation((w, w, 32, 32), (w,), apply)


def dot_product(opcode: str, m: Modifiers) -> Operation:
    """dp4a: four 8-bit products added to c; dp2a: two 16-bit by 8-bit ones (.lo or .hi bytes of b)."""
    if len(m.types) != 2:
        raise Unsupported(f"{opcode} needs two types")
    a_signed, b_signed = (is_signed(t) for t in m.types)
    count = 4 if opcode == "dp4a" else 2
    a_width = 32 // count
    first = 2 if m.has("hi") else 0

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        total = s[2]
        for i in range(count):
            x = alg.extend(alg.extract(s[0], 32, a_width * i, a_width), a_width, 32, a_signed)
            y = alg.extend(alg.extract(s[1], 32, 8 * (first + i), 8), 8, 32, b_signed)
            total = alg.add(total, alg.mul(x, y, 32), 32)
        return (total,)

    return Operation((32, 32, 32), (32,), apply)


def mask_extend(opcode: str, m: Modifiers) -> Operation:
    """bmsk.clamp/.wrap and szext.clamp/.wrap"""
    wrap = m.has("wrap")
    signed = opcode == "szext" and is_signed(m.type)

    def amount(alg: Any, x: Any) -> Any:
        return alg.and_(x, alg.constant(31, 32), 32) if wrap else x

    def bmsk(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        full = alg.constant(0xFFFFFFFF, 32)
        field = alg.not_(alg.shift_left(full, amount(alg, s[1]), 32), 32)
        return (alg.shift_left(field, amount(alg, s[0]), 32),)

    def szext(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        n = amount(alg, s[1])
        full = alg.constant(0xFFFFFFFF, 32)
        field = alg.not_(alg.shift_left(full, n, 32), 32)
        value = alg.and_(s[0], field, 32)
        if signed:
            top = alg.sub(n, alg.constant(1, 32), 32)
            bit = alg.and_(alg.shift_right(s[0], top, 32, False), alg.constant(1, 32), 32)
            negative = alg.equal(bit, alg.constant(1, 32), 32)
            value = alg.select(negative, alg.or_(value, alg.not_(field, 32), 32), value, 32)
        return (value,)

    return Operation((32, 32), (32,), bmsk if opcode == "bmsk" else szext)


def nth_set() -> Operation:
    """fns.b32 d, mask, base, offset: the place of the n-th set bit from ``base`` on, up or down (9.7.1.20)."""

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        mask, base, offset = s
        zero, one, nowhere = alg.constant(0, 32), alg.constant(1, 32), alg.constant(0xFFFFFFFF, 32)
        down = alg.less(offset, zero, 32, True)
        here = alg.equal(offset, zero, 32)
        left = alg.select(down, alg.sub(zero, offset, 32), offset, 32)
        left = alg.select(here, zero, alg.sub(left, one, 32), 32)
        step = alg.select(down, nowhere, one, 32)
        found, place, open_ = nowhere, base, alg.truth(True)
        for distance in range(32):
            # a place beyond either end is 32 or more as an unsigned number, where the shift gives 0
            bit = alg.equal(alg.and_(alg.shift_right(mask, place, 32, False), one, 32), one, 32)
            hit = alg.p_and(alg.p_and(bit, open_), alg.equal(left, zero, 32))
            found = alg.select(hit, place, found, 32)
            open_ = alg.p_and(open_, alg.p_not(hit))
            left = alg.select(bit, alg.sub(left, one, 32), left, 32)
            if distance == 0:
                open_ = alg.p_and(open_, alg.p_not(here))
            place = alg.add(place, step, 32)
        return (found,)

    return Operation((32, 32, 32), (32,), apply)
