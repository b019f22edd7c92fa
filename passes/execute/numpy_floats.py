"""PTX floating-point operations on NumPy bit patterns, as the hardware does them.

What becomes of NaNs is nans.py's. Approximate
operations are computed in f64 and rounded: near the hardware's, never its bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hybridcc.passes.execute import nans, rounding
from hybridcc.ptx.algebra import Conversion, FloatOperation
from hybridcc.ptx.types import is_float, is_signed, width

UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000, "tf32": 0x7F800000}
Array = Any


def bits_width(format: str) -> int:
    return width(format)


def sign_mask(format: str) -> Any:
    w = width(format)
    return UNSIGNED[w](1 << (w - 1))


def flush(bits: Array, format: str) -> Array:
    """Subnormals to zeros of their sign."""
    dtype = UNSIGNED[width(format)]
    tiny = (bits & dtype(_EXPONENT[format])) == 0
    if not np.any(tiny):
        return bits
    return np.where(tiny, bits & sign_mask(format), bits)


def to_f64(bits: Array, format: str) -> Array:
    """The value as f64, exactly."""
    match format:
        case "f32" | "tf32":
            return np.asarray(bits).view(np.float32).astype(np.float64)
        case "f16":
            return np.asarray(bits).view(np.float16).astype(np.float64)
        case "bf16":
            return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case "f64":
            return np.asarray(bits).view(np.float64)
        case "e4m3" | "e5m2":
            return eighths(format)[np.asarray(bits)]
    raise KeyError(format)


@cache
def eighths(format: str) -> Array:
    """All 256 values of an 8-bit format. e4m3 has no infinity: its only NaN is all ones."""
    digits, bias = (3, 7) if format == "e4m3" else (2, 15)
    bits = np.arange(256)
    exponent, fraction = (bits & 0x7F) >> digits, bits & ((1 << digits) - 1)
    subnormal = exponent == 0
    whole = np.where(subnormal, fraction, fraction + (1 << digits))
    value = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - bias - digits)
    if format == "e4m3":
        value = np.where((bits & 0x7F) == 0x7F, np.nan, value)
    else:
        top = exponent == 31
        value = np.where(top, np.where(fraction == 0, np.inf, np.nan), value)
    return np.copysign(value, np.where(bits & 0x80, -1.0, 1.0))


def to_eighth(x: Array, format: str) -> Array:
    """Rounded to nearest and kept finite (.rn.satfinite); NaN becomes 0x7f."""
    largest = rounding.FORMATS[format].largest
    value = np.abs(np.clip(rounding.round_to(np.clip(x, -largest, largest), format, "rn"), -largest, largest))
    finite = eighths(format)[:128]
    finite = finite[np.isfinite(finite)]
    code = np.searchsorted(finite, np.where(np.isnan(x), 0.0, value)).astype(np.uint8)
    code = code | np.where(np.signbit(x), np.uint8(0x80), np.uint8(0))
    return np.where(np.isnan(x), np.uint8(0x7F), code)


def from_f64(x: Array, format: str, mode: str) -> Array:
    """An f64 value rounded to the format's bits; NaN becomes canonical."""
    if format in ("e4m3", "e5m2"):
        return to_eighth(np.asarray(x), format)
    if format == "f64":
        return np.asarray(x).view(np.uint64)
    else:
        value = rounding.round_to(np.asarray(x), format, mode)
        if format == "f16":
            bits = value.astype(np.float16).view(np.uint16)
        else:
            bits = value.astype(np.float32).view(np.uint32)
            if format == "bf16":
                bits = (bits >> np.uint32(16)).astype(np.uint16)
    return canonical(bits, np.isnan(x), format)


def canonical(bits: Array, nan: Array, format: str) -> Array:
    if not np.any(nan):
        return bits
    return np.where(nan, UNSIGNED[width(format)](nans.CANONICAL[format]), bits)


