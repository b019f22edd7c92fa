"""Launches made from a plan: every trip count near zero, a warp and a block; every family of values; every way in
which arrays may lie in memory that their types allow; grids that cover too much, just enough, and too little.

All of it is a pure function of (kernel, plan, seed).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from hybridcc.passes.kernel import Argument, ArrayType, Kernel, ScalarType
from hybridcc.passes.verify.launch import Launch, Shape
from hybridcc.passes.verify.plans import Plan
from hybridcc.passes.verify.values import FAMILIES, draw
from hybridcc.ptx.targets import MAX_THREADS_PER_BLOCK

TRIPS = (*range(18), 31, 32, 33)
"""Trip counts that any unrolling by 2, 4, 8 or 16 can get wrong; the block's own neighbours are added."""

MOST_RANDOM = 72
"""Sizes drawn at random lie below this, small ones more often: two trips and a remainder of a loop unrolled by 32."""

LOW_BITS = 31
"""A trip count of 31 runs a loop unrolled by 16 and then, one each, remainders of 8, 4, 2 and 1."""

ALIASES = 4
"""At most so many pairs of arrays are made to share memory, in each way: first those with an array that is written."""

FREE_SCALARS = 3
"""At most so many integer scalars are given values that are no size: negative, and past 32 bits."""

STEPS = 5_000_000
STEPS_OF_ODD_SCALAR = 50_000
"""Instructions per thread after which a launch made here is left out. A trip count past 32 bits is such a launch; where
the same scalar is a factor or an offset, few steps suffice."""

View: TypeAlias = Literal["", "every second element", "backwards", "padded", "transposed", "upside down"]
"""How an array of layout A lies in its buffer: whole, or as the view that NumPy users would make."""


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
    view: View = ""
    """Of every array of layout A that has the axes for it."""
    scalar: tuple[int, int] | None = None
    """An integer argument and the value that it takes in place of its size."""
    block: Shape | None = None
    """In place of the usual one."""


def requests(kernel: Kernel, plan: Plan, block: Shape, written: frozenset[int] = frozenset()) -> Iterator[Request]:
    """In an order that has something of everything early, so that a short budget still sees each family."""
    width = block[0]
    middle = middle_sizes(plan)
    wide = {size: width + LOW_BITS - 16 * i for i, size in enumerate(plan.sizes)}
    groups = [
        list(_trips(plan, width, middle)),
        [Request(f"values {f}", f, middle, everywhere=True) for f in FAMILIES]
        + [Request("negative index", "negative index", middle)]
        + [Request(f"values {f}", f, wide) for f in FAMILIES],
        list(_aliases(kernel, middle, written)),
        [
            Request("misaligned", "signed", middle, f"arrays {k} elements into their buffers", offset=k)
            for k in (1, 2, 3)
        ],
        list(_views(kernel, middle)),
        list(_scalars(kernel, middle)),
        list(_blocks(kernel, plan, middle, block)),
        list(_grids(plan, middle, width)),
    ]
    for row in itertools.zip_longest(*groups):
        yield from (request for request in row if request is not None)


def random_request(
    kernel: Kernel,
    plan: Plan,
    block: Shape,
    written: frozenset[int],
    rng: np.random.Generator,
    *,
    free_block: bool,
) -> Request:
    """Anything that ``requests`` would vary, varied at once; ``free_block`` lets the block's width vary too."""
    sizes = {size: int(MOST_RANDOM * rng.random() ** 2) for size in plan.sizes}
    family = str(rng.choice(("random", "signed", *FAMILIES)))
    request = Request("at random", family, sizes, everywhere=bool(rng.integers(2)), offset=int(rng.integers(4)))
    sharing = list(_aliases(kernel, sizes, written))
    if sharing and rng.random() < 0.2:
        chosen = sharing[rng.integers(len(sharing))]
        request = replace(request, same=chosen.same, shift=chosen.shift, offset=0)
    if free_block and plan.cover != "exact" and rng.random() < 0.3:
        request = replace(request, block=(int(rng.integers(1, 2 * block[0] + 1)), block[1], block[2]))
    return request


