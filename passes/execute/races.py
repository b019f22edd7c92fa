"""Data races: two accesses to one place by different threads, at least one a write, not both atomic, unordered.

Order comes from three things (PTX ISA 9.0, chapter 8): a barrier orders what the threads of a block did before and
after it; bar.warp.sync does so for a warp; and a release (an atomic or volatile write behind a fence, or one that
says .release) orders what its block did before against what another block does after it has read that place.

A place is as large as the smallest access of the kernel, a byte or a word. Each remembers its last writer and three
readers: the last one, one of another warp, and one more of the last one's warp. That is enough to see any race of a
write with the reads since the last barrier; of reads that lie further back some may be forgotten. Releases are kept by
block, not by thread: of two unordered accesses round a release a race may go unseen, but none is reported that is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridcc.passes.execute.memory import Fault

Array = Any
NOBODY = np.int32(-1)
_SPACES = (".global", ".shared")
_MOST_BLOCKS = 4096
"""With more, what a release orders is not kept: after one, accesses of different blocks count as ordered."""

# a stamp: epoch of the block (22 bits), epoch of the warp (22 bits), number of the instruction (18 bits), atomic (1)
_WARP_SHIFT, _BLOCK_SHIFT = 19, 41
_EPOCHS, _LINES = (1 << 22) - 1, (1 << 18) - 1


class Silent:
    """The watch that watches nothing."""

    active = False

    def read(self, frame: Any, lanes: Any, space: str, offset: Any, size: int, atomic: bool) -> None: ...
    def write(self, frame: Any, lanes: Any, space: str, offset: Any, size: int, atomic: bool) -> None: ...
    def atomic(self, frame: Any, lanes: Any, space: str, offset: Any, size: int) -> None: ...
    def warp_sync(self, warps: Any) -> None: ...
    def fence(self, frame: Any, lanes: Any) -> None: ...


@dataclass(slots=True)
class _Slot:
    """Per place a thread and the stamp of its access."""

    thread: Array
    stamp: Array

    @classmethod
    def empty(cls, size: int) -> _Slot:
        return cls(np.full(size, NOBODY, np.int32), np.zeros(size, np.int64))

    def put(self, at: Array, thread: Array, stamp: Array) -> None:
        self.thread[at] = thread
        self.stamp[at] = stamp


class _Shadow:
    """What is remembered of one space."""

    def __init__(self, size: int) -> None:
        self.writer, self.reader, self.elsewhere, self.beside = (_Slot.empty(size) for _ in range(4))
        self.written = False

    def note_write(self, at: Array, thread: Array, stamp: Array) -> Array:
        """Which of the lanes lost their place to another lane of the same instruction."""
        self.written = True
        self.writer.put(at, thread, stamp)
        return self.writer.thread[at] != thread

    def note_read(self, at: Array, thread: Array, stamp: Array) -> None:
        before, when = self.reader.thread[at], self.reader.stamp[at]
        self._keep(at, before, when, (before != NOBODY) & (before != thread), thread)
        self.reader.put(at, thread, stamp)
        last = self.reader.thread[at]
        lost = last != thread
        if lost.any():  # several lanes read one place at once
            self._keep(at, thread, stamp, lost, last)

    def _keep(self, at: Array, thread: Array, stamp: Array, which: Array, last: Array) -> None:
        """Files readers that are not the last one: beside it in its warp, or elsewhere."""
        if not which.any():
            return
        same = thread // 32 == last // 32
        for slot, chosen in ((self.beside, which & same), (self.elsewhere, which & ~same)):
            if chosen.any():
                slot.put(at[chosen], thread[chosen], stamp[chosen] if np.ndim(stamp) else stamp)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A read of global memory that nobody has written so far: kept as it came, noted only if somebody writes there."""

    offset: Array
    slots: Array
    lanes: Any
    size: int
    line: int
    block_epoch: Array
    warp_epoch: Array


_MOST_PENDING = 2**28
"""Bytes of addresses that may wait; beyond that they are noted."""


