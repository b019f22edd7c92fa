"""Proved identities of floating point, as rules of the normal form. Everything else there is uninterpreted.

Two strengths. The rules of plain names hold for every bit. The rules of ``ideal`` names hold in the *ideal reading*
of a kernel, in which ``cvt.rn.f32.f64`` makes every NaN the canonical one (0x7fffffff, what f32 arithmetic makes)
and ``st.f32`` writes every NaN so. payloads.py shows for each kernel that the ideal reading differs from the real
one by nothing but the payloads of NaNs in memory; a proof that rests on it says ``NaN payloads aside``.

Throughout, f32 arithmetic means add, sub, mul, fma, div.rn, rcp.rn, sqrt.rn, min and max: each gives the same bits
for every NaN among its operands, and the canonical NaN where it gives one (measured on an H200: tests/hardware). No
rule touches ``.ftz``, ``.sat``, approximations or another rounding than to nearest. ``fma`` has no demotion: of 33.5 M
triples computed in f64 and rounded back on an H200, 4 differ from the f32 operation in the last bit (double rounding).
tests/proof/test_lemmas_numbers.py checks every rule by exact arithmetic in small formats and on NumPy,
test_lemmas_executed.py on the executor and on a GPU.

DEMOTION (ideal). ``cvt.rn.f32.f64(op.f64(cvt a, cvt b)) = op.rn.f32(a, b)`` for add, sub, mul, div and sqrt.
    Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995: rounding first to q digits and then
    to p is rounding to p once if q >= 2p + 2; here p = 24, q = 53. Subnormal results included: with m a number of at
    most p + 1 digits halfway between two f32 numbers (finer than their grid, or the overflow threshold), the exact
    result x is either m, or
    off it by more than the half unit 2^-53 |m| by which the first rounding could move it there:
    *mul*: 48 digits, so the f64 product is exact.
    *add, sub*: if the exact sum needs more than 53 digits the exponents differ by 29 or more; the larger operand has
    24 digits and m has 25, so x is off m by about 2^-25 |m| at least.
    *div*: x - m = (a - m b)/b, and a - m b is a multiple of the unit of a or of m b, whichever is finer; m b has at
    most 49 digits: off by 2^-49 |m| at least.
    *sqrt*: a - m*m is a multiple of a unit 2^-50 a or coarser: off by 2^-52 |m| at least.
    No f64 operation on such operands overflows or is subnormal. Infinities, zeros and their signs agree; NaN meets
    NaN. An operand may be a constant that is an f32 number.
ROUND TRIP (ideal). ``cvt.rn.f32.f64(cvt.f64.f32 a)`` is a, its NaN canonical. Widening is exact.
ABSORPTION. f32 arithmetic and comparisons take a for a with its NaN canonical.
COMPARISON. less, equal and is-a-number agree on a, b and on their widened values. Every bit.
INTEGERS. ``cvt.rXi.s32.f64(cvt.rn.f64.s32 i) = i``; ``cvt.rn.f32.f64(cvt.rn.f64.s32 i) = cvt.rn.f32.s32 i``; u32 the
    same. 53 digits hold 32 bits exactly, so there is one rounding or none. No NaN. Every bit.
POWERS. ``mul.rn.f32(a, c) = div.rn.f32(a, 1/c)`` where c is ±2^k and c and 1/c are f32 numbers; and
    ``add.rn.f32(a, a) = div.rn.f32(a, 1/2)``: one rounding of one real number. Zeros, infinities and their signs
    agree. Every bit.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from hybridcc.passes.verify.proof import bitvector as bv
from hybridcc.passes.verify.proof.terms import (
    Argument,
    Atom,
    Condition,
    Polynomial,
    as_atom,
    as_constant,
    atom,
    constant,
    predicate,
)
from hybridcc.ptx.types import width as type_width

IDEAL: Final = "ideal "
"""How the names of the ideal reading's own operations begin."""
CANONICAL: Final = "ideal nan.f32"
"""An f32 with any NaN replaced by the canonical one."""
NAN32: Final = 0x7FFFFFFF
_HALF: Final = 0x3F000000
_DIVIDE: Final = "float.div.f32.rn"