def middle_sizes(plan: Plan) -> dict[str, int]:
    """An ordinary size for each free one, all different, each with every remainder loop of an unrolling in it."""
    return {size: LOW_BITS + 16 * i for i, size in enumerate(plan.sizes)}


def _trips(plan: Plan, width: int, middle: Mapping[str, int]) -> Iterator[Request]:
    counts = [*TRIPS, *(t for t in (width - 1, width, width + 1, 2 * width + 1) if t > TRIPS[-1])]
    for count in counts:
        for index, size in enumerate(plan.sizes):
            values = "random" if (count + index) % 2 else "signed"
            yield Request("sizes", values, {**middle, size: count}, f"{size} = {count}")


def _aliases(kernel: Kernel, middle: Mapping[str, int], written: frozenset[int]) -> Iterator[Request]:
    """Arrays of one element size may share memory, whatever their types: a NumPy view makes them."""
    arrays = [(i, np.dtype(a.type.dtype)) for i, a in enumerate(kernel.arguments) if isinstance(a.type, ArrayType)]
    pairs = [
        (written.isdisjoint((i, j)), s != t, (i, j))
        for (i, s), (j, t) in itertools.combinations(arrays, 2)
        if s.itemsize == t.itemsize
    ]
    for _, _, pair in sorted(pairs)[:ALIASES]:
        yield Request("aliased", "signed", middle, "one buffer for two arguments", same=pair)
        for shift in (1, -1):
            yield Request("overlapping", "signed", middle, "overlapping views", same=pair, shift=shift)


def _views(kernel: Kernel, middle: Mapping[str, int]) -> Iterator[Request]:
    axes = [a.type.ndim for a in kernel.arguments if isinstance(a.type, ArrayType) and a.type.layout == "A"]
    if not axes:
        return
    views: tuple[View, ...] = ("every second element", "backwards", "padded", "transposed", "upside down")
    for view in views if max(axes) > 1 else views[:2]:
        yield Request("strided", "random" if view == "backwards" else "signed", middle, view, view=view)


def _scalars(kernel: Kernel, middle: Mapping[str, int]) -> Iterator[Request]:
    """An integer may be negative, as large as its type, and other than its low 32 bits: as a trip count too."""
    types = [(i, np.dtype(a.type.dtype)) for i, a in enumerate(kernel.arguments) if isinstance(a.type, ScalarType)]
    free = [(i, np.iinfo(dtype)) for i, dtype in types if dtype.kind in "iu"][:FREE_SCALARS]
    for index, info in free:
        for value in (-1, (1 << 32) + 3, 3 - (1 << 32), int(info.max), int(info.min)):
            if info.min <= value <= info.max and value != 0:
                note = f"{kernel.arguments[index].name} = {value}"
                yield Request("scalars", "random", middle, note, scalar=(index, value))


