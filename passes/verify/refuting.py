"""From where a proof failed to a launch that shows it: hints become launches, and only a run refutes.

A hint gives values to some parameters and special registers (proving.Attempt). What it leaves open, and the elements
of arrays, are drawn at random; what no executor can hold (extents past memory, 2^30 blocks) is cut down to a size that
keeps the low bits. None of this needs to be right: a launch that shows no difference is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from hybridcc.passes.facts import Fact
from hybridcc.passes.kernel import Argument, ArrayType, Kernel, ScalarType
from hybridcc.passes.verdict import Refuted
from hybridcc.passes.verify.inputs import share
from hybridcc.passes.verify.keeping import keeps
from hybridcc.passes.verify.launch import Launch, Shape
from hybridcc.passes.verify.once import default_execute
from hybridcc.passes.verify.reference import reference_for
from hybridcc.passes.verify.testing import Examination, examine
from hybridcc.passes.verify.values import draw

Hint = Mapping[str, int]

TRIES: Final = 4
"""Launches for one hint: its numbers are few, and what it leaves open is drawn anew."""
MOST_HINTS: Final = 12
MOST_EXTENT: Final = 64
"""Extents past this are cut to their low bits: remainders and alignments stay."""
MOST_BLOCKS: Final = 64
BARE_ELEMENTS: Final = 2048
"""Elements behind a pointer whose extent nobody knows."""
STEPS: Final = 50_000
_ONE_THREAD: Final = {
    f"special:{register}.{axis}": number
    for axis in "xyz"
    for register, number in (("tid", 0), ("ntid", 1), ("ctaid", 0), ("nctaid", 1))
}
"""Of one thread, a difference is seen where many would race."""
_FAMILIES: Final = ("signed", "random", "constant", "nan")


def refute(
    kernel: Kernel, candidate: str, hints: Iterable[Hint], facts: Sequence[Fact] = (), *, seed: int = 0
) -> Examination | None:
    """The examination that tells the two apart on a launch made from a hint, run twice; None if none does.

    ``kernel`` has arguments. A launch that breaks one of ``facts`` is left out.
    """
    launches = (x for x in launches_from(kernel, hints, seed=seed) if keeps(x, kernel, facts))
    found = examine(reference_for(kernel, launches), candidate, most=TRIES * MOST_HINTS)
    if not isinstance(found.verdict, Refuted) or found.counterexample is None:
        return None
    return found if replays(kernel, candidate, found.counterexample) else None


def replays(kernel: Kernel, candidate: str, launch: Launch) -> bool:
    """Whether the launch, run anew on both sides and on the baseline in two orders of warps, tells them apart."""
    again = examine(reference_for(kernel, [launch], execute=default_execute()), candidate, most=1)
    return isinstance(again.verdict, Refuted)


def launches_from(kernel: Kernel, hints: Iterable[Hint], *, seed: int) -> Iterator[Launch]:
    rng = np.random.default_rng(seed)
    for number, hint in enumerate(hints):
        if number == MOST_HINTS:
            return
        for attempt in range(TRIES):
            given = dict(hint) if attempt % 2 == 0 else {**hint, **_ONE_THREAD}
            yield _launch(kernel, given, _FAMILIES[attempt % len(_FAMILIES)], rng)


def _launch(kernel: Kernel, hint: Hint, family: str, rng: np.random.Generator) -> Launch:
    grid, block = _shapes(hint, kernel, rng)
    values: list[object] = []
    places: dict[int, int] = {}
    first = 0
    for number, argument in enumerate(kernel.arguments):
        address = _pointer(argument, first, hint)
        if address is not None:
            places[number] = address
        values.append(_value(argument, first, hint, family, address or 0, rng))
        first += len(argument.fields)
    _alias(values, places, rng)
    return Launch(grid, block, tuple(values), "from a failed proof", "as the prover saw it", steps=STEPS)


def _shapes(hint: Hint, kernel: Kernel, rng: np.random.Generator) -> tuple[Shape, Shape]:
    block, grid = [], []
    left = kernel.launch_bounds.max_threads or 1024
    for axis in "xyz":
        least = hint.get(f"special:tid.{axis}", 0) + 1
        size = hint.get(f"special:ntid.{axis}", max(least, int(rng.choice((1, 2, 32))) if axis == "x" else 1))
        block.append(max(1, min(size, left)))
        left //= block[-1]
        blocks = hint.get(f"special:nctaid.{axis}", hint.get(f"special:ctaid.{axis}", 0) + 1)
        grid.append(max(1, min(blocks, MOST_BLOCKS if axis == "x" else 4)))
    return (grid[0], grid[1], grid[2]), (block[0], block[1], block[2])


def _number(hint: Hint, index: int) -> int | None:
    for width in (64, 32, 16, 8):
        value = hint.get(f"parameter:{index}:0:{width}")
        if value is not None:
            return value - (1 << width) if value >> (width - 1) else value
    return None


def _pointer(argument: Argument, first: int, hint: Hint) -> int | None:
    for k, field in enumerate(argument.fields):
        if field.role == "data":
            return _number(hint, first + k)
    return None


def _value(argument: Argument, first: int, hint: Hint, family: str, address: int, rng: np.random.Generator) -> object:
    match argument.type:
        case ScalarType(name):
            dtype, given = np.dtype(name), _number(hint, first)
            if dtype.kind not in "iu" or given is None:
                return draw(family, dtype, 1, rng)[0]
            return (
                np.array(given & ((1 << 8 * dtype.itemsize) - 1), np.uint64)
                .astype(f"u{dtype.itemsize}")
                .view(dtype)[()]
            )
        case ArrayType() as array:
            dtype, shape = np.dtype(array.dtype), _extents(argument, array, first, hint, rng)
            offset = (address % 256 if address else int(rng.integers(4)) * dtype.itemsize) // dtype.itemsize
            base = draw(family, dtype, offset + int(np.prod(shape, dtype=np.int64)), rng)
            return base[offset:].reshape(shape, order="F" if array.layout == "F" else "C")


def _extents(argument: Argument, array: ArrayType, first: int, hint: Hint, rng: np.random.Generator) -> tuple[int, ...]:
    known = {field.axis: _number(hint, first + k) for k, field in enumerate(argument.fields) if field.role == "shape"}
    if not known:
        return (BARE_ELEMENTS,) * array.ndim
    found = []
    for axis in range(array.ndim):
        extent = known.get(axis)
        if extent is None:
            extent = int(MOST_EXTENT * rng.random() ** 2)
        found.append(extent if 0 <= extent <= MOST_EXTENT else extent % MOST_EXTENT)
    return tuple(found)


def _alias(values: list[object], places: Mapping[int, int], rng: np.random.Generator) -> None:
    """Lay two arrays over each other where the hint has their pointers close by, or now and then by chance."""
    for first, second in combinations(sorted(places), 2):
        one, two = values[first], values[second]
        assert isinstance(one, np.ndarray)
        assert isinstance(two, np.ndarray)
        apart = places[second] - places[first]
        if one.itemsize == two.itemsize and abs(apart) <= MOST_EXTENT * one.itemsize:
            share(values, first, second, apart // one.itemsize)
            return
    alike = [
        (i, j)
        for i, j in combinations([k for k, v in enumerate(values) if isinstance(v, np.ndarray)], 2)
        if values[i].itemsize == values[j].itemsize  # type: ignore[attr-defined]
    ]
    if alike and rng.random() < 0.5:
        share(values, *alike[rng.integers(len(alike))], int(rng.integers(-1, 2)))
