"""Floating-point arithmetic by exact rationals, one number at a time: the oracle for semantics and for NumPy.

Written after IEEE 754 and the PTX ISA alone: it shares no code with what it judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

NAN, INFINITE, FINITE = "nan", "infinite", "finite"


@dataclass(frozen=True, slots=True)
class Format:
    width: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.width - 2 - self.fraction)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << (self.width - 1 - self.fraction)) - 1) << self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def nan(self) -> int:
        """What arithmetic gives for NaN (PTX ISA: 0x7fffffff; the f64 payload is the hardware's own matter)."""
        return self.sign - 1


FORMATS = {"f16": Format(16, 10), "bf16": Format(16, 7), "f32": Format(32, 23), "f64": Format(64, 52),
           "tf32": Format(32, 23)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    kind: str
    negative: bool
    value: Fraction = Fraction(0)
    """With its sign; of a zero the sign is in ``negative``."""


def decode(bits: int, name: str) -> Number:
    form = FORMATS[name]
    negative = bool(bits & form.sign)
    magnitude = bits & ~form.sign
    if magnitude > form.infinity:
        return Number(NAN, negative)
    if magnitude == form.infinity:
        return Number(INFINITE, negative)
    exponent, fraction = magnitude >> form.fraction, magnitude & ((1 << form.fraction) - 1)
    if exponent:
        fraction |= 1 << form.fraction
    value = Fraction(fraction) * Fraction(2) ** (max(exponent, 1) - form.bias - form.fraction)
    return Number(FINITE, negative, -value if negative else value)


def round_whole(value: Fraction, mode: str) -> int:
    """To an integer: rn rz rm rp, or rna."""
    down = value.numerator // value.denominator
    rest = value - down
    match mode:
        case "rm":
            return down
        case "rp":
            return down + (rest > 0)
        case "rz":
            return down if value >= 0 else down + (rest > 0)
        case "rna":
            up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and value > 0)
            return down + up
        case _:
            return down + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down & 1))


def encode(value: Fraction, name: str, mode: str, negative_zero: bool = False) -> int:
    """An exact value rounded into a format; ``negative_zero`` is the sign of an exact zero.

    ``mode`` with " ftz" after it flushes what would be subnormal if exponents had no end.
    """
    form = FORMATS[name]
    mode, _, ftz = mode.partition(" ")
    if ftz:
        lifted = decode(encode(value * 2**16, name, mode), name)
        if lifted.kind == FINITE and abs(lifted.value) < Fraction(2) ** (17 - form.bias):
            negative_zero, value = value < 0 or (value == 0 and negative_zero), Fraction(0)
    digits = 10 if name == "tf32" else form.fraction
    if value == 0:
        return form.sign if negative_zero else 0
    sign = form.sign if value < 0 else 0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = max(exponent, 1 - form.bias) - digits
    whole = abs(round_whole(value / Fraction(2) ** unit, mode))
    if whole >> (digits + 1):
        whole, unit = whole >> 1, unit + 1
    if unit + digits > form.bias:
        infinite = mode in ("rn", "rna") or (mode == "rp" and not sign) or (mode == "rm" and sign)
        largest = form.infinity - (1 << (form.fraction - digits))
        return sign | (form.infinity if infinite else largest)
    whole <<= form.fraction - digits
    unit -= form.fraction - digits
    biased = unit + form.fraction + form.bias if whole >> form.fraction else 0
    return sign | (biased << form.fraction) + (whole & ((1 << form.fraction) - 1))


def flush(bits: int, name: str) -> int:
    form = FORMATS[name]
    return bits & form.sign if bits & form.infinity == 0 else bits


def arithmetic(opcode: str, words: frozenset[str], name: str, sources: tuple[int, ...]) -> int:
    """The bits of one operation. ``words`` are its modifiers without dots."""
    form = FORMATS[name]
    if "ftz" in words:
        sources = tuple(flush(s, name) for s in sources)
    if opcode in ("abs", "neg"):
        return sources[0] & ~form.sign if opcode == "abs" else sources[0] ^ form.sign
    if opcode in ("min", "max"):
        return _extreme(opcode, words, name, sources)
    mode = next((m for m in ("rn", "rz", "rm", "rp") if m in words), "rn")
    bits = _rounded(opcode, mode + (" ftz" if "ftz" in words else ""), name, [decode(s, name) for s in sources])
    return _finish(bits, words, name)