def operation(op: FloatOperation, operands: tuple[Array, ...]) -> Array:
    """One floating-point operation on bit patterns of op.format."""
    format = op.format
    if op.ftz:
        operands = tuple(flush(x, format) for x in operands)
    if op.name in ("neg", "abs"):
        return _sign(op, operands[0])
    if op.name in ("min", "max"):
        bits = _extreme(op, operands)
    elif not op.exact:
        bits = _approximate(op, operands)
    elif format == "f32" and op.rounding == "rn":
        bits = _nearest32(op.name, operands)
    elif format == "f64":
        bits = _double(op, operands)
    else:
        bits = _narrow(op, operands)
    if op.ftz:
        bits = flush(bits, format)
        if op.exact and op.name in _CAN_UNDERFLOW:
            bits = _flush_rounded_up(op, operands, bits)
    if op.saturate:
        bits = saturate(bits, format)
    if op.relu:
        bits = relu(bits, format)
    return bits


_CAN_UNDERFLOW = frozenset({"mul", "fma", "div"})


def _flush_rounded_up(op: FloatOperation, operands: tuple[Array, ...], bits: Array) -> Array:
    """A result that is the least normal number only because it was rounded up to it counts as subnormal too."""
    least = least_normal(op.format)
    if not np.any((bits & ~sign_mask(op.format)) == least):
        return bits
    exact = _unrounded(op, [to_f64(o, op.format) for o in operands])
    return _flush_tiny(bits, op.format, exact, op.rounding)


def _flush_tiny(bits: Array, format: str, exact: Array, mode: str) -> Array:
    """Flushes the least normal number where ``exact``, rounded as if exponents had no end, lies below it."""
    lifted = np.abs(rounding.round_to(np.ldexp(exact, 16), format, mode))
    tiny = lifted < np.ldexp(to_f64(least_normal(format), format), 16)
    mask = sign_mask(format)
    return np.where(((bits & ~mask) == least_normal(format)) & tiny, bits & mask, bits)


def least_normal(format: str) -> Any:
    exponent = _EXPONENT[format]
    return UNSIGNED[width(format)](exponent & -exponent)


def _sign(op: FloatOperation, bits: Array) -> Array:
    """neg and abs of a number; a NaN comes out as from any arithmetic."""
    mask = sign_mask(op.format)
    changed = bits ^ mask if op.name == "neg" else bits & ~mask
    if op.format == "f64":
        return np.where(nans.is_nan64(bits), bits | nans.QUIET64, changed)
    return canonical(changed, (bits & ~mask) > UNSIGNED[width(op.format)](_EXPONENT[op.format]), op.format)


def saturate(bits: Array, format: str) -> Array:
    """Clamped to [+0, 1]; NaN to +0."""
    x = to_f64(bits, format)
    dtype = UNSIGNED[width(format)]
    one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}[format]
    return np.where(x > 1.0, dtype(one), np.where(x > 0.0, bits, dtype(0)))


def relu(bits: Array, format: str) -> Array:
    """Negative values to +0; NaN stays canonical."""
    x = to_f64(bits, format)
    zero = UNSIGNED[width(format)](0)
    return canonical(np.where((x > 0) | np.isnan(x), bits, zero), np.isnan(x), format)


def _nearest32(name: str, operands: tuple[Array, ...]) -> Array:
    x = [np.asarray(o).view(np.float32) for o in operands]
    match name:
        case "add":
            r = x[0] + x[1]
        case "sub":
            r = x[0] - x[1]
        case "mul":
            r = x[0] * x[1]
        case "div":
            r = x[0] / x[1]
        case "rcp":
            r = np.float32(1) / x[0]
        case "sqrt":
            r = np.sqrt(x[0])
        case "fma":
            wide = [v.astype(np.float64) for v in x]
            r = rounding.fma_odd(wide[0], wide[1], wide[2]).astype(np.float32)
        case _:
            raise KeyError(name)
    return canonical(np.asarray(r).view(np.uint32), np.isnan(r), "f32")


def _narrow(op: FloatOperation, operands: tuple[Array, ...]) -> Array:
    """f32 with a directed rounding, f16 and bf16: through f64 rounded to odd."""
    return from_f64(_unrounded(op, [to_f64(o, op.format) for o in operands]), op.format, op.rounding)


