"""One launch of a kernel, in the terms its author uses: grid, block, arrays and scalars.

Arrays of one launch may share memory (aliases, overlapping views). A copy keeps that: every buffer is
copied once, and every view is laid over the copy of its own buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from hybridcc.ptx.targets import MAX_THREADS_PER_BLOCK

Shape: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """``values`` holds one array or NumPy scalar per source-level argument.

    ``family`` is the input family it belongs to (values.py, inputs.py name them); ``note`` says in words what
    is particular about it; ``seed`` is what its values were drawn from (None for a user's own arguments);
    ``steps`` is how many instructions each thread may take on the executor (None: as many as the executor lets it).
    """

    grid: Shape
    block: Shape
    values: tuple[object, ...] = field(repr=False)
    family: str = "example"
    note: str = ""
    shared_bytes: int = 0
    seed: int | None = None
    steps: int | None = None

    @property
    def threads(self) -> int:
        return int(np.prod(self.grid, dtype=np.int64) * np.prod(self.block, dtype=np.int64))


def as_shape(value: object) -> Shape:
    """``4`` and ``(4, 2)`` as a full triple, as CUDA launches read them."""
    sizes = (value,) if isinstance(value, int | np.integer) else tuple(value)  # type: ignore[arg-type]
    if not 1 <= len(sizes) <= 3 or any(int(s) < 0 for s in sizes):
        raise ValueError(f"a grid or block has one to three non-negative sizes, not {value!r}")
    x, y, z = (*(int(s) for s in sizes), 1, 1)[:3]
    return x, y, z


def as_block(value: object) -> Shape:
    """The same for a block. Raises ValueError for more threads than a block can have."""
    block = as_shape(value)
    if block[0] * block[1] * block[2] > MAX_THREADS_PER_BLOCK:
        raise ValueError(f"a block has at most {MAX_THREADS_PER_BLOCK} threads, not {block[0] * block[1] * block[2]}")
    return block


def buffer_of(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of a view."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root


def buffers(launch: Launch) -> tuple[np.ndarray, ...]:
    """Each distinct buffer of the launch, in order of first use."""
    found: dict[int, np.ndarray] = {}
    for value in launch.values:
        if isinstance(value, np.ndarray):
            root = buffer_of(value)
            found.setdefault(id(root), root)
    return tuple(found.values())


def copy(launch: Launch) -> Launch:
    """The same launch over memory of its own, with the same sharing between its arrays."""
    fresh = {id(root): root.copy(order="K") for root in buffers(launch)}

    def move(value: object) -> object:
        if not isinstance(value, np.ndarray):
            return value
        root = buffer_of(value)
        twin = fresh[id(root)]
        if value is root:
            return twin
        offset = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return np.ndarray(value.shape, value.dtype, buffer=_bytes(twin), offset=offset, strides=value.strides)

    return replace(launch, values=tuple(move(v) for v in launch.values))


def _bytes(root: np.ndarray) -> np.ndarray:
    """The memory of an owning array as flat bytes, whatever its order."""
    flat = root if root.flags.c_contiguous else root.T
    return flat.reshape(-1).view(np.uint8)


def memory(launch: Launch) -> tuple[bytes, ...]:
    """Every byte the launch can reach through its arguments, buffer by buffer."""
    return tuple(_bytes(root).tobytes() for root in buffers(launch))


MOST_SHOWN = 4096
"""Elements of an array that are written out."""


def as_data(launch: Launch, names: Sequence[str]) -> dict[str, Any]:
    """The launch for JSON. Elements are given as the hexadecimal bytes of each argument, in C order, unless there are
    very many; arguments that share a buffer say where in it they lie."""
    arguments: list[dict[str, Any]] = []
    owners: dict[int, str] = {}
    for name, value in zip(names, launch.values, strict=True):
        told: dict[str, Any] = {"name": name}
        array = np.asarray(value)
        told |= {"dtype": str(array.dtype), "bytes": array.tobytes().hex() if array.size <= MOST_SHOWN else None}
        if isinstance(value, np.ndarray):
            root = buffer_of(value)
            told |= {"shape": list(value.shape), "strides": list(value.strides)}
            told["byte_offset"] = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
            if id(root) in owners:
                told["buffer_of"] = owners[id(root)]
            owners.setdefault(id(root), name)
        arguments.append(told)
    return {
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "family": launch.family,
        "note": launch.note,
        "seed": launch.seed,
        "arguments": arguments,
    }


def describe(launch: Launch) -> str:
    """What a person needs to make the launch again: shapes, scalars, grid, block, family and seed."""
    parts: list[str] = []
    seen: dict[int, int] = {}
    for index, value in enumerate(launch.values):
        if not isinstance(value, np.ndarray):
            parts.append(f"{value.dtype}({value})" if isinstance(value, np.generic) else repr(value))
            continue
        text = f"{value.dtype}[{','.join(map(str, value.shape))}]"
        root = buffer_of(value)
        if id(root) in seen:
            text += f" in the buffer of argument {seen[id(root)]}"
        seen.setdefault(id(root), index)
        offset = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        text += f" at byte {offset}" if offset else ""
        if not value.flags.c_contiguous:
            text += f" strides {value.strides}"
        parts.append(text)
    head = f"grid {_triple(launch.grid)}, block {_triple(launch.block)}, arguments ({', '.join(parts)})"
    tail = f", {launch.note}" if launch.note else ""
    seed = "" if launch.seed is None else f", seed {launch.seed}"
    return f"{head}, family {launch.family}{tail}{seed}"


def _triple(shape: Shape) -> str:
    return "x".join(map(str, shape))
