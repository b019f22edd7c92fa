"""Logic, shifts, byte permutation and selection (PTX ISA 9.0, sections 9.7.6, 9.7.8, 9.7.9.7)."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import PREDICATE, is_signed, width


def bitwise(opcode: str, m: Modifiers) -> Operation:
    w = width(m.type)
    if w == PREDICATE:
        method = {"and": "p_and", "or": "p_or", "xor": "p_xor"}[opcode]
        return Operation((1, 1), (1,), lambda alg, s: (getattr(alg, method)(s[0], s[1]),))
    name = {"and": "and_", "or": "or_", "xor": "xor"}[opcode]
    return Operation((w, w), (w,), lambda alg, s: (getattr(alg, name)(s[0], s[1], w),))


def not_(opcode: str, m: Modifiers) -> Operation:
    w = width(m.type)
    if opcode == "cnot":
        return Operation((w,), (w,), lambda alg, s: (_is_zero(alg, s[0], w),))
    if w == PREDICATE:
        return Operation((1,), (1,), lambda alg, s: (alg.p_not(s[0]),))
    return Operation((w,), (w,), lambda alg, s: (alg.not_(s[0], w),))


def _is_zero(alg: Any, a: Any, w: int) -> Any:
    zero = alg.constant(0, w)
    return alg.select(alg.equal(a, zero, w), alg.constant(1, w), zero, w)


def shift(opcode: str, m: Modifiers) -> Operation:
    w = width(m.type)
    signed = is_signed(m.type)
    if opcode == "shl":
        return Operation((w, 32), (w,), lambda alg, s: (alg.shift_left(s[0], s[1], w),))
    return Operation((w, 32), (w,), lambda alg, s: (alg.shift_right(s[0], s[1], w, signed),))


def funnel(m: Modifiers) -> Operation:
    """shf.{l,r}.{clamp,wrap}.b32 d, a, b, c: the 64-bit value b:a shifted by c."""
    left, wrap = m.has("l"), m.has("wrap")

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        a, b, c = s
        limit = alg.constant(31 if wrap else 32, 32)
        n = alg.and_(c, limit, 32) if wrap else alg.select(alg.less(limit, c, 32, False), limit, c, 32)
        both = alg.concatenate((a, b), 32)
        if left:
            return (alg.extract(alg.shift_left(both, n, 64), 64, 32, 32),)
        return (alg.extract(alg.shift_right(both, n, 64, False), 64, 0, 32),)

    return Operation((32, 32, 32), (32,), apply)


def lop3(m: Modifiers, table: int) -> Operation:
    """Any function of three bits, by its truth table: 0xF0, 0xCC and 0xAA are the three operands."""
    if m.has("and") or m.has("or") or m.has("BoolOp"):
        raise Unsupported("lop3 with a predicate")

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        value = alg.constant(0, 32)
        for row in range(8):
            if table >> row & 1:
                term = alg.constant(0xFFFFFFFF, 32)
                for x, bit in zip(s[:3], (4, 2, 1), strict=True):
                    term = alg.and_(term, x if row & bit else alg.not_(x, 32), 32)
                value = alg.or_(value, term, 32)
        return (value,)

    return Operation((32, 32, 32), (32,), apply)


_PRMT_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def permute(m: Modifiers) -> Operation:
    """prmt: each result byte is one of the eight bytes of b:a, or copies of its sign (9.7.9.7)."""
    mode = m.one_of(_PRMT_MODES)

    def byte(alg: Any, both: Any, selector: Any) -> Any:
        """Byte number ``selector`` (32 bits, 0 to 7) of the 64-bit value."""
        amount = alg.shift_left(alg.and_(selector, alg.constant(7, 32), 32), alg.constant(3, 32), 32)
        return alg.extract(alg.shift_right(both, amount, 64, False), 64, 0, 8)

    def general(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        both = alg.concatenate((s[0], s[1]), 32)
        parts = []
        for i in range(4):
            control = alg.extract(s[2], 32, 4 * i, 4)
            selector = alg.extend(control, 4, 32, False)
            plain = byte(alg, both, selector)
            sign = alg.shift_right(plain, alg.constant(7, 32), 8, True)
            replicate = alg.less(alg.constant(7, 32), selector, 32, False)
            parts.append(alg.select(replicate, sign, plain, 8))
        return (alg.concatenate(tuple(parts), 8),)

    def special(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        both = alg.concatenate((s[0], s[1]), 32)
        n = alg.and_(s[2], alg.constant(3, 32), 32)
        parts = []
        for i in range(4):
            at = alg.constant(i, 32)
            if mode == "f4e":
                selector = alg.add(n, at, 32)
            elif mode == "b4e":
                selector = alg.sub(n, at, 32)
            elif mode == "rc8":
                selector = n
            elif mode == "ecl":
                selector = alg.select(alg.less(at, n, 32, False), n, at, 32)
            elif mode == "ecr":
                selector = alg.select(alg.less(n, at, 32, False), n, at, 32)
            else:
                pair = alg.shift_left(alg.and_(n, alg.constant(1, 32), 32), alg.constant(1, 32), 32)
                selector = alg.add(pair, alg.constant(i & 1, 32), 32)
            parts.append(byte(alg, both, selector))
        return (alg.concatenate(tuple(parts), 8),)

    return Operation((32, 32, 32), (32,), special if mode else general)


def selp(m: Modifiers) -> Operation:
    w = width(m.type)
    return Operation((w, w, 1), (w,), lambda alg, s: (alg.select(s[2], s[0], s[1], w),))


def slct(m: Modifiers) -> Operation:
    """a where c >= 0, else b; a NaN c selects b, and -0 counts as 0."""
    w = width(m.types[0])
    by = m.types[1]
    ftz = m.has("ftz")

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        if by == "s32":
            negative = alg.less(s[2], alg.constant(0, 32), 32, True)
        else:
            zero = alg.constant(0, 32)
            negative = alg.p_or(alg.float_less(s[2], zero, "f32", ftz), alg.is_nan(s[2], "f32"))
        return (alg.select(negative, s[1], s[0], w),)

    return Operation((w, w, 32), (w,), apply)
