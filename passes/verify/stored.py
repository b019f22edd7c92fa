"""A launch as an ``.npz`` file, with the sharing between its arrays.

``grid``, ``block``, ``shared_bytes``; ``arg<i>`` or the argument's own name for each value. An array that shares its
buffer, or is a view, is kept as ``view<i>`` (JSON: buffer, offset, dtype, shape, strides) into ``buffer<k>`` (bytes).
"""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, buffer_of, buffers, memory


def to_bytes(launch: Launch) -> bytes:
    held: dict[str, Any] = {
        "grid": np.array(launch.grid),
        "block": np.array(launch.block),
        "shared_bytes": np.int64(launch.shared_bytes),
    }
    roots = buffers(launch)
    number = {id(root): k for k, root in enumerate(roots)}
    users = Counter(number[id(buffer_of(v))] for v in launch.values if isinstance(v, np.ndarray))
    for index, value in enumerate(launch.values):
        if not isinstance(value, np.ndarray):
            held[f"arg{index}"] = np.asarray(value)
            continue
        k = number[id(buffer_of(value))]
        if value is roots[k] and users[k] == 1:
            held[f"arg{index}"] = value
            continue
        offset = value.__array_interface__["data"][0] - roots[k].__array_interface__["data"][0]
        view = {"buffer": k, "offset": offset, "dtype": value.dtype.str, "shape": value.shape, "strides": value.strides}
        held[f"view{index}"] = np.array(json.dumps(view, sort_keys=True))
        held[f"buffer{k}"] = np.frombuffer(memory(launch)[k], np.uint8)
    out = io.BytesIO()
    np.savez(out, **held)
    return out.getvalue()


def read(path: Path, kernel: Kernel) -> tuple[Any, Any, tuple[Any, ...], int]:
    """(grid, block, values, shared bytes). Raises InputError."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise InputError(f"not an .npz of plain arrays: {error}", where=str(path)) from None
    if "grid" not in held or "block" not in held:
        raise InputError("holds no 'grid' and 'block'", where=str(path), next_step="save them beside the arguments")
    values = tuple(_value(held, index, a.name, path) for index, a in enumerate(kernel.arguments))
    return held["grid"].tolist(), held["block"].tolist(), values, int(held.get("shared_bytes", np.int64(0)))


def _value(held: dict[str, np.ndarray], index: int, name: str, path: Path) -> Any:
    if f"view{index}" in held:
        return _view(held, str(held[f"view{index}"]), path)
    value = held.get(name, held.get(f"arg{index}"))
    if value is None:
        raise InputError(f"holds neither {name!r} nor 'arg{index}'", where=str(path))
    return value[()] if value.ndim == 0 else value


def _view(held: dict[str, np.ndarray], text: str, path: Path) -> np.ndarray:
    try:
        view = json.loads(text)
        buffer = held[f"buffer{view['buffer']}"]
        return np.ndarray(view["shape"], view["dtype"], buffer, view["offset"], view["strides"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"holds a view that does not fit its buffer: {error}", where=str(path)) from None
