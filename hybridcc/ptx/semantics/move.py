"""mov, cvt and cvta (PTX ISA 9.0, section 9.7.9)."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.algebra import Conversion
from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import PACKED, is_float, is_signed, width

_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")


def mov(m: Modifiers, results: int, sources: int) -> Operation:
    """A copy, or packing into (``sources`` > 1) and unpacking from (``results`` > 1) a wider register."""
    w = width(m.type)
    if results == 1 and sources == 1:
        return Operation((w,), (w,), lambda alg, s: (s[0],))
    if results == 1:
        part = w // sources
        return Operation((part,) * sources, (w,), lambda alg, s: (alg.concatenate(s, part),))
    if sources == 1:
        part = w // results
        return Operation((w,), (part,) * results, lambda alg, s: tuple(
            alg.extract(s[0], w, part * i, part) for i in range(results)))  # fmt: skip
    raise Unsupported("mov from a vector to a vector")


def cvt(m: Modifiers, sources: int) -> Operation:
    if len(m.types) != 2 and not (m.has("pack") and len(m.types) == 3):
        raise Unsupported("a cvt between types that have no arithmetic here")
    result, source = m.types[:2]
    if m.has("pack"):
        return _pack_integers(m, result, source, sources)
    if m.words - {*_ROUNDINGS, "ftz", "sat", "relu", "satfinite"}:
        raise Unsupported("cvt with " + ", ".join(sorted(m.words)))
    rounding = m.one_of(_ROUNDINGS)
    if result in PACKED:
        return _pack(m, result, source, rounding, sources)
    if sources != 1:
        raise Unsupported(f"cvt.{result}.{source} with {sources} sources")
    if not is_float(result) and not is_float(source):
        return _integer(result, source, m.has("sat"))
    if source in PACKED:
        raise Unsupported(f"cvt.{result}.{source}")
    conversion = Conversion(result, source, rounding, m.has("ftz"), m.has("sat"), m.has("relu"), m.has("satfinite"))
    return Operation(
        (width(source),), (width(result),), lambda alg, s: (alg.convert(conversion, s[0]),),
        extend_signed=is_signed(result),
    )  # fmt: skip


def _pack(m: Modifiers, result: str, source: str, rounding: str, sources: int) -> Operation:
    """cvt.rn.f16x2.f32 d, a, b: a becomes the upper half; between packed types element by element (9.7.9.21)."""
    element, count = PACKED[result]
    from_packed = source in PACKED
    inner = PACKED[source][0] if from_packed else source
    if count != 2 or sources != (1 if from_packed else 2) or not is_float(element) or not is_float(inner):
        raise Unsupported(f"cvt.{result}.{source}")
    conversion = Conversion(element, inner, rounding, m.has("ftz"), m.has("sat"), m.has("relu"), m.has("satfinite"))
    w = width(inner)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        parts = tuple(alg.extract(s[0], 2 * w, w * i, w) for i in range(2)) if from_packed else (s[1], s[0])
        return (alg.concatenate(tuple(alg.convert(conversion, x) for x in parts), width(element)),)

    return Operation((2 * w,) if from_packed else (w, w), (2 * width(element),), apply)


def _pack_integers(m: Modifiers, result: str, source: str, sources: int) -> Operation:
    """cvt.pack.sat: two saturated integers, a above b, and above them the low bits of c where there is one."""
    w = width(result)
    if source != "s32" or not m.has("sat") or w not in (8, 16) or sources != (3 if w == 8 else 2):
        raise Unsupported(f"cvt.pack.{result}.{source} with {sources} sources")
    narrow = _integer(result, source, True)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        high, low = (narrow.apply(alg, (x,))[0] for x in s[:2])
        pair = alg.concatenate((low, high), w)
        return (pair if w == 16 else alg.concatenate((pair, alg.truncate(s[2], 32, 16)), 16),)

    return Operation((32,) * sources, (32,), apply)


def _integer(result: str, source: str, saturate: bool) -> Operation:
    """Between integers: extension by the source's sign, truncation, or with .sat clamping to the result's range."""
    w, out = width(source), width(result)
    signed = is_signed(source)

    def plain(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        if out > w:
            return (alg.extend(s[0], w, out, signed),)
        return (alg.truncate(s[0], w, out) if out < w else s[0],)

    def clamped(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        value = s[0]
        if signed and not is_signed(result):
            value = alg.select(alg.less(value, alg.constant(0, w), w, True), alg.constant(0, w), value, w)
        if signed and is_signed(result) and out < w:
            least = alg.constant((1 << w) - (1 << (out - 1)), w)
            value = alg.select(alg.less(value, least, w, True), least, value, w)
        most = (1 << (out - is_signed(result))) - 1
        if most < (1 << (w - signed)) - 1:
            top = alg.constant(most, w)
            value = alg.select(alg.less(top, value, w, signed), top, value, w)
        return plain(alg, (value,))

    return Operation((w,), (out,), clamped if saturate else plain, extend_signed=is_signed(result))
