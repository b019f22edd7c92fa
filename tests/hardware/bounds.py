"""How far an operation whose bits PTX leaves open may lie from the true value (PTX ISA 9.0, sections 9.7.3 to 9.7.5).

The executor computes those in f64 and rounds, so both it and the hardware must lie within the bound of the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Bound:
    """|answer - truth| <= absolute + relative * |truth|, where ``where(operands)`` holds."""

    truth: Callable[..., Array]
    relative: float = 0.0
    absolute: float = 0.0
    where: Callable[..., Array] | None = None


_ULP32, _ULP16, _ULPB = 2.0**-23, 2.0**-10, 2.0**-7


def _moderate(x: Array, y: Array) -> Array:
    return (np.abs(y) >= 2.0**-126) & (np.abs(y) <= 2.0**126)


def _upper(x: Array) -> Array:
    """The number that an f64's upper 32 bits make: all that rcp and rsqrt.approx.ftz read."""
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


BOUNDS: dict[tuple[str, str], Bound] = {
    ("div.approx", "f32"): Bound(lambda x, y: x / y, 2 * _ULP32, where=_moderate),
    ("div.full", "f32"): Bound(lambda x, y: x / y, 2 * _ULP32),
    ("rcp.approx", "f32"): Bound(lambda x: 1 / x, _ULP32),
    ("sqrt.approx", "f32"): Bound(np.sqrt, 2 * _ULP32),
    ("rsqrt.approx", "f32"): Bound(lambda x: 1 / np.sqrt(x), 2.0**-22.4),
    ("sin.approx", "f32"): Bound(np.sin, 0.0, 2.0**-20.5, where=lambda x: np.abs(x) <= 2 * np.pi),
    ("cos.approx", "f32"): Bound(np.cos, 0.0, 2.0**-20.5, where=lambda x: np.abs(x) <= 2 * np.pi),
    ("lg2.approx", "f32"): Bound(np.log2, 2.0**-22, 2.0**-22),
    ("ex2.approx", "f32"): Bound(np.exp2, 2 * _ULP32),
    ("tanh.approx", "f32"): Bound(np.tanh, 2.0**-10.987),
    ("tanh.approx", "f16"): Bound(np.tanh, 2.0**-10.987 + _ULP16),
    ("tanh.approx", "bf16"): Bound(np.tanh, 2.0**-8 + _ULPB),
    ("ex2.approx", "f16"): Bound(np.exp2, 2.0**-9.9 + _ULP16),
    ("ex2.approx", "bf16"): Bound(np.exp2, 2.0**-7 + _ULPB),
    ("rsqrt.approx", "f64"): Bound(lambda x: 1 / np.sqrt(x), 2.0**-20),
    ("rsqrt.approx.ftz", "f64"): Bound(lambda x: 1 / np.sqrt(_upper(x)), 2.0**-20),
    ("rcp.approx.ftz", "f64"): Bound(lambda x: 1 / _upper(x), 2.0**-20),
}
"""By opcode with .approx or .full (f64: and .ftz), and type. A rounding to the result's own format is included."""
