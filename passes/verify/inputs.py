"""Launches made from a plan: every trip count near zero, a warp and a block; every family of values; every way in
which arrays may lie in memory that their types allow; grids that cover too much, just enough, and too little.

All of it is a pure function of (kernel, plan, seed).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hybridcc.passes.kernel import Argument, ArrayType, Kernel, ScalarType
from hybridcc.passes.verify.launch import Launch, Shape
from hybridcc.passes.verify.plans import Plan
from hybridcc.passes.verify.values import FAMILIES, draw

TRIPS = (*range(18), 31, 32, 33)
"""Trip counts that any unrolling by 2, 4, 8 or 16 can get wrong; the block's own neighbours are added."""

LOW_BITS = 31
"""A trip count of 31 runs a loop unrolled by 16 and then, one each, remainders of 8, 4, 2 and 1."""

ALIASES = 4
"""At most so many pairs of arrays are made to share memory, in each way."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one launch is to be, before its memory exists."""

    family: str
    """The name under which it is counted."""
    values: str
    """The value family of the elements (values.py)."""
    sizes: Mapping[str, int]
    note: str = ""
    cover: str = ""
    """``partial`` or ``spare``: half the blocks, or three more than the plan's cover; else the plan's own."""
    same: tuple[int, int] | None = None
    """Two array arguments that share one buffer …"""
    shift: int = 0
    """… the second this many elements into it."""
    offset: int = 0
    """Every array begins this many elements into its buffer."""
    everywhere: bool = False
    """Arrays that the kernel writes get values of the family too; otherwise they are poisoned."""
    stride: int = 1
    """Every array of layout A takes each stride-th element; negative runs backwards."""


def requests(kernel: Kernel, plan: Plan, block: Shape) -> Iterator[Request]:
    """In an order that has something of everything early, so that a short budget still sees each family."""
    width = block[0]
    middle = middle_sizes(plan)
    wide = {size: width + LOW_BITS - 16 * i for i, size in enumerate(plan.sizes)}
    groups = [
        list(_trips(plan, width, middle)),
        [Request(f"values {f}", f, middle, everywhere=True) for f in FAMILIES]
        + [Request("negative index", "negative index", middle)]
        + [Request(f"values {f}", f, wide) for f in FAMILIES],
        list(_aliases(kernel, middle)),
        [
            Request("misaligned", "signed", middle, f"arrays {k} elements into their buffers", offset=k)
            for k in (1, 2, 3)
        ],
        list(_strides(kernel, middle)),
        list(_grids(plan, middle, width)),
    ]
    for row in itertools.zip_longest(*groups):
        yield from (request for request in row if request is not None)


def middle_sizes(plan: Plan) -> dict[str, int]:
    """An ordinary size for each free one, all different, each with every remainder loop of an unrolling in it."""
    return {size: LOW_BITS + 16 * i for i, size in enumerate(plan.sizes)}


def _trips(plan: Plan, width: int, middle: Mapping[str, int]) -> Iterator[Request]:
    counts = [*TRIPS, *(t for t in (width - 1, width, width + 1, 2 * width + 1) if t > TRIPS[-1])]
    for count in counts:
        for index, size in enumerate(plan.sizes):
            values = "random" if (count + index) % 2 else "signed"
            yield Request("sizes", values, {**middle, size: count}, f"{size} = {count}")


def _aliases(kernel: Kernel, middle: Mapping[str, int]) -> Iterator[Request]:
    arrays = [(i, a.type) for i, a in enumerate(kernel.arguments) if isinstance(a.type, ArrayType)]
    pairs = [(i, j) for (i, s), (j, t) in itertools.combinations(arrays, 2) if s.dtype == t.dtype]
    for pair in pairs[:ALIASES]:
        yield Request("aliased", "signed", middle, "one buffer for two arguments", same=pair)
        for shift in (1, -1):
            yield Request("overlapping", "signed", middle, "overlapping views", same=pair, shift=shift)


def _strides(kernel: Kernel, middle: Mapping[str, int]) -> Iterator[Request]:
    if any(isinstance(a.type, ArrayType) and a.type.layout == "A" for a in kernel.arguments):
        yield Request("strided", "signed", middle, "every second element", stride=2)
        yield Request("strided", "random", middle, "backwards", stride=-1)


def _grids(plan: Plan, middle: Mapping[str, int], width: int) -> Iterator[Request]:
    if plan.cover != "exact":
        yield Request("grid", "signed", middle, "three blocks too many", "spare")
    wide = {size: 2 * width + 3 + i for i, size in enumerate(plan.sizes)}
    yield Request("grid", "random", wide, "half the blocks", "partial")


