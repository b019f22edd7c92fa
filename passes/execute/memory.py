"""The address map: global, constant and parameter memory in one heap, shared and local memory in windows of their own.

Addresses are what a kernel sees. Global (and constant, and parameter) addresses are generic addresses; a shared or
local address is an offset within its block's or thread's own memory, and becomes generic by adding its window.
Every allocation is framed by a gap that no access may touch. Each byte of shared and local memory remembers whether
it was ever written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any

HEAP_BASE = 0x7F40_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
WINDOW_SIZE = 1 << 32
GAP = 512
"""Bytes between allocations: an access that leaves one by less than this is always seen."""
SHARED_BASE = 16
"""The first shared address handed out, so that 0 stays no address."""
LOCAL_BASE = 16

_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_WRITTEN = {1: np.uint8(1), 2: np.uint16(0x0101), 4: np.uint32(0x01010101), 8: np.uint64(0x0101010101010101)}


class Fault(Exception):
    """An access that must not happen; ``which`` is the index (into the access's lanes) of one thread that made it."""

    def __init__(self, reason: str, what: str, which: int) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.which = which


@dataclass(frozen=True, slots=True)
class Allocation:
    """A named range of the heap: offsets from its base."""

    name: str
    start: int
    size: int
    writable: bool


class Heap:
    """Global, constant and parameter memory of one launch."""

    def __init__(self) -> None:
        self._parts: list[tuple[Allocation, bytes]] = []
        self._next = GAP
        self.allocations: list[Allocation] = []
        self.last: int | None = None
        """The allocation that the latest offsets() lie in; None where they lie in several."""
        self.bytes = np.zeros(0, np.uint8)

    def allocate(self, name: str, content: bytes, alignment: int = 256, writable: bool = True, skew: int = 0) -> int:
        """Reserves a range before freeze(); its address. ``skew`` is the address modulo ``alignment``."""
        alignment = max(alignment, 1)
        start = -(-(self._next - skew) // alignment) * alignment + skew
        allocation = Allocation(name, start, len(content), writable)
        self._parts.append((allocation, content))
        self._next = start + len(content) + GAP
        return HEAP_BASE + start

    def freeze(self) -> None:
        size = -(-(self._next + GAP) // 64) * 64
        self.bytes = np.zeros(size, np.uint8)
        for allocation, content in self._parts:
            self.allocations.append(allocation)
            self.bytes[allocation.start : allocation.start + allocation.size] = np.frombuffer(content, np.uint8)
        self._starts = np.array([a.start for a in self.allocations], np.int64)
        self._ends = np.array([a.start + a.size for a in self.allocations], np.int64)
        self.views = {size: self.bytes.view(dtype) for size, dtype in _DTYPES.items()}

    def content(self, address: int, size: int) -> Array:
        start = address - HEAP_BASE
        return self.bytes[start : start + size]

    def offsets(self, address: Array, size: int, write: bool) -> Array:
        """Offsets into the heap after every check. Raises Fault."""
        offset = (np.atleast_1d(address) - np.uint64(HEAP_BASE)).view(np.int64)
        low, high = int(offset.min()), int(offset.max())
        at = int(np.searchsorted(self._starts, low, side="right")) - 1
        inside = at >= 0 and high + size <= self._ends[at]
        self.last = at if inside else None
        if inside:
            if write and not self.allocations[at].writable:
                raise Fault("READ_ONLY", f"a store to {self.allocations[at].name}, which is read-only", 0)
        else:
            self._check_each(offset, size, write)
        return offset

    def _check_each(self, offset: Array, size: int, write: bool) -> None:
        at = np.searchsorted(self._starts, offset, side="right") - 1
        bad = (at < 0) | (offset + size > self._ends[np.maximum(at, 0)])
        if bad.any():
            which = int(np.flatnonzero(bad)[0])
            raise Fault("OUT_OF_BOUNDS", self._describe(int(offset[which]), size), which)
        if write:
            for index in np.unique(at):
                if not self.allocations[index].writable:
                    which = int(np.flatnonzero(at == index)[0])
                    raise Fault("READ_ONLY", f"a store to {self.allocations[index].name}, which is read-only", which)

    def _describe(self, offset: int, size: int) -> str:
        address = f"{size} bytes at 0x{(offset + HEAP_BASE) & (2**64 - 1):x}"
        if not self.allocations:
            return f"{address}: there is no global memory"
        near = min(self.allocations, key=lambda a: max(a.start - offset, offset + size - a.start - a.size))
        beyond = offset - near.start
        return f"{address}: byte {beyond} of {near.name}, which has {near.size} bytes"


class Window:
    """Shared memory (a row per block) or local memory (a row per thread)."""

    def __init__(self, space: str, rows: int, size: int, base: int) -> None:
        self.space = space
        self.base = base
        self.size = size
        self.stride = -(-max(size, 1) // 16) * 16
        self.bytes = np.zeros(rows * self.stride, np.uint8)
        self.written = np.zeros(rows * self.stride, np.uint8)
        self.views = {n: self.bytes.view(dtype) for n, dtype in _DTYPES.items()}
        self.written_views = {n: self.written.view(dtype) for n, dtype in _DTYPES.items()}

    def offsets(self, address: Array, size: int, rows: Array) -> Array:
        """Offsets into bytes. ``address`` as the kernel sees it, unsigned; ``rows`` one per access."""
        offset = address.astype(np.int64) - self.base
        low, high = int(offset.min()), int(offset.max())
        if low < 0 or high + size > self.size:
            bad = (offset < 0) | (offset + size > self.size)
            which = int(np.flatnonzero(np.broadcast_to(bad, np.shape(rows)))[0])
            at = int(np.broadcast_to(offset, np.shape(rows))[which])
            raise Fault(
                "OUT_OF_BOUNDS", f"{size} bytes at byte {at} of {self.space} memory, which has {self.size} bytes", which
            )
        return rows * self.stride + offset


def check_alignment(address: Array, size: int) -> None:
    """Every access is aligned to its whole size, vectors included. Raises Fault."""
    if size > 1:
        crooked = (address & address.dtype.type(size - 1)) != 0
        if np.any(crooked):
            which = int(np.flatnonzero(np.atleast_1d(crooked))[0])
            at = int(np.atleast_1d(address)[which])
            raise Fault("MISALIGNED", f"{size} bytes at 0x{at:x}, which is no multiple of {size}", which)


def read(views: dict[int, Array], offset: Array, size: int, count: int) -> list[Array]:
    """``count`` elements of ``size`` bytes each, from aligned offsets."""
    view = views[size]
    index = offset >> (size.bit_length() - 1)
    return [view[index if k == 0 else index + k] for k in range(count)]


def write(views: dict[int, Array], offset: Array, size: int, values: list[Array]) -> None:
    """When several lanes write one place, the last lane wins."""
    view = views[size]
    index = offset >> (size.bit_length() - 1)
    for k, value in enumerate(values):
        view[index if k == 0 else index + k] = value


def read_checked(window: Window, offset: Array, size: int, count: int) -> list[Array]:
    """read(), refusing bytes that were never written."""
    whole = _WRITTEN[size]
    for flags in read(window.written_views, offset, size, count):
        if np.any(flags != whole):
            which = int(np.flatnonzero(np.atleast_1d(flags != whole))[0])
            raise Fault("UNINITIALISED_MEMORY", f"a read of {window.space} memory that no thread has written", which)
    return read(window.views, offset, size, count)


def write_marked(window: Window, offset: Array, size: int, values: list[Array]) -> None:
    write(window.views, offset, size, values)
    write(window.written_views, offset, size, [_WRITTEN[size]] * len(values))
