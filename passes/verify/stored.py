"""A launch as an ``.npz`` file, with the sharing between its arrays.

``grid``, ``block``, ``shared_bytes``; ``arg<i>`` or the argument's own name for each value, and, where the kernel is
known, ``param<i>`` for each PTX parameter, so that the bare PTX can be run on it too. An array that shares its buffer,
or is a view, is kept as ``arg<i>.view`` (JSON: buffer, offset, dtype, shape, strides) into ``buffer<k>`` (bytes).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import InputError
from hybridcc.passes.arguments import flatten
from hybridcc.passes.kernel import Argument, Kernel
from hybridcc.passes.verify.launch import Launch, buffer_of, buffers, memory

BARE = "ptx"
"""The frontend of kernels whose arguments are their PTX parameters."""


def to_bytes(launch: Launch, arguments: Sequence[Argument] = ()) -> bytes:
    """The file's content; ``arguments`` are the kernel's."""
    held: dict[str, Any] = {
        "grid": np.array(launch.grid),
        "block": np.array(launch.block),
        "shared_bytes": np.int64(launch.shared_bytes),
    }
    held |= _values(launch, "arg", launch.values, whole=True)
    if arguments:
        held |= _values(launch, "param", flatten(arguments, launch.values, _from_there_on), whole=False)
    if any(name.endswith(".view") for name in held):
        held |= {f"buffer{k}": np.frombuffer(content, np.uint8) for k, content in enumerate(memory(launch))}
    out = io.BytesIO()
    np.savez(out, **held)
    return out.getvalue()


def _values(launch: Launch, prefix: str, values: Sequence[object], *, whole: bool) -> dict[str, Any]:
    """``whole`` lets an array that has its buffer to itself stand as it is."""
    roots = buffers(launch)
    number = {id(root): k for k, root in enumerate(roots)}
    users = Counter(number[id(buffer_of(v))] for v in values if isinstance(v, np.ndarray))
    held: dict[str, Any] = {}
    for index, value in enumerate(values):
        if not isinstance(value, np.ndarray):
            held[f"{prefix}{index}"] = np.asarray(value)
            continue
        k = number[id(buffer_of(value))]
        if whole and users[k] == 1 and value.nbytes == roots[k].nbytes and value.flags.forc:
            held[f"{prefix}{index}"] = value
            continue
        view = {
            "buffer": k,
            "offset": _offset(value),
            "dtype": value.dtype.str,
            "shape": value.shape,
            "strides": value.strides,
        }
        held[f"{prefix}{index}.view"] = np.array(json.dumps(view, sort_keys=True))
    return held


def _from_there_on(array: np.ndarray) -> np.ndarray:
    """From an array's first element to the end of its buffer: what a bare pointer to it may reach."""
    root = buffer_of(array)
    offset = _offset(array)
    count = (root.nbytes - offset) // array.itemsize
    flat = root.reshape(-1, order="A").view(np.uint8)
    return np.ndarray((count,), array.dtype, flat, offset)


def _offset(array: np.ndarray) -> int:
    root = buffer_of(array)
    return array.__array_interface__["data"][0] - root.__array_interface__["data"][0]


def read(path: Path, kernel: Kernel) -> tuple[Any, Any, tuple[Any, ...], int]:
    """(grid, block, values, shared bytes). Raises InputError."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = "it holds pickled objects, or is no .npz" if "pickle" in str(error) else error
        raise InputError(
            f"not an .npz of plain arrays: {reason}", where=str(path), next_step="write it with numpy.savez"
        ) from None
    if "grid" not in held or "block" not in held:
        raise InputError("holds no 'grid' and 'block'", where=str(path), next_step="save them beside the arguments")
    bare = kernel.frontend == BARE and any(name.startswith("param") for name in held)
    prefix = "param" if bare else "arg"
    values = tuple(_value(held, f"{prefix}{i}", a.name, path) for i, a in enumerate(kernel.arguments))
    return held["grid"].tolist(), held["block"].tolist(), values, int(held.get("shared_bytes", np.int64(0)))


def _value(held: dict[str, np.ndarray], key: str, name: str, path: Path) -> Any:
    if f"{key}.view" in held:
        return _view(held, str(held[f"{key}.view"]), path)
    value = held.get(name, held.get(key))
    if value is None:
        raise InputError(
            f"holds neither {name!r} nor {key!r}", where=str(path), next_step=f"save the argument under {name!r}"
        )
    return value[()] if value.ndim == 0 else value


def _view(held: dict[str, np.ndarray], text: str, path: Path) -> np.ndarray:
    try:
        view = json.loads(text)
        buffer = held[f"buffer{view['buffer']}"]
        return np.ndarray(view["shape"], view["dtype"], buffer, view["offset"], view["strides"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"holds a view that does not fit its buffer: {error}", where=str(path), next_step="build again"
        ) from None
