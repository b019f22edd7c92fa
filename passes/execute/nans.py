"""What becomes of NaNs, as measured on an H200 (tests/hardware): PTX itself leaves payloads open.

f16, bf16 and f32 arithmetic gives one canonical NaN, neg and abs included. f64 keeps the payload of one operand and
makes it quiet; which one depends on the operation. Conversions from and to f64 shift the payload, others lose it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.ptx.algebra import Conversion
from hybridcc.ptx.types import width

Array = Any
CANONICAL = {"e4m3": 0x7F, "e5m2": 0x7F, "f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "tf32": 0x7FFFE000}
QUIET64 = np.uint64(0x0008_0000_0000_0000)
DEFAULT64 = np.uint64(0xFFF8_0000_0000_0000)
"""What f64 arithmetic makes of infinities and zeros without any NaN among its operands."""
_SIGN64, _INFINITY64 = np.uint64(1 << 63), np.uint64(0x7FF0_0000_0000_0000)
_FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "tf32": 23}
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

_LAST_WINS = {"fma": (0, 2, 1), "div": (1, 0)}
"""The operands in the order in which a later NaN displaces an earlier one, where it is not the order written."""


def is_nan64(bits: Array) -> Array:
    return (bits & ~_SIGN64) > _INFINITY64


def double(name: str, operands: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """The NaN that an f64 operation gives for these operands."""
    chosen = np.full(shape, DEFAULT64)
    for index in _LAST_WINS.get(name, range(len(operands))):
        chosen = np.where(is_nan64(operands[index]), operands[index] | QUIET64, chosen)
    return chosen


def converted(c: Conversion, bits: Array) -> Array:
    """The NaN that cvt gives for each of ``bits``, which are NaNs of the source's format."""
    source, result = c.source, c.result
    if source == "f64":
        if result == "f64":
            return bits | QUIET64
        return _narrowed(bits | QUIET64, result)
    if result == "f64" and not c.ftz:
        return _widened(bits, source)
    if (source, result) == ("bf16", "f32"):
        return bits.astype(np.uint32) << np.uint32(16)
    if result == "f64":
        return np.uint64(0x7FFF_FFFF_E000_0000)
    if (result, c.rounding) == ("tf32", "rna"):
        return bits & np.uint32(0xFFFF_E000)
    return _WORDS[width(result)](CANONICAL[result])


def _narrowed(bits: Array, result: str) -> Array:
    """Sign, infinity's exponent, and the payload's upper bits."""
    w, digits = width(result), _FRACTION[result]
    sign = (bits >> np.uint64(63)) << np.uint64(w - 1)
    rest = (bits & ~_SIGN64) >> np.uint64(52 - digits) & np.uint64((1 << digits) - 1)
    exponent = np.uint64(((1 << (w - 1)) - 1) >> digits << digits)
    return (sign | exponent | rest).astype(_WORDS[w])


def _widened(bits: Array, source: str) -> Array:
    w, digits = width(source), _FRACTION[source]
    wide = bits.astype(np.uint64)
    sign = (wide >> np.uint64(w - 1)) << np.uint64(63)
    payload = (wide & np.uint64((1 << digits) - 1)) << np.uint64(52 - digits)
    return sign | _INFINITY64 | QUIET64 | payload
