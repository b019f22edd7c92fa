"""Where two memories first differ, in the words of the kernel's author."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, buffer_of, buffers


def without_payloads(memory: Sequence[bytes]) -> list[bytes]:
    """Each aligned 32-bit word that is an f32 NaN replaced by the canonical one."""
    changed: list[bytes] = []
    for content in memory:
        whole = len(content) // 4 * 4
        words = np.frombuffer(content, np.uint32, whole // 4).copy()
        words[(words & 0x7FFFFFFF) > 0x7F800000] = 0x7FFFFFFF
        changed.append(words.tobytes() + content[whole:])
    return changed


def first_difference(kernel: Kernel, launch: Launch, left: Sequence[bytes], right: Sequence[bytes]) -> str:
    """``y[3] is 1.5 (0x3fc00000) in the baseline and …``; the memories must differ."""
    for root, mine, theirs in zip(buffers(launch), left, right, strict=True):
        if mine == theirs:
            continue
        places = np.flatnonzero(np.frombuffer(mine, np.uint8) != np.frombuffer(theirs, np.uint8))
        index, array = next(
            (i, v) for i, v in enumerate(launch.values) if isinstance(v, np.ndarray) and buffer_of(v) is root
        )
        element = int(places[0]) // array.itemsize
        differing = len(np.unique(places // array.itemsize))
        name = kernel.arguments[index].name or f"argument {index}"
        begin = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        place = f"{name}{_index(array, root, element, begin)}"
        pair = " and ".join(
            f"{_show(data, array.dtype, element)} in the {side}"
            for data, side in ((mine, "baseline"), (theirs, "candidate"))
        )
        return f"{place} is {pair}; {differing} element{'s differ' if differing != 1 else ' differs'}"
    raise ValueError("the memories are equal")


def _index(array: np.ndarray, root: np.ndarray, element: int, begin: int) -> str:
    if array.flags.c_contiguous and array.size and 0 <= element - begin // array.itemsize < array.size:
        at = np.unravel_index(element - begin // array.itemsize, array.shape)
        return f"[{', '.join(str(int(i)) for i in at)}]"
    return f" (element {element} of its buffer)"


def _show(data: bytes, dtype: np.dtype, element: int) -> str:
    raw = data[element * dtype.itemsize : (element + 1) * dtype.itemsize]
    return f"{np.frombuffer(raw, dtype)[0]} (0x{raw[::-1].hex()})"
