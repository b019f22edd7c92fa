"""SIMD video instructions on four bytes or two halves (PTX ISA 9.0, section 9.7.18), without masks and selectors."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.semantics.compare import compare
from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import is_signed

_KINDS = ("vabsdiff", "vadd", "vavrg", "vmax", "vmin", "vset", "vsub")
OPCODES = tuple(f"{kind}{count}" for kind in _KINDS for count in (2, 4))
"""The opcodes that this file gives a meaning to."""
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def simd(opcode: str, m: Modifiers) -> Operation:
    """vadd4.u32.u32.u32 d, a, b, c and its kin; with .add the elements' sum and c instead of a packed result."""
    kind, count = opcode[:-1], int(opcode[-1])
    relation = m.one_of(_RELATIONS)
    types = m.types
    if m.words - {"sat", "add", relation} or len(types) not in (2, 3) or (kind == "vset") != bool(relation):
        raise Unsupported(f"{opcode} with {', '.join(sorted(m.words))}")
    # vset names no type of its result
    result, a_type, b_type = types if len(types) == 3 else ("u32", *types)
    w = 32 // count
    wide = 2 * w

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        elements = []
        for i in range(count):
            a = alg.extend(alg.extract(s[0], 32, w * i, w), w, wide, is_signed(a_type))
            b = alg.extend(alg.extract(s[1], 32, w * i, w), w, wide, is_signed(b_type))
            value = _element(alg, kind, relation, a, b, wide)
            if m.has("sat"):
                value = _clamp(alg, value, wide, w, is_signed(result))
            elements.append(alg.truncate(value, wide, w))
        if not m.has("add"):
            return (alg.concatenate(tuple(elements), w),)
        total = s[2]
        for element in elements:
            total = alg.add(total, alg.extend(element, w, 32, is_signed(result)), 32)
        return (total,)

    return Operation((32, 32, 32), (32,), apply)


def _element(alg: Any, kind: str, relation: str, a: Any, b: Any, wide: int) -> Any:
    """``a`` and ``b`` are extended by their own signs to twice their width, so nothing overflows."""
    one, zero = alg.constant(1, wide), alg.constant(0, wide)
    match kind:
        case "vadd":
            return alg.add(a, b, wide)
        case "vsub":
            return alg.sub(a, b, wide)
        case "vavrg":  # rounded away from zero at a half: towards +infinity for sums from 0 up
            total = alg.add(a, b, wide)
            negative = alg.less(total, zero, wide, True)
            return alg.shift_right(
                alg.add(total, alg.select(negative, zero, one, wide), wide), alg.constant(1, 32), wide, True
            )
        case "vset":
            return alg.select(compare(alg, relation, a, b, f"s{wide}", False), one, zero, wide)
    less = alg.less(a, b, wide, True)
    match kind:
        case "vmin":
            return alg.select(less, a, b, wide)
        case "vmax":
            return alg.select(less, b, a, wide)
        case _:
            return alg.select(less, alg.sub(b, a, wide), alg.sub(a, b, wide), wide)


def _clamp(alg: Any, value: Any, wide: int, w: int, signed: bool) -> Any:
    low = -(1 << (w - 1)) if signed else 0
    high = (1 << (w - 1)) - 1 if signed else (1 << w) - 1
    least, most = alg.constant(low & ((1 << wide) - 1), wide), alg.constant(high, wide)
    value = alg.select(alg.less(value, least, wide, True), least, value, wide)
    return alg.select(alg.less(most, value, wide, True), most, value, wide)