def _finish(bits: int, words: frozenset[str], name: str) -> int:
    if "ftz" in words:
        bits = flush(bits, name)
    number = decode(bits, name)
    if "sat" in words:
        one = encode(Fraction(1), name, "rn")
        if number.kind == NAN or number.negative:
            return 0
        return one if number.kind == INFINITE or number.value > 1 else bits
    if "relu" in words and number.kind != NAN and number.negative:
        return 0
    return bits


def _rounded(opcode: str, mode: str, name: str, x: list[Number]) -> int:
    form = FORMATS[name]
    infinity = {False: form.infinity, True: form.infinity | form.sign}
    zero = {False: 0, True: form.sign}
    if any(n.kind == NAN for n in x):
        return form.nan
    match opcode:
        case "add" | "sub":
            if opcode == "sub":
                x[1] = Number(x[1].kind, not x[1].negative, -x[1].value)
            return _sum(x[0], x[1], mode, name)
        case "mul":
            product = _product(x[0], x[1])
        case "fma" | "mad":
            product = _product(x[0], x[1])
            return form.nan if product is None else _sum(product, x[2], mode, name)
        case "div" | "rcp":
            return _quotient(x[0] if opcode == "div" else Number(FINITE, False, Fraction(1)), x[-1], mode, name)
        case "sqrt":
            if x[0].kind == FINITE and x[0].value == 0:
                return zero[x[0].negative]
            if x[0].negative:
                return form.nan
            return infinity[False] if x[0].kind == INFINITE else encode(_root(x[0].value), name, mode)
        case _:
            raise KeyError(opcode)
    if product is None:
        return form.nan
    if product.kind == INFINITE:
        return infinity[product.negative]
    return encode(product.value, name, mode, product.negative)


def _quotient(a: Number, b: Number, mode: str, name: str) -> int:
    form = FORMATS[name]
    negative = a.negative != b.negative
    sign = form.sign if negative else 0
    if INFINITE in (a.kind, b.kind):
        if a.kind == b.kind:
            return form.nan
        return sign | (form.infinity if a.kind == INFINITE else 0)
    if b.value == 0:
        return form.nan if a.value == 0 else sign | form.infinity
    return encode(a.value / b.value, name, mode, negative)


def _product(a: Number, b: Number) -> Number | None:
    """None for NaN."""
    negative = a.negative != b.negative
    if INFINITE in (a.kind, b.kind):
        other = b if a.kind == INFINITE else a
        return None if other.kind == FINITE and other.value == 0 else Number(INFINITE, negative)
    return Number(FINITE, negative, a.value * b.value)


def _sum(a: Number, b: Number, mode: str, name: str) -> int:
    form = FORMATS[name]
    if INFINITE in (a.kind, b.kind):
        if a.kind == b.kind and a.negative != b.negative:
            return form.nan
        negative = a.negative if a.kind == INFINITE else b.negative
        return form.infinity | (form.sign if negative else 0)
    total = a.value + b.value
    both = a.value == 0 and b.value == 0 and a.negative == b.negative
    return encode(total, name, mode, a.negative if both else mode[:2] == "rm")


def _root(value: Fraction) -> Fraction:
    """A square root, exact or with a digit far below any format's precision that is not zero."""
    shift = 1200
    scaled = (value.numerator << (2 * shift)) // value.denominator
    root = isqrt(scaled)
    exact = root * root * value.denominator == value.numerator << (2 * shift)
    return Fraction(2 * root + (not exact), 2 << shift)


