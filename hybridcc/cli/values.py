"""Argument values as a shell writes them.

f32:2.5            a scalar
s64:-3             types are u8 … u64, s8 … s64, f16, f32, f64
f32[1024]          an array of zeros
f32[32,64]=random  or zeros, ones, arange, random, or a number
@x.npy             an array from a file
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from hybridcc.errors import InputError

FORM = "write f32:2.5, f32[1024], f32[32,64]=random (or zeros, ones, arange, a number) or @x.npy"
MOST_BYTES = 1 << 32

_SCALAR = re.compile(r"([usf])(8|16|32|64):(.+)")
_ARRAY = re.compile(r"([usf])(8|16|32|64)\[([\d,\s]*)\](?:=(.+))?")


def parse_value(text: str, seed: int = 0) -> np.ndarray | np.generic:
    """Raises InputError, with the accepted forms."""
    if text.startswith("@"):
        return _from_file(text[1:])
    if found := _SCALAR.fullmatch(text):
        return _number(found[3], _dtype(found[1], found[2], text), text)[()]
    if found := _ARRAY.fullmatch(text):
        dtype = _dtype(found[1], found[2], text)
        shape = tuple(int(extent) for extent in found[3].split(",") if extent.strip())
        if int(np.prod(shape, dtype=np.float64)) * dtype.itemsize > MOST_BYTES:
            raise InputError(f"the array {text} would take more than 4 GiB", next_step="use a smaller one")
        return _filled(shape, dtype, found[4] or "zeros", text, seed)
    raise InputError(f"not a value: {text!r}", next_step=FORM)


def _dtype(kind: str, bits: str, text: str) -> np.dtype:
    name = f"{ {'u': 'uint', 's': 'int', 'f': 'float'}[kind] }{bits}"
    if name == "float8":
        raise InputError(f"no type f8 in {text!r}", next_step=FORM)
    return np.dtype(name)


def _number(text: str, dtype: np.dtype, whole: str) -> np.ndarray:
    try:
        number = float(text) if dtype.kind == "f" else int(text, 0)
        return np.array(number, dtype)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{text!r} is no {dtype.name} (in {whole!r})", next_step=FORM) from error


def _filled(shape: tuple[int, ...], dtype: np.dtype, fill: str, text: str, seed: int) -> np.ndarray:
    match fill:
        case "zeros":
            return np.zeros(shape, dtype)
        case "ones":
            return np.ones(shape, dtype)
        case "arange":
            return np.arange(int(np.prod(shape, dtype=np.int64))).astype(dtype).reshape(shape)
        case "random":
            from hybridcc.passes.verify.values import draw

            size = int(np.prod(shape, dtype=np.int64))
            return draw("random", dtype, size, np.random.default_rng(seed), extent=100).reshape(shape)
        case number:
            return np.full(shape, _number(number, dtype, text))


def _from_file(name: str) -> np.ndarray:
    try:
        return np.load(Path(name), allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as .npy: {error}", where=name, next_step="write it with numpy.save") from None