def _unrounded(op: FloatOperation, x: list[Array]) -> Array:
    """The exact result as f64 rounded to odd, of operands of at most 24 bits."""
    mode = op.rounding
    match op.name:
        case "add" | "sub":
            second = x[1] if op.name == "add" else -x[1]
            s, e = rounding.two_sum(x[0], second)
            r = rounding.to_odd(s, e)
            if mode == "rm":
                cancels = (s == 0) & ((x[0] != 0) | (np.signbit(x[0]) != np.signbit(second)))
                r = np.where(cancels, -0.0, r)
        case "mul":
            r = x[0] * x[1]  # 48 bits at most, and far from f64's ends
        case "fma":
            r = rounding.fma_odd(x[0], x[1], x[2])
            if mode == "rm":
                cancels = (r == 0) & ((x[2] != 0) | (np.signbit(x[0] * x[1]) != np.signbit(x[2])))
                r = np.where(cancels, -0.0, r)
        case "div":
            r = rounding.quotient_odd(x[0], x[1])
        case "rcp":
            r = rounding.quotient_odd(np.ones_like(x[0]), x[0])
        case "sqrt":
            r = rounding.root_odd(x[0])
        case _:
            raise KeyError(op.name)
    return r


def _double(op: FloatOperation, operands: tuple[Array, ...]) -> Array:
    x = tuple(np.asarray(o).view(np.float64) for o in operands)
    if op.rounding != "rn":
        r = rounding.directed64(op.name, x, op.rounding)
    else:
        match op.name:
            case "add":
                r = x[0] + x[1]
            case "sub":
                r = x[0] - x[1]
            case "mul":
                r = x[0] * x[1]
            case "div":
                r = x[0] / x[1]
            case "rcp":
                r = 1.0 / x[0]
            case "sqrt":
                r = np.sqrt(x[0])
            case "fma":
                r = rounding.fma64(*x)
            case _:
                raise KeyError(op.name)
    r = np.asarray(r)
    nan = np.isnan(r)
    bits = r.view(np.uint64)
    return np.where(nan, nans.double(op.name, operands, np.shape(bits)), bits) if np.any(nan) else bits


def _extreme(op: FloatOperation, operands: tuple[Array, ...]) -> Array:
    """min and max: a number beats NaN (unless .NaN); -0 is below +0 (PTX ISA 9.7.3.11)."""
    a, b = operands
    format = op.format
    sign = (a ^ b) & sign_mask(format) if op.xorsign else None
    if sign is not None:
        a, b = a & ~sign_mask(format), b & ~sign_mask(format)
    x, y = to_f64(a, format), to_f64(b, format)
    if op.name == "min":
        bits = np.where(x < y, a, np.where(y < x, b, a | b))
    else:
        bits = np.where(x > y, a, np.where(y > x, b, a & b))
    x_nan, y_nan = np.isnan(x), np.isnan(y)
    if np.any(x_nan) or np.any(y_nan):
        bits = np.where(x_nan, b, np.where(y_nan, a, bits))
        if format == "f64":
            bits = np.where(x_nan & y_nan, nans.double(op.name, operands, np.shape(bits)), bits)
        else:
            bits = canonical(bits, (x_nan | y_nan) if op.nan else (x_nan & y_nan), format)
    if sign is not None:
        bits = np.where(np.isnan(to_f64(bits, format)), bits, bits | sign)
    return bits


def _approximate(op: FloatOperation, operands: tuple[Array, ...]) -> Array:
    if op.format == "f64" and op.ftz:  # reads the upper 32 bits only
        operands = tuple(o & np.uint64(0xFFFFFFFF00000000) for o in operands)
    x = [to_f64(o, op.format) for o in operands]
    match op.name.partition(".")[0]:
        case "div":
            r = x[0] / x[1]
        case "rcp":
            r = 1.0 / x[0]
        case "sqrt":
            r = np.sqrt(x[0])
        case "rsqrt":
            r = 1.0 / np.sqrt(x[0])
        case "sin":
            r = np.sin(x[0])
        case "cos":
            r = np.cos(x[0])
        case "ex2":
            r = np.exp2(x[0])
        case "lg2":
            r = np.log2(x[0])
        case "tanh":
            r = np.tanh(x[0])
        case _:
            raise KeyError(op.name)
    return from_f64(np.asarray(r), op.format, "rn")


# --- conversion ------------------------------------------------------------------------------------------


def convert(c: Conversion, bits: Array) -> Array:
    """cvt with a floating-point side."""
    if is_float(c.source) and is_float(c.result):
        return _float_to_float(c, bits)
    if is_float(c.source):
        return _float_to_integer(c, bits)
    return _integer_to_float(c, bits)


