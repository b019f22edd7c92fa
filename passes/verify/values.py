"""Families of values: what the elements of an array, and scalars, are drawn from.

Each family is a pure function of (type, size, generator), so a launch is made again from its seed.
"""

from __future__ import annotations

import numpy as np

FAMILIES = ("random", "zero", "constant", "signed", "large", "subnormal", "nan", "infinity")
"""In the order they are used; ``random`` first, because it tells most."""

INTEGER_FAMILIES = ("random", "zero", "constant", "signed", "large", "negative index")


def draw(family: str, dtype: np.dtype, size: int, rng: np.random.Generator, *, extent: int = 8) -> np.ndarray:
    """``size`` values of ``dtype``. ``extent`` bounds integers that may serve as indices."""
    if dtype.kind == "f":
        return _floats(family, dtype, size, rng)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return _floats(family, part, 2 * size, rng).view(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(dtype) if family != "zero" else np.zeros(size, dtype)
    if dtype.kind in "iu":
        return _integers(family, dtype, size, rng, max(1, extent))
    return rng.integers(0, 256, size * dtype.itemsize).astype(np.uint8).view(dtype)


def _floats(family: str, dtype: np.dtype, size: int, rng: np.random.Generator) -> np.ndarray:
    info = np.finfo(dtype)
    signs = rng.choice(np.array([-1, 1]), size)
    match family:
        case "zero":
            return np.copysign(np.zeros(size, dtype), signs.astype(dtype))
        case "constant":
            return np.full(size, 1.5, dtype)
        case "signed":
            return (signs * (1 + rng.random(size))).astype(dtype)
        case "large":
            # Sums and products of these overflow now and then, and lose low bits always.
            exponents = rng.integers(info.maxexp // 2, info.maxexp - 1, size)
            return np.ldexp(signs * (0.5 + rng.random(size) / 2), exponents).astype(dtype)
        case "subnormal":
            bits = rng.integers(1, 1 << int(info.nmant), size).astype(f"u{dtype.itemsize}")
            return np.copysign(bits.view(dtype), signs.astype(dtype))
        case "nan":
            return _sprinkle(_floats("random", dtype, size, rng), _nans(dtype, size, rng), rng)
        case "infinity":
            infinite = np.copysign(np.full(size, np.inf, dtype), signs.astype(dtype))
            return _sprinkle(_floats("random", dtype, size, rng), infinite, rng)
        case _:
            return rng.standard_normal(size).astype(dtype)


def _nans(dtype: np.dtype, size: int, rng: np.random.Generator) -> np.ndarray:
    """Quiet and signalling NaNs of both signs with payloads."""
    info = np.finfo(dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    payload = rng.integers(1, 1 << int(info.nmant), size).astype(unsigned)
    exponent = unsigned.type(np.array(np.inf, dtype).view(unsigned))
    sign = (rng.integers(0, 2, size).astype(unsigned) << unsigned.type(8 * dtype.itemsize - 1)).astype(unsigned)
    return (payload | exponent | sign).astype(unsigned).view(dtype)


def _sprinkle(base: np.ndarray, special: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Special values at about a third of the places, and always at the first."""
    at = rng.random(len(base)) < 1 / 3
    at[:1] = True
    unsigned = f"u{base.dtype.itemsize}"  # as bits: a copy through the FPU could quieten a signalling NaN
    return np.where(at, special.view(unsigned), base.view(unsigned)).view(base.dtype)


def _integers(family: str, dtype: np.dtype, size: int, rng: np.random.Generator, extent: int) -> np.ndarray:
    info = np.iinfo(dtype)
    match family:
        case "zero":
            return np.zeros(size, dtype)
        case "constant":
            return np.ones(size, dtype)
        case "signed":
            low = -3 if info.min < 0 else 0
            return rng.integers(low, 4, size).astype(dtype)
        case "large":
            return rng.choice(np.array([info.max, info.max - 1, info.min, info.max // 2 + 1], dtype), size)
        case "negative index":
            if info.min == 0:
                return rng.integers(0, min(extent, info.max), size).astype(dtype)
            return (-1 - rng.integers(0, min(extent, info.max), size)).astype(dtype)
        case _:
            return rng.integers(0, min(extent, info.max), size).astype(dtype)