def _extreme(opcode: str, words: frozenset[str], name: str, sources: tuple[int, ...]) -> int:
    form = FORMATS[name]
    a, b = sources
    sign = (a ^ b) & form.sign if "xorsign" in words else 0
    if "xorsign" in words:
        a, b = a & ~form.sign, b & ~form.sign
    nans = [decode(s, name).kind == NAN for s in (a, b)]
    if all(nans) or (any(nans) and "NaN" in words):
        return form.nan
    if any(nans):
        return (b if nans[0] else a) | sign
    return (min if opcode == "min" else max)(a, b, key=lambda s: _order(s, form)) | sign


def _order(bits: int, form: Format) -> int:
    """Increasing with the value, -0 below +0."""
    return -(bits & ~form.sign) - 1 if bits & form.sign else bits


def convert(result: str, source: str, words: frozenset[str], bits: int) -> int:
    """cvt with a floating-point side; integers are given and returned as unsigned bits of their width."""
    integral = next((m for m in ("rni", "rzi", "rmi", "rpi") if m in words), "")
    mode = next((m for m in ("rna", "rn", "rz", "rm", "rp") if m in words), "rn")
    if source in EIGHTHS:
        number = _from_eighth(bits, source)
    elif source in FORMATS:
        if "ftz" in words and source == "f32" and (result != "f16" or integral):
            bits = flush(bits, source)
        number = decode(bits, source)
    else:
        width = int(source[1:])
        value = bits - (1 << width) if source[0] == "s" and bits >> (width - 1) else bits
        number = Number(FINITE, value < 0, Fraction(value))
    if result in EIGHTHS:
        code = _eighth(number, result)
        return 0 if "relu" in words and code & 0x80 and number.kind != NAN else code
    if result not in FORMATS:
        return _to_integer(number, result, source, integral or "rzi")
    form = FORMATS[result]
    if number.kind == NAN:
        # .rna only cuts a tf32 NaN's payload, which can make an infinity of it (an H200 does)
        out = bits & ~0x1FFF if result == "tf32" and "rna" in words else form.nan
    elif number.kind == INFINITE:
        out = form.infinity | (form.sign if number.negative else 0)
    elif integral:
        out = encode(Fraction(round_whole(number.value, integral[:2])), result, "rn", number.negative)
    else:
        flushed = " ftz" if "ftz" in words and result == "f32" else ""
        out = encode(number.value, result, mode + flushed, number.negative)
    if result == "tf32" and "satfinite" in words and out & form.infinity == form.infinity:
        out -= 0x2000
    flushing = words if result == "f32" else words - {"ftz"}
    return _finish(out, flushing, result)


def _to_integer(number: Number, result: str, source: str, mode: str) -> int:
    width, signed = int(result[1:]), result[0] == "s"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if number.kind == NAN:
        # the top bit alone where source or result has 64 bits, else 0 (PTX ISA 9.7.9.21)
        return 1 << (width - 1) if width == 64 or source == "f64" else 0
    if number.kind == INFINITE:
        value = low if number.negative else high
    else:
        value = min(max(round_whole(number.value, mode[:2]), low), high)
    return value & ((1 << width) - 1)


EIGHTHS = ("e4m3", "e5m2")


def _from_eighth(code: int, name: str) -> Number:
    """e4m3: bias 7, all ones is NaN and there is no infinity; e5m2 is the upper half of an f16."""
    if name == "e5m2":
        return decode(code << 8, "f16")
    negative, exponent, fraction = bool(code & 0x80), code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return Number(NAN, negative)
    value = Fraction(fraction + (8 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 10)
    return Number(FINITE, negative, -value if negative else value)


def _eighth(number: Number, name: str) -> int:
    """To nearest among all finite codes, ties to the even one; never beyond the largest (.satfinite)."""
    if number.kind == NAN:
        return 0x7F
    sign = 0x80 if number.negative else 0
    largest = 0x7E if name == "e4m3" else 0x7B
    if number.kind == INFINITE:
        return sign | largest
    wanted = abs(number.value)
    codes = range(largest + 1)
    return sign | min(codes, key=lambda c: (abs(_from_eighth(c, name).value - wanted), c & 1))
