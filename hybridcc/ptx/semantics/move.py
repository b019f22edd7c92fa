"""mov, cvt and cvta (PTX ISA 9.0, section 9.7.9)."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.algebra import Conversion
from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import FLOATS, PACKED, is_float, is_signed, width

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
    if len(m.types) != 2:
        raise Unsupported("a cvt between types that have no arithmetic here")
    result, source = m.types
    if m.words - {*_ROUNDINGS, "ftz", "sat", "relu", "satfinite"}:
        raise Unsupported("cvt with " + ", ".join(sorted(m.words)))
    rounding = m.one_of(_ROUNDINGS)
    if result in PACKED:
        return _pack(m, result, source, rounding, sources)
    if sources != 1:
        raise Unsupported(f"cvt.{result}.{source} with {sources} sources")
    if not is_float(result) and not is_float(source):
        return _integer(result, source, m.has("sat"))
    conversion = Conversion(result, source, rounding, m.has("ftz"), m.has("sat"), m.has("relu"))
    return Operation(
        (width(source),), (width(result),), lambda alg, s: (alg.convert(conversion, s[0]),),
        extend_signed=is_signed(result),
    )  # fmt: skip


def _pack(m: Modifiers, result: str, source: str, rounding: str, sources: int) -> Operation:
    """cvt.rn.f16x2.f32 d, a, b: a becomes the upper half (9.7.9.21)."""
    element, count = PACKED[result]
    if source != "f32" or sources != count or element not in FLOATS:
        raise Unsupported(f"cvt.{result}.{source}")
    conversion = Conversion(element, source, rounding, m.has("ftz"), m.has("sat"), m.has("relu"))

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        upper, lower = (alg.convert(conversion, x) for x in s)
        return (alg.concatenate((lower, upper), 16),)

    return Operation((32, 32), (32,), apply)


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
