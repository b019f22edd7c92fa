"""Data races: two accesses to one byte by different threads, at least one a write, not both atomic, unordered.

Accesses of one block are ordered by its barriers: every barrier a block passes begins a new epoch. Threads of a warp
are ordered by warp synchronisation as well. Accesses of different blocks are never ordered. Per byte the last writer
and the last reader are remembered, so a race between two readers' ancestors may be seen one access late but a
conflicting pair that executes back to back is always seen (PTX ISA 9.0, section 8.9).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.passes.execute.memory import Fault

NOBODY = -1
MANY = -2
_SPACES = (".global", ".shared")


class Silent:
    """The watch that watches nothing."""

    active = False

    def read(self, frame: Any, lanes: Any, space: str, offset: Any, size: int, atomic: bool) -> None: ...
    def write(self, frame: Any, lanes: Any, space: str, offset: Any, size: int, atomic: bool) -> None: ...
    def atomic(self, frame: Any, lanes: Any, space: str, offset: Any, size: int) -> None: ...
    def warp_sync(self, warps: Any) -> None: ...


class _Shadow:
    """Per byte: who wrote and read last, when (epochs of block and warp), by which instruction, atomically or not."""

    def __init__(self, size: int) -> None:
        self.writer = np.full(size, NOBODY, np.int32)
        self.write_epoch = np.zeros(size, np.int32)
        self.write_warp_epoch = np.zeros(size, np.int32)
        self.write_line = np.zeros(size, np.int32)
        self.write_atomic = np.zeros(size, bool)
        self.reader = np.full(size, NOBODY, np.int32)
        self.read_epoch = np.zeros(size, np.int32)
        self.read_warp_epoch = np.zeros(size, np.int32)
        self.read_line = np.zeros(size, np.int32)
        self.read_atomic = np.zeros(size, bool)


class Watch:
    """Watches global and shared memory of one launch."""

    active = True

    def __init__(self, launch: Any) -> None:
        self.launch = launch
        self.shadows = {".global": _Shadow(launch.heap.bytes.size), ".shared": _Shadow(launch.shared.bytes.size)}
        self.block_epoch = np.zeros(launch.blocks, np.int32)
        self.warp_epoch = np.zeros(launch.warps, np.int32)
        self.lines: list[Any] = []
        self._numbers: dict[int, int] = {}

    def block_sync(self, blocks: Any) -> None:
        self.block_epoch[blocks] += 1

    def warp_sync(self, warps: Any) -> None:
        self.warp_epoch[np.unique(warps)] += 1

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
        shadow = self.shadows[space]
        thread = frame.places(lanes).astype(np.int32)
        offset = np.broadcast_to(np.asarray(offset).reshape(-1), len(thread)) if np.size(offset) == 1 else offset
        line = self._line()
        block, warp = thread // self.launch.padded, thread // 32
        epoch, warp_epoch = self.block_epoch[block], self.warp_epoch[warp]
        for k in range(size):
            at = offset + k
            self._conflict(shadow, "write", at, thread, block, warp, space, line, atomic)
            if writes:
                self._conflict(shadow, "read", at, thread, block, warp, space, line, atomic)
                if not atomic:
                    self._same_instruction(at, thread, space, line)
                shadow.writer[at], shadow.write_epoch[at], shadow.write_warp_epoch[at] = thread, epoch, warp_epoch
                shadow.write_line[at], shadow.write_atomic[at] = line, atomic
            if reads and not writes:
                self._note_reader(shadow, at, thread, epoch, warp_epoch, line, atomic)

    def _note_reader(
        self, shadow: _Shadow, at: Any, thread: Any, epoch: Any, warp_epoch: Any, line: int, atomic: bool
    ) -> None:
        before = shadow.reader[at]
        many = (before != NOBODY) & (before != thread) & (shadow.read_epoch[at] == epoch)
        shadow.reader[at] = thread
        shadow.reader[at] = np.where((shadow.reader[at] != thread) | many, MANY, thread)
        shadow.read_epoch[at], shadow.read_warp_epoch[at] = epoch, warp_epoch
        shadow.read_line[at], shadow.read_atomic[at] = line, atomic

    def _conflict(
        self,
        shadow: _Shadow,
        kind: str,
        at: Any,
        thread: Any,
        block: Any,
        warp: Any,
        space: str,
        line: int,
        atomic: bool,
    ) -> None:
        other = (shadow.writer if kind == "write" else shadow.reader)[at]
        candidates = (other != NOBODY) & (other != thread)
        if not candidates.any():
            return
        other_atomic = (shadow.write_atomic if kind == "write" else shadow.read_atomic)[at]
        epoch = (shadow.write_epoch if kind == "write" else shadow.read_epoch)[at]
        warp_epoch = (shadow.write_warp_epoch if kind == "write" else shadow.read_warp_epoch)[at]
        known = other >= 0
        same_block = np.where(known, other // self.launch.padded == block, True)
        same_warp = np.where(known, other // 32 == warp, False)
        ordered = (same_block & (epoch < self.block_epoch[block])) | (same_warp & (warp_epoch < self.warp_epoch[warp]))
        bad = candidates & ~ordered & ~(other_atomic & atomic)
        if bad.any():
            which = int(np.flatnonzero(bad)[0])
            old_line = (shadow.write_line if kind == "write" else shadow.read_line)[at[which]]
            self._raise(int(other[which]), kind, self.lines[old_line], space, int(at[which]), which)

    def _same_instruction(self, at: Any, thread: Any, space: str, line: int) -> None:
        unique, first = np.unique(at, return_index=True)
        if len(unique) != len(at):
            order = np.argsort(at, kind="stable")
            twice = np.flatnonzero(np.diff(at[order]) == 0)[0]
            which = int(order[twice + 1])
            self._raise(int(thread[order[twice]]), "write", self.lines[line], space, int(at[which]), which)
        del first

    def _line(self) -> int:
        instruction, _ = self.launch.current
        number = self._numbers.get(id(instruction))
        if number is None:
            number = len(self.lines)
            self.lines.append(instruction)
            self._numbers[id(instruction)] = number
        return number

    def _raise(self, other: int, kind: str, instruction: Any, space: str, offset: int, which: int) -> None:
        where = self.launch.place(instruction)
        who = self.launch.describe(other) if other >= 0 else "several threads"
        verb = "a write" if kind == "write" else "a read"
        raise Fault("DATA_RACE", f"a race on {space} memory with {verb} by {who} at {where}", which)