def _float_to_float(c: Conversion, bits: Array) -> Array:
    source, result = c.source, c.result
    integral = c.rounding in ("rni", "rzi", "rmi", "rpi")
    # cvt.rm.ftz.f16.f32 does not flush; with an integral rounding it does
    if c.ftz and source == "f32" and (result != "f16" or integral):
        bits = flush(bits, source)
    x = to_f64(bits, source)
    nan = np.isnan(x)
    if integral:
        out = from_f64(rounding.round_integral(x, c.rounding), result, "rn")
    elif result == source and not c.rounding:
        out = bits
    else:
        out = from_f64(x, result, c.rounding or "rn")
    if np.any(nan):
        out = np.where(nan, nans.converted(c, np.asarray(bits)), out)
    if c.satfinite and result == "tf32":
        # what overflows, and NaN, is one step below infinity or its own payload
        special = (out & np.uint32(_EXPONENT["tf32"])) == np.uint32(_EXPONENT["tf32"])
        out = np.where(special, out - np.uint32(0x2000), out)
    if c.ftz and result == "f32":
        out = flush(out, result)
        if source == "f64" and np.any((out & ~sign_mask(result)) == least_normal(result)):
            out = _flush_tiny(out, result, x, c.rounding or "rn")
    if c.saturate:
        out = saturate(out, result)
    return relu(out, result) if c.relu else out


def _float_to_integer(c: Conversion, bits: Array) -> Array:
    if c.ftz and c.source == "f32":
        bits = flush(bits, c.source)
    x = to_f64(bits, c.source)
    w = width(c.result)
    signed = is_signed(c.result)
    low = -(2.0 ** (w - 1)) if signed else 0.0
    high = 2.0 ** (w - 1) if signed else 2.0**w
    rounded = rounding.round_integral(x, c.rounding or "rzi")
    inside = (rounded >= low) & (rounded < high)
    kind = SIGNED[w] if signed else UNSIGNED[w]
    value = np.where(inside, rounded, 0.0).astype(kind).view(UNSIGNED[w])
    most = UNSIGNED[w]((1 << (w - signed)) - 1)
    least = UNSIGNED[w](1 << (w - 1)) if signed else UNSIGNED[w](0)
    value = np.where(inside, value, np.where(rounded >= high, most, least))
    # PTX ISA 9.7.9.21: NaN gives 0 unless the source is f64 or the result 64 bits wide, then the top bit alone
    wide = c.source == "f64" or w == 64
    return np.where(np.isnan(x), UNSIGNED[w](1 << (w - 1) if wide else 0), value)


def _integer_to_float(c: Conversion, bits: Array) -> Array:
    w = width(c.source)
    integers = np.asarray(bits).view(SIGNED[w]) if is_signed(c.source) else np.asarray(bits)
    mode = c.rounding or "rn"
    if w < 64:
        out = from_f64(integers.astype(np.float64), c.result, mode)
    else:
        out = _wide_integer_to_float(integers, c.result, mode)
    return saturate(out, c.result) if c.saturate else out


def _wide_integer_to_float(integers: Array, result: str, mode: str) -> Array:
    """64-bit integers: f64 rounded to odd, by comparing back; exact because both fit 64 bits."""
    near = integers.astype(np.float64)
    top = 2.0**63 if integers.dtype == np.int64 else 2.0**64
    clipped = near >= top  # rounded up to a power of two that no integer of the type reaches
    back = np.where(clipped, 0.0, near).astype(integers.dtype)
    direction = np.where(clipped, -1, np.where(integers > back, 1, np.where(integers < back, -1, 0)))
    if result != "f64":
        return from_f64(rounding.to_odd(near, direction.astype(np.float64)), result, mode)
    if mode == "rn":
        return near.view(np.uint64)
    step = {"rz": np.where(direction * np.sign(near) < 0, -np.sign(near), 0.0),
            "rm": np.where(direction < 0, -1.0, 0.0), "rp": np.where(direction > 0, 1.0, 0.0)}[mode]  # fmt: skip
    moved = np.nextafter(near, np.where(step > 0, np.inf, -np.inf))
    return np.where(step != 0, moved, near).view(np.uint64)