def make(
    kernel: Kernel,
    plan: Plan,
    request: Request,
    block: Shape,
    grid: Shape,
    seed: int,
    written: frozenset[int] = frozenset(),
    shared_bytes: int = 0,
) -> Launch:
    """The launch itself. ``grid`` is used where the plan covers nothing (``as given``).

    Arguments in ``written`` are poisoned: their elements are never the special values of the family, but bits that
    a kernel which forgets to write would leave behind.
    """
    rng = np.random.default_rng([seed, _stable_number(request.family), _stable_number(request.values)])
    shapes = [tuple(e.at(request.sizes) for e in extents) for extents in plan.extents]
    bound = min((n for shape in shapes for n in shape if n > 0), default=1)
    values: list[object] = []
    for index, (argument, shape) in enumerate(zip(kernel.arguments, shapes, strict=True)):
        family = "signed" if index in written and not request.everywhere else request.values
        values.append(_value(argument, shape, family, request, bound, rng))
    if request.same:
        _share(values, *request.same, request.shift)
    grid, block = _grid(plan, request, block, grid)
    return Launch(grid, block, tuple(values), request.family, _note(request), shared_bytes, seed)


def _note(request: Request) -> str:
    sizes = ", ".join(f"{k}={v}" for k, v in request.sizes.items())
    return f"{request.note} ({sizes})" if request.note else f"({sizes})"


def _stable_number(text: str) -> int:
    return int.from_bytes(text.encode(), "little") % (1 << 61)


def _value(
    argument: Argument, shape: tuple[int, ...], family: str, request: Request, bound: int, rng: np.random.Generator
) -> object:
    match argument.type:
        case ScalarType(dtype):
            if shape:
                return np.dtype(dtype).type(min(shape[0], np.iinfo(dtype).max))
            return draw(family, np.dtype(dtype), 1, rng, extent=bound)[0]
        case ArrayType() as array:
            return _array(array, shape, family, request, bound, rng)


def _array(
    array: ArrayType, shape: tuple[int, ...], family: str, request: Request, bound: int, rng: np.random.Generator
) -> np.ndarray:
    dtype = np.dtype(array.dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if array.layout == "A" and request.stride != 1 and shape:
        step = abs(request.stride)
        wide = draw(family, dtype, count * step, rng, extent=bound).reshape(*shape[:-1], shape[-1] * step)
        return wide[..., :: request.stride]
    base = draw(family, dtype, request.offset + count, rng, extent=bound)
    return base[request.offset :].reshape(shape, order="F" if array.layout == "F" else "C")


def _share(values: list[object], first: int, second: int, shift: int) -> None:
    """Lay argument ``second`` over the buffer of ``first``, ``shift`` elements on; both keep their shapes."""
    one, two = values[first], values[second]
    assert isinstance(one, np.ndarray)
    assert isinstance(two, np.ndarray)
    before = max(0, -shift)
    count = max(before + one.size, before + shift + two.size)
    base = np.resize(np.concatenate([one.ravel(order="K"), two.ravel(order="K")]), count)
    if one.size + two.size == 0:
        base = np.zeros(count, one.dtype)
    values[first] = _view(base, before, one)
    values[second] = _view(base, before + shift, two)


def _view(base: np.ndarray, start: int, like: np.ndarray) -> np.ndarray:
    order = "F" if like.flags.f_contiguous and not like.flags.c_contiguous else "C"
    return base[start : start + like.size].reshape(like.shape, order=order)


def _grid(plan: Plan, request: Request, block: Shape, grid: Shape) -> tuple[Shape, Shape]:
    if plan.cover == "as given":
        return grid, block
    threads = [max(1, extent.at(request.sizes)) for extent in plan.threads] + [1, 1, 1]
    if plan.cover == "exact":
        exact = tuple(min(1024, t) for t in threads[:3])
        return (1, 1, 1), exact  # type: ignore[return-value]
    blocks = [-(-t // b) for t, b in zip(threads[:3], block, strict=True)]
    if request.cover == "spare":
        blocks[0] += 3
    elif request.cover == "partial":
        blocks = [max(1, b // 2) for b in blocks]
    return (blocks[0], blocks[1], blocks[2]), block


def pilot(plan: Plan, sizes: Mapping[str, int] | None = None) -> Request:
    """A small launch with ordinary values, to see whether the kernel accepts a plan."""
    return Request("pilot", "random", sizes or middle_sizes(plan))


def affordable(example: Launch, most_threads: int = 1 << 14) -> Launch | None:
    """The example as it stands if the executor can run it in about a second, else None."""
    elements = sum(v.size for v in example.values if isinstance(v, np.ndarray))
    return replace(example, family="example") if example.threads <= most_threads and elements <= 1 << 20 else None
