"""set and setp (PTX ISA 9.0, sections 9.7.6.1, 9.7.6.2 and 9.7.7)."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import PACKED, is_float, is_signed, width

ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu")
UNSIGNED = ("lo", "ls", "hi", "hs")
_ALL = (*ORDERED, *UNORDERED, *UNSIGNED, "num", "nan")
_AS_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE = ("and", "or", "xor")


def compare(alg: Any, relation: str, a: Any, b: Any, t: str, ftz: bool) -> Any:
    """The predicate ``a relation b`` for operands of type t."""
    if is_float(t):
        return _float(alg, relation, a, b, t, ftz)
    w = width(t)
    signed = is_signed(t)
    if relation in UNSIGNED:
        relation, signed = _AS_UNSIGNED[relation], False
    match relation:
        case "eq":
            return alg.equal(a, b, w)
        case "ne":
            return alg.p_not(alg.equal(a, b, w))
        case "lt":
            return alg.less(a, b, w, signed)
        case "gt":
            return alg.less(b, a, w, signed)
        case "le":
            return alg.p_not(alg.less(b, a, w, signed))
        case "ge":
            return alg.p_not(alg.less(a, b, w, signed))
    raise Unsupported(f"setp.{relation}.{t}")


def _float(alg: Any, relation: str, a: Any, b: Any, t: str, ftz: bool) -> Any:
    nan = alg.p_or(alg.is_nan(a, t), alg.is_nan(b, t))
    match relation:
        case "num":
            return alg.p_not(nan)
        case "nan":
            return nan
        case "ne":
            return alg.p_and(alg.p_not(alg.float_equal(a, b, t, ftz)), alg.p_not(nan))
        case "neu":
            return alg.p_not(alg.float_equal(a, b, t, ftz))
    less, equal = alg.float_less(a, b, t, ftz), alg.float_equal(a, b, t, ftz)
    greater = alg.float_less(b, a, t, ftz)
    plain = {
        "eq": equal,
        "lt": less,
        "gt": greater,
        "le": alg.p_or(less, equal),
        "ge": alg.p_or(greater, equal),
    }
    if relation in plain:
        return plain[relation]
    if relation[:2] in plain and relation.endswith("u"):
        return alg.p_or(plain[relation[:2]], nan)
    raise Unsupported(f"setp.{relation}.{t}")


def setp(m: Modifiers, pair: bool, sources: int) -> Operation:
    """``pair``: p|q is written, q the opposite comparison; ``sources`` is 3 with a predicate to combine with."""
    relation = m.one_of(_ALL)
    t = m.type
    if t in PACKED:
        return _packed_setp(m, relation, pair, sources)
    combine = m.one_of(_COMBINE) if sources == 3 else ""
    ftz = m.has("ftz")
    w = width(t)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        outcome = compare(alg, relation, s[0], s[1], t, ftz)
        outcomes = (outcome, alg.p_not(outcome)) if pair else (outcome,)
        if combine:
            outcomes = tuple(getattr(alg, f"p_{combine}")(o, s[2]) for o in outcomes)
        return outcomes

    return Operation((w, w, 1)[:sources], (1, 1) if pair else (1,), apply)


def _packed_setp(m: Modifiers, relation: str, pair: bool, sources: int) -> Operation:
    element, count = PACKED[m.type]
    if count != 2 or not pair:
        raise Unsupported(f"setp.{m.type} with one destination")
    w = width(element)
    combine = m.one_of(_COMBINE) if sources == 3 else ""

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        outcomes = []
        for i in range(2):
            a, b = (alg.extract(x, 2 * w, w * i, w) for x in s[:2])
            outcome = compare(alg, relation, a, b, element, m.has("ftz"))
            outcomes.append(getattr(alg, f"p_{combine}")(outcome, s[2]) if combine else outcome)
        return tuple(outcomes)

    return Operation((2 * w, 2 * w, 1)[:sources], (1, 1), apply)


def set_(m: Modifiers, sources: int) -> Operation:
    """set.CMP[.BOOL].DST.SRC: all ones or 0, or 1.0 or 0 for a float destination."""
    if len(m.types) != 2:
        raise Unsupported("set needs two types")
    result, source = m.types
    if source in PACKED or result in PACKED:
        return _packed_set(m, result, source, sources)
    relation = m.one_of(_ALL)
    combine = m.one_of(_COMBINE) if sources == 3 else ""
    w, out = width(source), width(result)
    true = _true(result)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        outcome = compare(alg, relation, s[0], s[1], source, m.has("ftz"))
        if combine:
            outcome = getattr(alg, f"p_{combine}")(outcome, s[2])
        return (alg.select(outcome, alg.constant(true, out), alg.constant(0, out), out),)

    return Operation((w, w, 1)[:sources], (out,), apply)


def _true(result: str) -> int:
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    return ones.get(result, (1 << width(result)) - 1)


def _packed_set(m: Modifiers, result: str, source: str, sources: int) -> Operation:
    if source not in PACKED:
        raise Unsupported(f"set.{result}.{source}")
    element, count = PACKED[source]
    w = width(element)
    into = PACKED[result][0] if result in PACKED else {32: "u16"}.get(width(result))
    if into is None:
        raise Unsupported(f"set.{result}.{source}")
    scalar = set_(Modifiers(m.words, (into, element)), sources)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        lanes = []
        for i in range(count):
            parts = tuple(alg.extract(x, w * count, w * i, w) for x in s[:2]) + s[2:]
            lanes.append(scalar.apply(alg, parts)[0])
        return (alg.concatenate(tuple(lanes), width(into)),)

    return Operation((w * count, w * count, 1)[:sources], (width(into) * count,), apply)
