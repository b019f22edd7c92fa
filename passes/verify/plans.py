"""Plans: how the sizes of a kernel's arguments hang together, so that launches made from them stay in bounds.

A kernel's contract between its extents (``x`` holds at least ``y + w - 1`` elements) is written nowhere. Given an
example launch it is read off the example's own sizes; without one, plans are guessed and the baseline is asked on
the executor which of them it accepts (``testing.py``). Either way the extents become linear expressions over a few
free sizes, and every trip count from 0 on can be tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from hybridcc.passes.kernel import ArrayType, Kernel, ScalarType
from hybridcc.passes.verify.launch import Launch

Cover: TypeAlias = Literal["over", "exact", "as given"]

MOST_GUESSES = 96
SMALL = 4
"""Example extents up to this are taken for structure (a point's x, y, z), not for a size."""


@dataclass(frozen=True, slots=True)
class Extent:
    """``constant + sum of coefficient * size + product of two sizes``; never below 0."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0
    product: tuple[str, str] | None = None

    def at(self, sizes: Mapping[str, int]) -> int:
        total = self.constant + sum(c * sizes[s] for s, c in self.terms)
        if self.product:
            total += sizes[self.product[0]] * sizes[self.product[1]]
        return max(0, total)

    def __str__(self) -> str:
        pieces = [s if c == 1 else f"{c}*{s}" for s, c in self.terms]
        pieces += ["*".join(self.product)] if self.product else []
        pieces += [str(self.constant)] if self.constant or not pieces else []
        return " + ".join(pieces)


@dataclass(frozen=True, slots=True)
class Plan:
    """``extents[i]`` holds one Extent per dimension of array argument i, one for an integer scalar, none else.

    ``threads`` are the extents that the grid covers along x, y, z; ``cover`` says how: ``over`` with whole blocks
    and some to spare, ``exact`` with not one thread more, ``as given`` with the example's own grid.
    """

    sizes: tuple[str, ...]
    extents: tuple[tuple[Extent, ...], ...]
    threads: tuple[Extent, ...]
    cover: Cover
    origin: Literal["types", "example"]

    def __str__(self) -> str:
        return "; ".join(",".join(map(str, e)) for e in self.extents if e)


def slots(kernel: Kernel) -> tuple[int, ...]:
    """How many extents each argument asks for: its dimensions, 1 for an integer scalar, 0 for another scalar."""
    counts = []
    for argument in kernel.arguments:
        match argument.type:
            case ArrayType(ndim=ndim):
                counts.append(ndim)
            case ScalarType(dtype):
                counts.append(1 if np.dtype(dtype).kind in "iu" else 0)
    return tuple(counts)


def guesses(kernel: Kernel, axes: int, seed: int = 0) -> Iterator[Plan]:
    """Plans from types alone, simplest first, at most MOST_GUESSES assignments, each with both covers."""
    n, m = Extent((("n", 1),)), Extent((("m", 1),))
    both = Extent((("n", 1), ("m", 1)))
    counts = slots(kernel)
    total = sum(counts)
    if 3**total <= MOST_GUESSES:
        assignments = sorted(itertools.product((n, m, both), repeat=total), key=_simplicity)
    else:
        rng = np.random.default_rng(seed)
        drawn = {tuple(int(c) for c in rng.integers(0, 3, total)) for _ in range(4 * MOST_GUESSES)}
        drawn = {(0,) * total, *drawn}
        assignments = sorted((tuple((n, m, both)[c] for c in code) for code in drawn), key=_simplicity)
        assignments = [assignments[0], *_spread(assignments[1:], MOST_GUESSES - 1)]
    for cover in ("over", "exact"):
        for assignment in assignments:
            threads = (both,) * axes if cover == "over" else (n,) * axes
            yield Plan(("n", "m"), _split(assignment, counts), threads, cover, "types")


def _simplicity(assignment: tuple[Extent, ...]) -> tuple[int, str]:
    return len(set(assignment)), " ".join(map(str, assignment))


def _spread(items: list[tuple[Extent, ...]], count: int) -> list[tuple[Extent, ...]]:
    step = max(1, len(items) // count)
    return items[::step][:count]


def _split(flat: tuple[Extent, ...], counts: tuple[int, ...]) -> tuple[tuple[Extent, ...], ...]:
    rest = iter(flat)
    return tuple(tuple(itertools.islice(rest, count)) for count in counts)


def from_example(kernel: Kernel, example: Launch, *, loose: bool = False) -> Plan:
    """The plan whose sizes at some point give the example: equal extents stay equal, sums stay sums.

    Products, multiples and small offsets are kept too unless ``loose``: such a relation may be the kernel's contract
    or a coincidence of round numbers, and only a run can tell.
    """
    per_argument = [_example_extents(value) for value in example.values]
    counts = slots(kernel)
    numbers = [numbers[:count] for numbers, count in zip(per_argument, counts, strict=True)]
    distinct = sorted({number for group in numbers for number in group})
    known: dict[int, Extent] = {}
    names = iter("nmkpqrstuvw")
    free: list[str] = []
    named: dict[int, str] = {}
    for number in distinct:
        relation = Extent(constant=number) if number <= SMALL else _relation(number, named, loose)
        if relation is None:
            name = next(names, None)
            relation = Extent(constant=number) if name is None else Extent(((name, 1),))
            if name is not None:
                free.append(name)
                named[number] = name
        known[number] = relation
    threads, cover = _threads(example, distinct, known)
    extents = tuple(tuple(known[number] for number in group) for group in numbers)
    return Plan(tuple(free), extents, threads, cover, "example")


def _example_extents(value: object) -> tuple[int, ...]:
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_):
        return (max(0, int(value)),)
    return ()


def _relation(number: int, named: Mapping[int, str], loose: bool) -> Extent | None:
    """``number`` from smaller sizes: a sum give or take one, a product, a small offset, a multiple."""
    sizes = sorted(named, reverse=True)
    for first, second in itertools.combinations(sizes, 2):
        if abs(number - first - second) <= 1:
            return Extent(((named[first], 1), (named[second], 1)), number - first - second)
    if loose:
        return None
    for first, second in itertools.combinations_with_replacement(sizes, 2):
        if number == first * second:
            return Extent(product=(named[first], named[second]))
    for size in sizes:
        if size >= 8 * (number - size):
            return Extent(((named[size], 1),), number - size)
    for size in sizes:
        if number % size == 0 and 1 < number // size <= 64:
            return Extent(((named[size], number // size),))
    return None


def _threads(example: Launch, distinct: list[int], known: Mapping[int, Extent]) -> tuple[tuple[Extent, ...], Cover]:
    """The extent that the example's grid covers along each axis, if there is one for every axis in use."""
    found: list[Extent] = []
    for grid, block in zip(example.grid, example.block, strict=True):
        if grid * block == 1:
            break
        fitting = [number for number in distinct if number > SMALL and -(-number // block) == grid]
        if not fitting:
            return (), "as given"
        found.append(known[fitting[-1]])
    return (tuple(found), "over") if found else ((), "as given")