_CONTRACTIBLE: Final = ".contractible"
_WIDEN: Final = "convert.f64.f32."
NARROW: Final = "convert.f32.f64.rn"
_DEMOTED: Final = {f"float.{name}.f64.rn": f"float.{name}.f32.rn" for name in ("add", "sub", "mul", "div", "sqrt")}
_COMMUTE: Final = frozenset(("float.add.f32.rn", "float.mul.f32.rn"))
_ARITHMETIC: Final = frozenset(
    (
        *(f"float.{name}.f32.rn" for name in ("add", "sub", "mul", "fma", "div", "rcp", "sqrt")),
        *(f"float.{name}.f32." for name in ("min", "max")),
    )
)
_INTEGRAL: Final = {
    f"convert.{kind}.f64.{rounding}": f"convert.f64.{kind}.rn"
    for kind in ("s32", "u32")
    for rounding in ("rni", "rzi", "rmi", "rpi")
}
_FROM_INTEGER: Final = {f"convert.f64.{kind}.rn": f"convert.f32.{kind}.rn" for kind in ("s32", "u32")}


def covers(operation: str) -> bool:
    """Whether an operation is one that rules may speak of, so that ``build`` must make its terms."""
    return operation.removeprefix(bv.COMMUTING).startswith(("float.", "convert.", IDEAL))


def build(operation: str, arguments: tuple[Argument, ...], width: int) -> Polynomial:
    """The normal form of a floating-point operation or conversion by its name."""
    operands = tuple(a for a in arguments if isinstance(a, Polynomial))
    _check_widths(operation, [a.width if isinstance(a, Polynomial) else 0 for a in arguments], width)
    if operation == CANONICAL:
        return canonical(operands[0])
    if operation.startswith(IDEAL):
        return narrowed(operands[0], commuting=operation.startswith(IDEAL + bv.COMMUTING))
    if operation.startswith("convert."):
        return _converted(operation, operands[0], width)
    if operation.startswith(bv.COMMUTING):
        return operated(operation.removeprefix(bv.COMMUTING), operands, width, commuting=True)
    return operated(operation, operands, width, commuting=False)


def _check_widths(operation: str, operands: list[int], width: int) -> None:
    """Raises ValueError: a term that no instruction makes is a term that no rule may be applied to."""
    words = operation.removeprefix(IDEAL).removeprefix(bv.COMMUTING).split(".")
    if operation == CANONICAL:
        wanted = ([32], 32)
    elif words[0] == "convert":
        wanted = ([type_width(words[2])], type_width(words[1]))
    else:
        at = next(k for k, word in enumerate(words) if k > 1 and word[-2:].isdigit())
        size = type_width(words[at])
        wanted = ([size] * len(operands), size)
    if (operands, width) != wanted or not operands:
        raise ValueError(f"{operation} of {operands} bits in {width}")


def plain(operation: str) -> str:
    """The name without what says how the assembler may treat it."""
    return operation.removesuffix(_CONTRACTIBLE)


# --- every bit ------------------------------------------------------------------------------------------


def operated(operation: str, operands: tuple[Polynomial, ...], width: int, *, commuting: bool) -> Polynomial:
    """``commuting``: the first two operands may be exchanged. ABSORPTION, DOUBLING, POWERS."""
    if plain(operation) in _ARITHMETIC:
        operands = tuple(_absorbed(x) for x in operands)
    divided = _as_division(operation, operands)
    if divided is not None:
        return atom(_DIVIDE, divided, width)
    if commuting:
        return bv.commuting(operation, operands, width)
    return atom(operation, operands, width)


def _as_division(operation: str, operands: tuple[Polynomial, ...]) -> tuple[Polynomial, Polynomial] | None:
    """The normal form of x * c, c a power of two, is x / (1/c): it has one order of its operands."""
    if operation == "float.add.f32.rn" and operands[0] is operands[1]:
        return operands[0], constant(_HALF, 32)
    if operation == "float.mul.f32.rn":
        for x, y in (operands, operands[::-1]):
            factor = as_constant(y)
            divisor = None if factor is None else inverse(factor)
            if divisor is not None:
                return x, constant(divisor, 32)
    return None


def _converted(operation: str, a: Polynomial, width: int) -> Polynomial:
    """INTEGERS."""
    single = as_atom(a)
    if single is not None and isinstance(single.arguments[0], Polynomial):
        if _INTEGRAL.get(operation) == single.operation:
            return single.arguments[0]
        if operation == NARROW and single.operation in _FROM_INTEGER:
            return atom(_FROM_INTEGER[single.operation], single.arguments, 32)
    return atom(operation, (a,), width)