class Watch:
    """Watches global and shared memory of one launch. ``granule`` is the smallest access in bytes, 1 or 4."""

    active = True

    def __init__(self, launch: Any, granule: int) -> None:
        self.launch = launch
        self.shift = granule.bit_length() - 1
        sizes = {".global": launch.heap.bytes.size, ".shared": launch.shared.bytes.size}
        self.shadows = {space: _Shadow((size >> self.shift) + 1) for space, size in sizes.items()}
        self.block_epoch = np.zeros(launch.blocks, np.int64)
        self.warp_epoch = np.zeros(launch.warps, np.int64)
        self.fenced = np.zeros(launch.warps * 32, bool)
        self.lines: list[Any] = []
        self._numbers: dict[int, int] = {}
        self.released: dict[tuple[str, int], Array] = {}
        """Per place of a release: the epoch of each block that it makes known."""
        self.pending: dict[int, list[_Pending]] = {}
        """By allocation. Most kernels never write what they read, and then no read is ever looked at again."""
        self.pending_bytes = 0
        self.changed: set[int] = set()
        """Allocations that were written, or whose reads no longer wait."""
        self.epochs: tuple[Array, Array] | None = None
        self.known: Array | None = None
        """[a, b]: block a is ordered after what block b did in epochs below this."""

    # --- what orders ------------------------------------------------------------------------------------

    def block_sync(self, blocks: Array) -> None:
        self.epochs = None
        self.block_epoch[blocks] += 1

    def warp_sync(self, warps: Array) -> None:
        self.epochs = None
        self.warp_epoch[np.unique(warps)] += 1

    def fence(self, frame: Any, lanes: Any) -> None:
        self.fenced[frame.places(lanes)] = True

    def _release(self, space: str, places: Array, blocks: Array) -> None:
        if self.known is None:
            size = self.launch.blocks if self.launch.blocks <= _MOST_BLOCKS else 0
            self.known = np.zeros((size, size), np.int64)
        if not self.known.size:
            return
        releasing = np.unique(blocks)
        self.epochs = None
        self.block_epoch[releasing] += 1
        self.known[releasing, releasing] = self.block_epoch[releasing]
        for place in np.unique(places):
            mine = np.unique(blocks[places == place])
            view = self.known[mine].max(axis=0)
            before = self.released.get((space, int(place)))
            self.released[space, int(place)] = view if before is None else np.maximum(view, before)

    def _acquire(self, space: str, places: Array, blocks: Array) -> None:
        if self.known is None or not self.known.size:
            return
        for place in np.unique(places):
            view = self.released.get((space, int(place)))
            if view is not None:
                mine = np.unique(blocks[places == place])
                self.known[mine] = np.maximum(self.known[mine], view)

    # --- accesses ---------------------------------------------------------------------------------------

    def read(self, frame: Any, lanes: Any, space: str, offset: Any, size: int, atomic: bool) -> None:
        self._access(frame, lanes, space, offset, size, reads=True, writes=False, atomic=atomic)

    def write(self, frame: Any, lanes: Any, space: str, offset: Any, size: int, atomic: bool) -> None:
        self._access(frame, lanes, space, offset, size, reads=False, writes=True, atomic=atomic)

    def atomic(self, frame: Any, lanes: Any, space: str, offset: Any, size: int) -> None:
        self._access(frame, lanes, space, offset, size, reads=True, writes=True, atomic=True)

    def _access(
        self, frame: Any, lanes: Any, space: str, offset: Any, size: int, *, reads: bool, writes: bool, atomic: bool
    ) -> None:
        if space not in _SPACES:
            return
        if space == ".global" and self._waits(frame, lanes, offset, size, writes or atomic):
            return
        thread = frame.places(lanes).astype(np.int32)
        place = np.broadcast_to(np.asarray(offset).reshape(-1), len(thread)) >> self.shift
        if atomic:
            self._order(space, place, thread, reads, writes)
        access = _Access(self, space, thread, self._line(), atomic)
        for k in range(max(1, size >> self.shift)):
            at = place + k if k else place
            if access.shadow.written:
                access.check(access.shadow.writer, "a write", at)
            if writes:
                access.write(at)
            else:
                access.shadow.note_read(at, thread, access.stamp)

    # --- reads that wait --------------------------------------------------------------------------------

    def _waits(self, frame: Any, lanes: Any, offset: Array, size: int, now: bool) -> bool:
        """Whether this access is a plain read of what nobody has written yet, and is put off."""
        allocation = self.launch.heap.last
        if now or allocation is None:
            self._settle(allocation)
            return False
        if allocation in self.changed:
            return False
        if self.epochs is None:
            self.epochs = self.block_epoch.copy(), self.warp_epoch.copy()
        read = _Pending(offset, frame.slots, lanes, size, self._line(), *self.epochs)
        self.pending.setdefault(allocation, []).append(read)
        self.pending_bytes += offset.nbytes
        if self.pending_bytes > _MOST_PENDING:
            self._settle(None)
        return True

    def _settle(self, allocation: int | None) -> None:
        """Notes the reads that waited on an allocation (on all for None), before it is written."""
        for each in range(len(self.launch.heap.allocations)) if allocation is None else (allocation,):
            self.changed.add(each)
            for read in self.pending.pop(each, ()):
                self.pending_bytes -= read.offset.nbytes
                self._note(read)

    def _note(self, read: _Pending) -> None:
        thread = (read.slots if read.lanes is None else read.slots[read.lanes]).astype(np.int32)
        place = np.broadcast_to(read.offset.reshape(-1), len(thread)) >> self.shift
        epochs = read.block_epoch[thread // self.launch.padded], read.warp_epoch[thread // 32]
        stamp = _stamp(*epochs, read.line, False)
        for k in range(max(1, read.size >> self.shift)):
            self.shadows[".global"].note_read(place + k if k else place, thread, stamp)

    def _order(self, space: str, place: Array, thread: Array, reads: bool, writes: bool) -> None:
        if reads:
            self._acquire(space, place, thread // self.launch.padded)
        if not writes:
            return
        instruction = self.launch.current[0]
        fenced = self.fenced[thread] | any(m in (".release", ".acq_rel") for m in instruction.modifiers)
        if fenced.any():
            self._release(space, place[fenced], thread[fenced] // self.launch.padded)
            if reads:  # lanes of one instruction take their turns: the last one has seen the others
                self._acquire(space, place, thread // self.launch.padded)

    def _line(self) -> int:
        instruction, _ = self.launch.current
        number = self._numbers.get(id(instruction))
        if number is None:
            number = len(self.lines)
            self.lines.append(instruction)
            self._numbers[id(instruction)] = number
        return number


def _stamp(block_epoch: Array, warp_epoch: Array, line: int, atomic: bool) -> Array:
    return (
        (block_epoch & _EPOCHS) << _BLOCK_SHIFT
        | (warp_epoch & _EPOCHS) << _WARP_SHIFT
        | min(line, _LINES) << 1
        | int(atomic)
    )


class _Access:
    """One instruction's access to one space, by many threads."""

    def __init__(self, watch: Watch, space: str, thread: Array, line: int, atomic: bool) -> None:
        self.watch, self.space, self.thread, self.line, self.atomic = watch, space, thread, line, atomic
        self.shadow = watch.shadows[space]
        self.block, self.warp = thread // watch.launch.padded, thread // 32
        self.block_epoch, self.warp_epoch = watch.block_epoch[self.block], watch.warp_epoch[self.warp]
        self.stamp = _stamp(self.block_epoch, self.warp_epoch, line, atomic)

    def write(self, at: Array) -> None:
        for slot in (self.shadow.reader, self.shadow.elsewhere, self.shadow.beside):
            self.check(slot, "a read", at)
        lost = self.shadow.note_write(at, self.thread, self.stamp)
        if not self.atomic and lost.any():
            which = int(np.flatnonzero(lost)[0])
            self.report(int(self.shadow.writer.thread[at[which]]), self.line, "a write", which)

    def check(self, slot: _Slot, kind: str, at: Array) -> None:
        """Raises Fault where an access in the slot is not ordered before this one."""
        other = slot.thread[at]
        candidates = (other != NOBODY) & (other != self.thread)
        if not candidates.any():
            return
        stamp = slot.stamp[at]
        if self.atomic:
            candidates &= (stamp & 1) == 0
        bad = candidates & ~self._ordered(other, stamp)
        if bad.any():
            which = int(np.flatnonzero(bad)[0])
            self.report(int(other[which]), int(stamp[which]) >> 1 & _LINES, kind, which)

    def _ordered(self, other: Array, stamp: Array) -> Array:
        other_block = other // self.watch.launch.padded
        epoch = stamp >> _BLOCK_SHIFT
        same_block = other_block == self.block
        same_warp = other // 32 == self.warp
        before = (stamp >> _WARP_SHIFT & _EPOCHS) < (self.warp_epoch & _EPOCHS)
        ordered = (same_block & (epoch < (self.block_epoch & _EPOCHS))) | (same_warp & before)
        known = self.watch.known
        if known is None:
            return ordered
        if not known.size:
            return ordered | ~same_block
        return ordered | (~same_block & (epoch < known[self.block, np.maximum(other_block, 0)]))

    def report(self, other: int, line: int, kind: str, which: int) -> None:
        launch = self.watch.launch
        where = launch.place(self.watch.lines[line])
        what = f"a race on {self.space} memory with {kind} by {launch.describe(other)} at {where}"
        raise Fault("DATA_RACE", what, which)
