"""PTX's fundamental types by name (PTX ISA 9.0, section 5.2): kind and width."""

from __future__ import annotations

from functools import lru_cache

FLOATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32, "e4m3": 8, "e5m2": 8}
PACKED = {"f16x2": ("f16", 2), "bf16x2": ("bf16", 2), "f32x2": ("f32", 2), "u16x2": ("u16", 2), "s16x2": ("s16", 2),
          "e4m3x2": ("e4m3", 2), "e5m2x2": ("e5m2", 2)}  # fmt: skip
PREDICATE = 1
"""The width of a predicate, wherever widths are listed."""


@lru_cache(maxsize=256)
def width(name: str) -> int:
    """Bits of a type named without its dot: "s32" is 32, "pred" is 1. Raises ValueError for no type."""
    if name == "pred":
        return PREDICATE
    if name in FLOATS:
        return FLOATS[name]
    if name in PACKED:
        element, count = PACKED[name]
        return width(element) * count
    if name[:1] in ("b", "s", "u") and name[1:] in ("8", "16", "32", "64", "128"):
        return int(name[1:])
    raise ValueError(f"{name} is no PTX type that has a width")


def is_type(name: str) -> bool:
    try:
        width(name)
    except ValueError:
        return False
    return True


def is_signed(name: str) -> bool:
    return name[:1] == "s"


def is_float(name: str) -> bool:
    return name in FLOATS