def compared(name: str, operands: tuple[Argument, ...]) -> Condition:
    """An uninterpreted truth value by name, floating-point comparisons among them. COMPARISON, ABSORPTION."""
    if name in ("less.f64", "equal.f64", "nan.f64"):
        narrow = [demoted(x) for x in operands if isinstance(x, Polynomial)]
        if len(narrow) == len(operands) and None not in narrow:
            name, operands = name.replace("64", "32"), tuple(narrow)
    if name in ("less.f32", "equal.f32", "nan.f32"):
        operands = tuple(_absorbed(x) if isinstance(x, Polynomial) else x for x in operands)
    return predicate(name, operands)


def demoted(x: Polynomial) -> Polynomial | None:
    """The f32 that an f64 is the widening of, if its form shows one."""
    value = as_constant(x)
    if value is not None:
        narrow = narrow_constant(value)
        return None if narrow is None else constant(narrow, 32)
    single = as_atom(x)
    if single is not None and single.operation == _WIDEN and isinstance(single.arguments[0], Polynomial):
        return single.arguments[0]
    return None


_LARGEST: Final = float.fromhex("0x1.fffffep127")


def narrow_constant(value: int) -> int | None:
    """The bits of an f64 as those of the same f32 number, infinities included; None where there is none."""
    number = struct.unpack("<d", struct.pack("<Q", value))[0]
    if math.isnan(number) or _LARGEST < abs(number) < math.inf:
        return None
    narrow = struct.pack("<f", number)
    return int.from_bytes(narrow, "little") if struct.unpack("<f", narrow)[0] == number else None


def inverse(value: int) -> int | None:
    """The bits of 1/x where both are powers of two, or their negatives, and f32 numbers; ``value`` are x's bits."""
    number = struct.unpack("<f", struct.pack("<I", value))[0]
    if math.isnan(number) or abs(number) in (0.0, math.inf) or abs(math.frexp(number)[0]) != 0.5:
        return None
    return narrow_constant(int.from_bytes(struct.pack("<d", 1 / number), "little"))


# --- the ideal reading ----------------------------------------------------------------------------------


def narrowed(z: Polynomial, *, commuting: bool) -> Polynomial:
    """``cvt.rn.f32.f64`` of the ideal reading. DEMOTION, ROUND TRIP, INTEGERS.

    ``commuting``: no kernel of the proof holds a contractible pair, so an f32 sum or product is the commuting one.
    """
    x = demoted(z)
    if x is not None:
        return canonical(x)
    single = as_atom(z)
    if single is not None and single.operation in _FROM_INTEGER:
        return _converted(NARROW, z, 32)
    if single is not None and plain(single.operation) in _DEMOTED:
        narrow = [demoted(y) if isinstance(y, Polynomial) else None for y in single.arguments]
        operands = tuple(y for y in narrow if y is not None)
        if len(operands) == len(single.arguments):
            operation = _DEMOTED[plain(single.operation)]
            swapped = commuting and operation in _COMMUTE
            suffix = _CONTRACTIBLE if single.operation.endswith(_CONTRACTIBLE) else ""
            return operated(operation + suffix, operands, 32, commuting=swapped)
    return atom(IDEAL + (bv.COMMUTING if commuting else "") + NARROW, (z,), 32)


def canonical(x: Polynomial) -> Polynomial:
    """An f32 with any NaN replaced by the canonical one: itself where its form shows that there is no other."""
    value = as_constant(x)
    if value is not None:
        return constant(NAN32, 32) if value & 0x7FFFFFFF > 0x7F800000 else x
    single = as_atom(x)
    if single is not None and _always_canonical(single):
        return x
    return atom(CANONICAL, (x,), 32)


def _always_canonical(single: Atom) -> bool:
    name = single.operation
    return (
        name.startswith(IDEAL)
        or name in _FROM_INTEGER.values()
        or plain(name.removeprefix(bv.COMMUTING)) in _ARITHMETIC
    )


def _absorbed(x: Polynomial) -> Polynomial:
    single = as_atom(x)
    if single is not None and single.operation == CANONICAL and isinstance(single.arguments[0], Polynomial):
        return single.arguments[0]
    return x
