"""The run: every thread of a launch (or of a slice of its blocks) at once, lowest program counter first."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.errors import ExecutionError
from hybridcc.passes.execute import special
from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.layout import Layout
from hybridcc.passes.execute.memory import LOCAL_BASE, SHARED_BASE, Fault, Heap, Window
from hybridcc.passes.execute.program import Program, Segment
from hybridcc.passes.execute.races import Silent, Watch
from hybridcc.passes.execute.trace import Trace
from hybridcc.ptx.nodes import Module

NEXT_STEPS = {
    "STEP_LIMIT": "give smaller sizes, or mend the loop that does not end",
    "UNSUPPORTED": "the executor cannot run this kernel; a GPU can",
}
"""What to do about a fault, where it is neither to mend the kernel nor its arguments."""
GONE = np.int32(2**31 - 1)
WAITS = np.int32(2**30)
"""Added to a thread's segment while it waits at a barrier."""


class Launch:
    """One slice of a launch: ``first`` is the number of its first block in the grid."""

    def __init__(
        self,
        module: Module,
        programs: dict[str, Program],
        layout: Layout,
        heap: Heap,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        first: int,
        blocks: int,
        shared_size: int,
        options: Any,
    ) -> None:
        self.module, self.programs, self.layout, self.heap = module, programs, layout, heap
        self.grid, self.block = grid, block
        self.threads = block[0] * block[1] * block[2]
        self.padded = -(-self.threads // 32) * 32
        self.first, self.blocks = first, blocks
        self.warps = blocks * self.padded // 32
        self.shared = Window("shared", blocks, shared_size, SHARED_BASE)
        self.local = Window("local", blocks * self.padded, layout.local_top - LOCAL_BASE, LOCAL_BASE)
        self.options = options
        self.flags: set[str] = options.flags
        self.counts: dict[str, Any] = options.counts
        self.steps = options.steps
        self.trace: Trace | None = options.trace
        self.depth = 0
        self.current: tuple[Any, Lanes] = (None, None)
        self.alive = np.zeros(self.warps, np.uint32)
        self.watch: Any = _watch(self, programs) if options.detect_races else Silent()

    # --- what steps ask ---------------------------------------------------------------------------------

    def flag(self, text: str) -> None:
        self.flags.add(text)

    def special(self, name: str, frame: Frame, lanes: Lanes) -> tuple[Any, int]:
        return special.read(self, name, frame.places(lanes))

    def alive_mask(self, warp: Any) -> Any:
        return self.alive[warp]

    def program(self, name: str) -> Program | None:
        return self.programs.get(name)

    # --- messages ---------------------------------------------------------------------------------------

    def place(self, instruction: Any) -> str:
        source = self.module.source
        if instruction is None or not source.text:
            return source.name
        line, column = source.position(instruction.span[0])
        return f"{source.name}:{line}:{column}"

    def coordinates(self, slot: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """(thread, block) of a slot, each as (x, y, z)."""
        number, thread = self.first + slot // self.padded, slot % self.padded
        x, y, _ = self.block
        gx, gy, _ = self.grid
        return (thread % x, thread // x % y, thread // (x * y)), (number % gx, number // gx % gy, number // (gx * gy))

    def describe(self, slot: int) -> str:
        thread, block = self.coordinates(slot)
        return f"thread {thread} of block {block}"

    def error(self, fault: Fault, frame: Frame) -> ExecutionError:
        instruction, lanes = self.current
        places = frame.places(lanes)
        slot = int(places[min(fault.which, len(places) - 1)])
        thread, block = self.coordinates(slot)
        source = self.module.source
        text = f"\n{source.excerpt(instruction.span)}" if instruction is not None and source.text else ""
        return ExecutionError(
            fault.reason,
            f"{fault.what}, by thread {thread} of block {block}{text}",
            thread=thread,
            block=block,
            where=self.place(instruction),
            next_step=NEXT_STEPS.get(fault.reason, "mend the kernel there, or the arguments of the launch"),
        )

    # --- running ----------------------------------------------------------------------------------------

    def run(self, program: Program) -> None:
        slots = (np.arange(self.blocks)[:, None] * self.padded + np.arange(self.threads)[None, :]).reshape(-1)
        np.bitwise_or.at(self.alive, slots // 32, np.uint32(1) << (slots % 32).astype(np.uint32))
        self._guarded_run(Frame(self, program, slots), whole=True)

    def run_call(self, frame: Frame) -> Frame:
        self.depth += 1
        before = self.current
        count = frame.count
        _Runner(self, frame, whole=False).go()
        self.depth -= 1
        self.current = before
        if frame.count != count:
            raise Fault("UNSUPPORTED", "an exit within a called function", 0)
        return frame

    def _guarded_run(self, frame: Frame, whole: bool) -> None:
        runner = _Runner(self, frame, whole)
        try:
            runner.go()
        except Fault as fault:
            raise self.error(fault, frame) from None


def _watch(launch: Launch, programs: dict[str, Program]) -> Watch:
    return Watch(launch, min(p.granule for p in programs.values()))


class _Runner:
    """Schedules the lanes of one frame. ``whole``: the frame is the kernel itself, so that leaving it is exiting."""

    def __init__(self, launch: Launch, frame: Frame, whole: bool) -> None:
        self.launch, self.frame, self.whole = launch, frame, whole
        self.program = frame.program
        self.pc = np.zeros(frame.count, np.int32)
        self.uniform: int | None = 0
        self.barrier_id = np.full(frame.count, -1, np.int32)
        self.barrier_count = np.zeros(frame.count, np.int32)
        self.reductions: dict[int, tuple[Any, ...]] = {}
        self.arrived: dict[tuple[int, int], int] = {}
        self.random = np.random.default_rng(launch.options.seed)
        name = self.program.name
        if name not in launch.counts:
            launch.counts[name] = np.zeros(len(self.program.cfg.blocks), np.int64)
        self.counts = launch.counts[name]

    def go(self) -> None:
        while True:
            chosen = self._choose()
            if chosen is None:
                return
            at, lanes = chosen
            self._run_segment(self.program.segments[at], at, lanes)

    def _choose(self) -> tuple[int, Lanes] | None:
        """The next segment and the lanes at it; releases barriers where nothing else can run."""
        if self.uniform is not None:
            return self.uniform, None
        while True:
            at = self._next_segment()
            if at is not None:
                lanes = np.flatnonzero(self.pc == at)
                if len(lanes) == self.frame.count:
                    self.uniform = at
                    return at, None
                if self.launch.options.schedule == "random":
                    lanes = self._some_warps(lanes)
                elif self._only_these_live(len(lanes)):
                    self._compact(lanes)
                    self.uniform = at
                    return at, None
                return at, lanes
            if not self._release():
                return None

    def _next_segment(self) -> int | None:
        schedule = self.launch.options.schedule
        if schedule == "lowest":
            least = int(self.pc.min())
            return least if least < WAITS else None
        runnable = self.pc[self.pc < WAITS]
        if not len(runnable):
            return None
        if schedule == "reversed":
            # the highest block's lanes first, each warp still at its own lowest counter
            last = np.flatnonzero(self.pc < WAITS)[-1]
            warp = self.frame.slots // 32
            mine = self.pc[(warp == warp[last]) & (self.pc < WAITS)]
            return int(mine.min())
        return int(self.random.choice(np.unique(runnable)[:1]))

    def _some_warps(self, lanes: Any) -> Any:
        warps = self.frame.slots[lanes] // 32
        present = np.unique(warps)
        picked = present[self.random.random(len(present)) < 0.5]
        if not len(picked):
            picked = present[:1]
        return lanes[np.isin(warps, picked)]

    def _only_these_live(self, count: int) -> bool:
        return self.whole and count == int((self.pc != GONE).sum()) and count < self.frame.count

    def _compact(self, lanes: Any) -> None:
        self.frame.keep(lanes)
        self.pc = self.pc[lanes]
        self.barrier_id = self.barrier_id[lanes]
        self.barrier_count = self.barrier_count[lanes]

    # --- one segment ------------------------------------------------------------------------------------

    def _run_segment(self, segment: Segment, at: int, lanes: Lanes) -> None:
        frame = self.frame
        size = frame.size(lanes)
        if segment.starts_block:
            self.counts[segment.block] += size
            if self.launch.trace is not None:
                self.launch.trace.block(self.program, segment.block, frame, lanes)
        self.launch.steps[0] += size * segment.instructions
        limit = self.launch.options.step_limit
        if self.launch.steps[0] > limit:
            self.launch.current = (segment.last, lanes)
            raise Fault("STEP_LIMIT", f"more than {limit} instructions in all", 0)
        for step in segment.steps:
            step(frame, lanes)
        kind, data = segment.ending
        if kind != "next":
            self.launch.current = (segment.last, lanes)
        match kind:
            case "next":
                self._go_to(lanes, at + 1)
            case "branch":
                guard, target = data
                self._branch(guard, self.program.segment_of_block[target], at + 1, lanes)
            case "table":
                self._table(data, at, lanes)
            case "barrier":
                self._wait(data, at, lanes)
            case "trap":
                self._trap(data, at, lanes)
            case _:
                self._leave(data, at, lanes, kind == "exit")

    def _go_to(self, lanes: Lanes, target: int) -> None:
        if lanes is None:
            self.uniform = target
        else:
            self.pc[lanes] = target

    def _settle(self) -> None:
        """Writes the common program counter out before lanes part."""
        if self.uniform is not None:
            self.pc[:] = self.uniform
            self.uniform = None

    def _split(self, guard: Any, lanes: Lanes) -> tuple[bool | None, Any]:
        """(True or False where all lanes agree, else None; the predicate)."""
        if guard is None:
            return True, None
        holds = guard(self.frame, lanes)
        if not np.ndim(holds):
            return bool(holds), holds
        if holds.all():
            return True, holds
        return (None, holds) if holds.any() else (False, holds)

    def _branch(self, guard: Any, target: int, following: int, lanes: Lanes) -> None:
        agreed, holds = self._split(guard, lanes)
        if agreed is not None:
            self._go_to(lanes, target if agreed else following)
            return
        self._settle()
        where = np.where(holds, np.int32(target), np.int32(following))
        if lanes is None:
            self.pc = where
        else:
            self.pc[lanes] = where

    def _table(self, data: Any, at: int, lanes: Lanes) -> None:
        guard, index, targets = data
        taken, skipped = self._parts(guard, lanes)
        self._settle()
        if len(skipped):
            self.pc[skipped] = at + 1
        if len(taken):
            number = np.broadcast_to(index(self.frame, taken), len(taken)).astype(np.int64)
            if (number >= len(targets)).any():
                raise Fault("OUT_OF_BOUNDS", f"brx.idx beyond its table of {len(targets)}", int(np.argmax(number)))
            table = np.array([self.program.segment_of_block[t] for t in targets], np.int32)
            self.pc[taken] = table[number]

    def _parts(self, guard: Any, lanes: Lanes) -> tuple[Any, Any]:
        everyone = np.arange(self.frame.count) if lanes is None else lanes
        agreed, holds = self._split(guard, lanes)
        if agreed is not None:
            return (everyone, everyone[:0]) if agreed else (everyone[:0], everyone)
        return everyone[holds], everyone[~holds]

    def _trap(self, guard: Any, at: int, lanes: Lanes) -> None:
        taken, skipped = self._parts(guard, lanes)
        if len(taken):
            self.launch.current = (self.launch.current[0], taken)
            raise Fault("TRAP", "trap", 0)
        self._settle()
        self.pc[skipped] = at + 1

    def _leave(self, guard: Any, at: int, lanes: Lanes, exits: bool) -> None:
        if exits and not self.whole:
            raise Fault("UNSUPPORTED", "an exit within a called function", 0)
        taken, skipped = self._parts(guard, lanes)
        self._settle()
        if len(skipped):
            self.pc[skipped] = at + 1
        self.pc[taken] = GONE
        if self.whole:
            places = self.frame.slots[taken]
            np.bitwise_and.at(self.launch.alive, places // 32, ~(np.uint32(1) << (places % 32).astype(np.uint32)))

    # --- barriers ---------------------------------------------------------------------------------------

    def _wait(self, describe: Any, at: int, lanes: Lanes) -> None:
        guard = None
        instruction = self.program.segments[at].last
        if instruction is not None and instruction.guard is not None:
            guard = _guard_reader(self.program, instruction)
        taken, skipped = self._parts(guard, lanes)
        self._settle()
        if len(skipped):
            self.pc[skipped] = at + 1
        if not len(taken):
            return
        identifiers, counts, waits, reduction = describe(self.frame, taken)
        self.barrier_count[taken] = 0 if counts is None else counts.astype(np.int32)
        if not waits:
            blocks = self.frame.slots[taken] // self.launch.padded
            for block, number in zip(blocks, identifiers, strict=True):
                key = (int(block), int(number))
                self.arrived[key] = self.arrived.get(key, 0) + 1
            self.pc[taken] = at + 1
            return
        self.barrier_id[taken] = identifiers.astype(np.int32)
        self.pc[taken] = at + WAITS
        if reduction is not None:
            mode, values, write = reduction
            store = np.zeros(self.frame.count, bool)
            if at in self.reductions:
                store = self.reductions[at][1]
            store[taken] = values
            self.reductions[at] = (mode, store, write)

    def _release(self) -> bool:
        """Lets blocks go on whose waiting threads are complete. False when no thread is left."""
        waiting = np.flatnonzero((self.pc >= WAITS) & (self.pc != GONE))
        if not len(waiting):
            return False
        blocks = self.frame.slots[waiting] // self.launch.padded
        numbers = self.barrier_id[waiting]
        # key: a barrier of a block; all its waiting threads go on together
        keys = blocks.astype(np.int64) * 64 + numbers
        unique, inverse, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        live = np.bincount(self.frame.slots[self.pc != GONE] // self.launch.padded, minlength=self.launch.blocks)
        expected = np.zeros(len(unique), np.int64)
        np.maximum.at(expected, inverse, self.barrier_count[waiting])
        block_of = unique // 64
        arrived = np.array([self.arrived.get((int(k) // 64, int(k) % 64), 0) for k in unique])
        threads_needed = np.where(expected > 0, expected, live[block_of])
        complete = sizes + arrived >= threads_needed
        if not complete.any():
            self._deadlock(waiting, unique, sizes, threads_needed)
        ready = waiting[complete[inverse]]
        for key in unique[complete]:
            self.arrived.pop((int(key) // 64, int(key) % 64), None)
        self._reduce(ready)
        self.pc[ready] = self.pc[ready] - WAITS + 1
        if self.launch.watch.active:
            self.launch.watch.block_sync(block_of[complete])
        return True

    def _reduce(self, ready: Any) -> None:
        places = self.pc[ready] - WAITS
        for at in np.unique(places):
            if int(at) not in self.reductions:
                continue
            mode, values, write = self.reductions[int(at)]
            lanes = ready[places == at]
            blocks = self.frame.slots[lanes] // self.launch.padded
            yes = np.bincount(blocks, weights=values[lanes], minlength=self.launch.blocks).astype(np.int64)
            total = np.bincount(blocks, minlength=self.launch.blocks)
            outcome = {"popc": yes, "and": yes == total, "or": yes > 0}[mode][blocks]
            if write is not None:
                write(self.frame, outcome.astype(np.uint32) if mode == "popc" else outcome, lanes)

    def _deadlock(self, waiting: Any, unique: Any, sizes: Any, needed: Any) -> None:
        first = int(waiting[0])
        self.launch.current = (self.program.segments[int(self.pc[first] - WAITS)].last, np.array([first]))
        raise Fault(
            "BARRIER_DEADLOCK",
            f"barrier {int(unique[0]) % 64} waits for {int(needed[0])} threads and only {int(sizes[0])} can come",
            0,
        )


def _guard_reader(program: Program, instruction: Any) -> Any:
    name, negated = instruction.guard.name, instruction.guard.negated
    if negated:
        return lambda frame, lanes: ~frame.get(name, lanes)
    return lambda frame, lanes: frame.get(name, lanes)
