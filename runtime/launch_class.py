"""What a measurement of one launch may be taken to say about others: the class of its shape and of its arguments.

Sizes count by their power of two, because a kernel that is faster at 1000 blocks is so at 900, and rarely at 9. What
decides which path a guarded rewrite takes counts as it is: the block, alignments, common factors, overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybridcc.passes.kernel import Argument, ArrayType
from hybridcc.passes.verify.launch import as_shape
from hybridcc.runtime.host_arrays import place_of, span_of

LARGEST_FACTOR = 16
"""Bytes of the widest load, and more elements than a rewrite handles at once: alignments and factors beyond tell
nothing."""


def launch_class(
    arguments: Sequence[Argument], values: Sequence[Any], grid: Any, block: Any, shared_bytes: int
) -> dict[str, object]:
    """JSON-ready; equal for launches of one class. Nothing is copied and nothing waited for. Arrays on the host count
    as what they are copied to: memory of their own with the driver's alignment."""
    return {
        "grid": [size_class(extent) for extent in as_shape(grid)],
        "block": list(as_shape(block)),
        "shared_bytes": shared_bytes,
        "arguments": [_argument(a, v) for a, v in zip(arguments, values, strict=True)],
        "overlapping": _overlapping(arguments, values),
    }


def size_class(value: int) -> int:
    """0 for 0, else how many bits it has, negative for a negative number."""
    return int(value).bit_length() if value >= 0 else -int(-value).bit_length()


def factor(value: int) -> int:
    """The largest power of two that divides it, at most LARGEST_FACTOR."""
    return min(value & -value, LARGEST_FACTOR) if value else LARGEST_FACTOR


def _argument(argument: Argument, value: Any) -> Mapping[str, object]:
    if not isinstance(argument.type, ArrayType):
        return _scalar(getattr(value, "value", value))
    place = place_of(argument, value)
    shape = tuple(getattr(value, "shape", ())) if place is None else place.shape
    return {
        "extents": [size_class(int(extent)) for extent in shape],
        "factors": [factor(int(extent)) for extent in shape],
        "alignment": LARGEST_FACTOR if place is None else factor(place.address),
    }


def _scalar(value: Any) -> Mapping[str, object]:
    """A loop may run as often as an integer says; what a floating-point number is changes little."""
    import numpy as np

    if isinstance(value, bool | np.bool_):
        return {"value": bool(value)}
    if isinstance(value, int | np.integer):
        return {"size": size_class(int(value)), "factor": factor(int(value))}
    return {}


def _overlapping(arguments: Sequence[Argument], values: Sequence[Any]) -> list[list[int]]:
    """Pairs of arguments that share memory on the device."""
    spans: list[tuple[int, int, int]] = []
    for index, (argument, value) in enumerate(zip(arguments, values, strict=True)):
        place = place_of(argument, value) if isinstance(argument.type, ArrayType) else None
        if place is not None and 0 not in place.shape:
            spans.append((index, *span_of(place)))
    return [
        [first, second]
        for number, (first, begin, end) in enumerate(spans)
        for second, start, stop in spans[number + 1 :]
        if begin < stop and start < end
    ]
