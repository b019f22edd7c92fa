"""The values that instructions are tried on: edges of each type, small numbers, values near each other, random bits.

Made from a seed with NumPy's legacy generator, whose stream is frozen, so every machine makes the same ones.
"""

from __future__ import annotations

import numpy as np

ROWS = 512
"""Threads of each kernel, one row of operands each: 16 warps of one block."""

_FORMATS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "tf32": (32, 23), "f64": (64, 52)}
"""Width and bits of the fraction."""


def integer_edges(width: int) -> list[int]:
    top = 1 << (width - 1)
    near = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257]
    edges = [*near, *(-x for x in near), top, top - 1, top + 1, top // 2, -top // 2, (1 << width) // 3]
    if width > 16:
        edges += [32767, 32768, 65535, 65536, 0x7FFFFF, 0xFFFFFF, 0x1000000, -32768, -32769]
    if width > 32:
        edges += [1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, (1 << 53) + 1, (1 << 53) - 1, -(1 << 31)]
    return [x & ((1 << width) - 1) for x in edges]


def float_edges(name: str) -> list[int]:
    width, fraction = _FORMATS[name]
    one_exponent = ((1 << (width - 1 - fraction)) - 1) >> 1
    infinity = ((1 << (width - 1 - fraction)) - 1) << fraction
    one, half = one_exponent << fraction, (one_exponent - 1) << fraction
    normal = 1 << fraction
    least = fraction + 2  # exponents from here up are ordinary integers and halves
    positive = [
        0, 1, 2, 3, normal - 1, normal, normal + 1, one, one + 1, one - 1, half, half + 1, half - 1, one + normal,
        one | (1 << (fraction - 1)), (one + normal) | (1 << (fraction - 2)), (one + 2 * normal) | (1 << (fraction - 3)),
        infinity - 1, infinity - normal, infinity, infinity | (1 << (fraction - 1)), infinity | 1,
        infinity | (1 << (fraction - 1)) | 5, infinity | (normal - 1), infinity | (1 << (fraction - 2)),
    ]  # fmt: skip
    powers = [one_exponent + e << fraction for e in (7, 8, 15, 16, 31, 32, 63, 64)]
    ties = [(one_exponent + e << fraction) | 1 for e in (least, fraction - 1, -least)]
    near = [*powers, *(p - 1 for p in powers), *ties]
    positive += [x for x in near if 0 < x < infinity]
    return positive + [x | 1 << (width - 1) for x in positive]


def nans(name: str) -> list[int]:
    """Infinities, zeros and NaNs: quiet and signalling, both signs, several payloads."""
    width, fraction = _FORMATS[name]
    infinity = ((1 << (width - 1 - fraction)) - 1) << fraction
    quiet = 1 << (fraction - 1)
    one = (((1 << (width - 1 - fraction)) - 1) >> 1) << fraction
    positive = [0, one, infinity, infinity | quiet, infinity | quiet | 3, infinity | 5, infinity | (quiet >> 1) | 6,
                infinity | (2 * quiet - 1)]  # fmt: skip
    return positive + [x | 1 << (width - 1) for x in positive]


def _random_bits(random: np.random.RandomState, width: int) -> np.ndarray:
    return random.randint(0, 1 << 64, ROWS, dtype=np.uint64) >> np.uint64(64 - width)


def _mixed(random: np.random.RandomState, parts: list[np.ndarray], weights: list[int]) -> np.ndarray:
    """Row by row one of the parts, drawn by weight."""
    choice = random.randint(0, sum(weights), ROWS)
    which = np.searchsorted(np.cumsum(weights), choice, side="right")
    return np.stack(parts)[which, np.arange(ROWS)]


def _drawn(random: np.random.RandomState, values: list[int]) -> np.ndarray:
    """Each value once where they are few enough, in random order, then repeats."""
    pool = np.array(values, np.uint64)
    repeated = np.concatenate([pool] * (ROWS // len(pool) + 1))[:ROWS]
    return repeated[random.permutation(ROWS)]


def integers(random: np.random.RandomState, width: int) -> np.ndarray:
    edges = _drawn(random, integer_edges(width))
    small = random.randint(0, 72, ROWS).astype(np.uint64)
    return _mixed(random, [edges, small, _random_bits(random, width)], [5, 2, 3])


def floats(random: np.random.RandomState, name: str, edges_only: bool = False) -> np.ndarray:
    width, fraction = _FORMATS[name]
    if edges_only:
        return _drawn(random, nans(name))
    one_exponent = ((1 << (width - 1 - fraction)) - 1) >> 1
    sign = random.randint(0, 2, ROWS).astype(np.uint64) << np.uint64(width - 1)
    exponent = random.randint(-6, 24 if width > 16 else 14, ROWS) + one_exponent
    mantissa = _random_bits(random, fraction)
    moderate = sign | (exponent.astype(np.uint64) << np.uint64(fraction)) | mantissa
    # few fraction bits: integers, halves and exact ties
    coarse = moderate & ~np.uint64((1 << max(fraction - 4, 1)) - 1)
    parts = [_drawn(random, float_edges(name)), moderate, coarse, _random_bits(random, width)]
    return _mixed(random, parts, [4, 3, 1, 2])


def value(random: np.random.RandomState, kind: str) -> np.ndarray:
    """ROWS unsigned 64-bit slots of a kind: i16, f32, f16x2, n (0 to 31), s (-40 to 40), p (predicate)."""
    edges_only = kind.startswith("nan:")
    kind = kind.removeprefix("nan:")
    if kind == "p":
        return random.randint(0, 2, ROWS).astype(np.uint64)
    if kind == "n":
        return random.randint(0, 32, ROWS).astype(np.uint64)
    if kind == "s":
        return random.randint(-40, 41, ROWS).astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)
    if kind.endswith("x2"):
        low, high = (value(random, ("nan:" if edges_only else "") + kind[:-2]) for _ in range(2))
        return low | high << np.uint64(16)
    if kind[0] == "i":
        return integers(random, int(kind[1:]))
    return floats(random, kind, edges_only)


def width_of(kind: str) -> int:
    kind = kind.rpartition(":")[2]
    if kind in ("p", "n", "s"):
        return 1 if kind == "p" else 32
    if kind.endswith("x2"):
        return 32
    return int(kind[1:]) if kind[0] == "i" else _FORMATS[kind][0]


def rows(seed: int, kinds: tuple[str, ...], nonzero: bool = False, divides: bool = False) -> np.ndarray:
    """One column per source. In an eighth of the rows the second source equals the first or lies beside it.

    ``nonzero``: no zero in the last column (PTX leaves division by zero open); ``divides``: the instruction does.
    """
    random = np.random.RandomState(seed)
    if kinds and kinds[0].startswith("tiny:"):
        return tiny(random, [k.removeprefix("tiny:") for k in kinds], divides)
    columns = [value(random, kind) for kind in kinds]
    if len(kinds) > 1 and kinds[0] == kinds[1] and kinds[0] != "p":
        same = random.randint(0, 8, ROWS) == 0
        step = random.randint(-1, 2, ROWS).astype(np.int64).view(np.uint64)
        mask = np.uint64((1 << width_of(kinds[0])) - 1)
        columns[1] = np.where(same, (columns[0] + step) & mask, columns[1])
    if len(kinds) == 3 and len(set(kinds)) == 1 and kinds[0] in ("f32", "f64"):
        columns[2] = _cancelling(random, columns, kinds[0])
    if nonzero:
        columns[-1] = np.where(columns[-1] == 0, np.uint64(1), columns[-1])
    return np.stack(columns) if columns else np.zeros((0, ROWS), np.uint64)


def _cancelling(random: np.random.RandomState, columns: list[np.ndarray], name: str) -> np.ndarray:
    """In a quarter of the rows the third source is minus the rounded product of the others, where fma must be exact."""
    chosen = random.randint(0, 4, ROWS) == 0
    dtype = {"f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}[name]
    a, b = (c.astype(dtype[0]).view(dtype[1]) for c in columns[:2])
    with np.errstate(all="ignore"):
        product = (-(a * b)).view(dtype[0]).astype(np.uint64)
    usable = chosen & np.isfinite(product.astype(dtype[0]).view(dtype[1]))
    return np.where(usable, product, columns[2])


def tiny(random: np.random.RandomState, kinds: list[str], divides: bool) -> np.ndarray:
    """Sources whose product (or quotient, or the one source) is about the least normal number, mostly a little less.

    (1 - 2**-j)(1 + 2**-k) with every j and k; a third source is a zero or the least subnormal number.
    """
    if kinds[0].endswith("x2"):
        low, high = (tiny(random, [k[:-2] for k in kinds], divides) for _ in range(2))
        return low | high << np.uint64(16)
    width, fraction = _FORMATS[kinds[0]]
    bias = (1 << (width - 2 - fraction)) - 1
    signs = random.choice([-1.0, 1.0], (2, ROWS))
    below = 1 - 2.0 ** -random.randint(1, fraction + 2, ROWS)
    if len(kinds) == 1:  # narrowed by cvt: f64 to f32, f32 to f16
        nudge = 1 + random.randint(-2, 3, ROWS) * 2.0**-fraction
        least = {"f64": -126, "f32": -14}[kinds[0]]
        return np.stack([_bits(signs[0] * np.ldexp(below * np.where(below < 0.9999, nudge, 1.0), least), kinds[0])])
    above = 1 + 2.0 ** -random.randint(1, fraction + 1, ROWS) * random.randint(0, 2, ROWS)
    shift = random.randint(1, min(bias, 40), ROWS)
    first = signs[0] * np.ldexp(below, 1 - bias + shift)
    second = signs[1] * np.ldexp(above, shift if divides else -shift)
    third = random.randint(0, 2, ROWS).astype(np.uint64)
    third |= random.randint(0, 2, ROWS).astype(np.uint64) << np.uint64(width - 1)
    return np.stack([_bits(first, kinds[0]), _bits(second, kinds[0]), third][: len(kinds)])


def _bits(numbers: np.ndarray, name: str) -> np.ndarray:
    """Numbers that the format holds exactly, as slots."""
    dtype, word = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}[name]
    return numbers.astype(dtype).view(word).astype(np.uint64)
