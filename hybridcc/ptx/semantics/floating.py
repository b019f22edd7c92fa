"""Floating-point arithmetic (PTX ISA 9.0, sections 9.7.3 to 9.7.5)."""

from __future__ import annotations

from typing import Any

from hybridcc.ptx.algebra import FloatOperation
from hybridcc.ptx.semantics.integer import packed
from hybridcc.ptx.semantics.operation import Modifiers, Operation, Unsupported
from hybridcc.ptx.types import PACKED, width

ROUNDINGS = ("rn", "rz", "rm", "rp")
_COUNTS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3, "div": 2, "rcp": 1, "sqrt": 1, "rsqrt": 1,
           "min": 2, "max": 2, "sin": 1, "cos": 1, "ex2": 1, "lg2": 1, "tanh": 1}  # fmt: skip
_CONTRACTS = frozenset({"add", "sub", "mul"})
_ALWAYS_APPROXIMATE = frozenset({"rsqrt", "sin", "cos", "ex2", "lg2", "tanh"})


def arithmetic(opcode: str, m: Modifiers, sources: int) -> Operation:
    """add sub mul fma mad div rcp sqrt rsqrt min max and the approximations, for every float type."""
    t = m.type
    count = _COUNTS[opcode]
    if sources != count and not (opcode in ("min", "max") and sources == 3):
        raise Unsupported(f"{opcode}.{t} with {sources} sources")
    if t in PACKED:
        return packed(m, lambda e: arithmetic(opcode, e, sources), sources)
    if m.has("oob"):
        raise Unsupported(f"{opcode}.oob")
    described = describe(opcode, m, t)
    w = width(t)
    if sources == 3 and opcode in ("min", "max"):

        def three(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
            return (alg.float_operation(described, (alg.float_operation(described, s[:2]), s[2])),)

        return Operation((w,) * 3, (w,), three)
    return Operation((w,) * count, (w,), lambda alg, s: (alg.float_operation(described, s),), exact=described.exact)


def describe(opcode: str, m: Modifiers, t: str) -> FloatOperation:
    rounding = m.one_of(ROUNDINGS)
    name = "fma" if opcode == "mad" else opcode
    for word in ("approx", "full"):
        if m.has(word):
            name = f"{name}.{word}"
    if opcode in _ALWAYS_APPROXIMATE and "." not in name:
        name = f"{name}.approx"
    contractible = opcode in _CONTRACTS and not rounding
    if opcode in _CONTRACTS or (opcode in ("fma", "mad", "div", "rcp", "sqrt") and "." not in name):
        rounding = rounding or "rn"
    return FloatOperation(
        name, t, rounding, m.has("ftz"), m.has("sat"), m.has("NaN"), m.has("xorsign"), m.has("relu"), contractible
    )


def sign_operation(opcode: str, m: Modifiers) -> Operation:
    """neg and abs change the sign bit; with .ftz a subnormal becomes a zero."""
    t = m.type
    if t in PACKED:
        return packed(m, lambda e: sign_operation(opcode, e), 1)
    w = width(t)
    named = FloatOperation(opcode, t, ftz=m.has("ftz"))
    return Operation((w,), (w,), lambda alg, s: (alg.float_operation(named, s),))


def copysign(m: Modifiers) -> Operation:
    """The sign of the first source, the magnitude of the second (9.7.3.2)."""
    w = width(m.type)
    top = 1 << (w - 1)

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        sign = alg.and_(s[0], alg.constant(top, w), w)
        return (alg.or_(sign, alg.and_(s[1], alg.constant(top - 1, w), w), w),)

    return Operation((w, w), (w,), apply)


def testp(m: Modifiers) -> Operation:
    """testp.{finite,infinite,number,notanumber,normal,subnormal}"""
    t = m.type
    w = width(t)
    fraction = {"f32": 23, "f64": 52}[t]
    exponents = (1 << (w - 1 - fraction)) - 1

    def apply(alg: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        exponent = alg.extend(alg.extract(s[0], w, fraction, w - 1 - fraction), w - 1 - fraction, w, False)
        mantissa = alg.and_(s[0], alg.constant((1 << fraction) - 1, w), w)
        zero, top = alg.constant(0, w), alg.constant(exponents, w)
        special, tiny, none = alg.equal(exponent, top, w), alg.equal(exponent, zero, w), alg.equal(mantissa, zero, w)
        answers = {
            "finite": alg.p_not(special),
            "infinite": alg.p_and(special, none),
            "notanumber": alg.p_and(special, alg.p_not(none)),
            "number": alg.p_not(alg.p_and(special, alg.p_not(none))),
            "subnormal": alg.p_and(tiny, alg.p_not(none)),
            # a zero counts as normal (PTX ISA 9.7.3.1)
            "normal": alg.p_not(alg.p_or(special, alg.p_and(tiny, alg.p_not(none)))),
        }
        return (answers[m.one_of(tuple(answers))],)

    return Operation((w,), (1,), apply)