def _blocks(kernel: Kernel, plan: Plan, middle: Mapping[str, int], block: Shape) -> Iterator[Request]:
    """Blocks of other sizes, where the kernel leaves the choice: a rewrite may not take one for granted."""
    if plan.cover == "exact" or ".reqntid" in kernel.ptx:
        return
    width = block[0]
    most = (kernel.launch_bounds.max_threads or MAX_THREADS_PER_BLOCK) // (block[1] * block[2])
    several = {size: 2 * width + 3 + i for i, size in enumerate(plan.sizes)}
    for other, sizes, cover in ((2 * width, middle, ""), (width - 1, middle, ""), (width // 2, several, "partial")):
        if 0 < other <= most:
            shape: Shape = (other, block[1], block[2])
            yield Request("block", "random", sizes, f"{other} threads along x", cover, block=shape)


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
        share(values, *request.same, request.shift)
    if request.scalar:
        place, number = request.scalar
        scalar = kernel.arguments[place].type
        assert isinstance(scalar, ScalarType)
        values[place] = np.dtype(scalar.dtype).type(number)
    grid, block = _grid(plan, request, request.block or block, grid)
    steps = STEPS_OF_ODD_SCALAR if request.scalar else STEPS
    return Launch(grid, block, tuple(values), request.family, _note(request), shared_bytes, seed, steps)


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
    if array.layout == "A" and request.view and shape:
        return _viewed(request.view, shape, lambda size: draw(family, dtype, size, rng, extent=bound))
    base = draw(family, dtype, request.offset + count, rng, extent=bound)
    return base[request.offset :].reshape(shape, order="F" if array.layout == "F" else "C")


def _viewed(view: View, shape: tuple[int, ...], elements: Callable[[int], np.ndarray]) -> np.ndarray:
    """An array of ``shape`` that is a view of a buffer with more in it, or in another order."""

    def whole(*extents: int) -> np.ndarray:
        return elements(int(np.prod(extents, dtype=np.int64))).reshape(extents)

    match view:
        case "every second element":
            return whole(*shape[:-1], 2 * shape[-1])[..., ::2]
        case "padded":
            return whole(*shape[:-1], shape[-1] + 3)[..., : shape[-1]]
        case "transposed":
            return whole(*shape[::-1]).T
        case "backwards":
            return whole(*shape)[..., ::-1]
        case "upside down":
            return whole(*shape)[::-1]
        case "":
            return whole(*shape)


def share(values: list[object], first: int, second: int, shift: int) -> None:
    """Lay argument ``second`` over the buffer of ``first``, ``shift`` elements on; both keep their shapes."""
    one, two = values[first], values[second]
    assert isinstance(one, np.ndarray)
    assert isinstance(two, np.ndarray)
    before = max(0, -shift)
    count = max(before + one.size, before + shift + two.size)
    other = np.ascontiguousarray(two.ravel(order="K")).view(one.dtype)
    base = np.resize(np.concatenate([one.ravel(order="K"), other]), count)
    if one.size + two.size == 0:
        base = np.zeros(count, one.dtype)
    values[first] = _view(base, before, one)
    values[second] = _view(base.view(two.dtype), before + shift, two)


def _view(base: np.ndarray, start: int, like: np.ndarray) -> np.ndarray:
    order = "F" if like.flags.f_contiguous and not like.flags.c_contiguous else "C"
    return base[start : start + like.size].reshape(like.shape, order=order)


def _grid(plan: Plan, request: Request, block: Shape, grid: Shape) -> tuple[Shape, Shape]:
    if plan.cover == "as given":
        return grid, block
    threads = [max(1, extent.at(request.sizes)) for extent in plan.threads] + [1, 1, 1]
    if plan.cover == "exact":
        return (1, 1, 1), _one_block(threads[0], threads[1], threads[2])
    blocks = [-(-t // b) for t, b in zip(threads[:3], block, strict=True)]
    if request.cover == "spare":
        blocks[0] += 3
    elif request.cover == "partial":
        blocks = [max(1, b // 2) for b in blocks]
    return (blocks[0], blocks[1], blocks[2]), block


def _one_block(x: int, y: int, z: int) -> Shape:
    """A block of that shape, cut off along its later axes first where no block is so large."""
    x = min(x, MAX_THREADS_PER_BLOCK)
    y = min(y, MAX_THREADS_PER_BLOCK // x)
    return x, y, min(z, MAX_THREADS_PER_BLOCK // (x * y))


def pilot(plan: Plan, sizes: Mapping[str, int] | None = None) -> Request:
    """A small launch with ordinary values, to see whether the kernel accepts a plan."""
    return Request("pilot", "random", sizes or middle_sizes(plan))


def affordable(example: Launch, most_threads: int = 1 << 14) -> Launch | None:
    """The example as it stands if the executor can run it in about a second, else None."""
    elements = sum(v.size for v in example.values if isinstance(v, np.ndarray))
    return replace(example, family="example") if example.threads <= most_threads and elements <= 1 << 20 else None
