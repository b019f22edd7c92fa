"""Where a refuted candidate first goes wrong, in a rewrite's words: a thread, the region's inputs, what it makes.

Both kernels are run once more on the launch that refuted, watched at the region's border. The account is of the
lowest thread that differs, and of the first time it does. Races are let pass: the account shows the store too many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridcc.errors import ExecutionError
from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.execute.memory import HEAP_BASE
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Port, Region
from hybridcc.passes.splice.candidate import Candidate
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.once import Execute, default_execute, run
from hybridcc.ptx.nodes import Block, Function, Label, Module, Statement

if TYPE_CHECKING:
    from hybridcc.passes.execute.frame import Frame, Lanes
    from hybridcc.passes.execute.program import Program

MOST_KEPT = 4_000_000
"""Values that one trace keeps; a launch that makes more is explained as far as it was watched."""
MOST_SHOWN = 24
END_LABEL = "$hybridcc_end_of_rewrite"

Values = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """One store of one thread: ``place`` is an address in words."""

    space: str
    address: int
    size: int
    values: tuple[int, ...]
    place: str


@dataclass(slots=True)
class Passage:
    """One thread's way through the region: registers at its entry and exit (None: never written), stores between."""

    inputs: Values
    outputs: Values | None = None
    stores: list[Store] = field(default_factory=list)


def explain(
    kernel: Kernel, region: Region, candidate: Candidate, launch: Launch, execute: Execute | None = None
) -> str:
    """Some lines of text, or "" where the runs differ in nothing that was watched. ``kernel`` has its arguments."""
    execute = execute or default_execute()
    inside = frozenset(region.blocks)
    before = _Watch(kernel, region, lambda cfg: inside)
    run(kernel, kernel.ptx, launch, execute, trace=before, detect_races=False)
    marked, labels = _marked(candidate)
    after = _Watch(kernel, region, lambda cfg: _holding(cfg, labels))
    limit = 64 * max(1, before.visited) + 50_000 * launch.threads
    outcome = run(kernel, str(marked), launch, execute, steps=limit, trace=after, detect_races=False)
    if outcome.fault is not None:
        return _of_fault(kernel, region, launch, outcome.fault, before, after)
    for slot in sorted(before.passages.keys() | after.passages.keys()):
        mine, theirs = before.passages.get(slot, []), after.passages.get(slot, [])
        for number, (old, new) in enumerate(zip(mine, theirs, strict=False)):
            if old.outputs != new.outputs or old.stores != new.stores:
                return _of_difference(region, before.name(slot), number, old, new)
    return ""


# --- watching --------------------------------------------------------------------------------------------


@dataclass
class _Watch:
    """A trace that keeps each thread's passages through the region."""

    kernel: Kernel
    region: Region
    inside_of: Any
    passages: dict[int, list[Passage]] = field(default_factory=lambda: defaultdict(list))
    visited: int = 0
    kept: int = 0
    _open: set[int] = field(default_factory=set)
    _inside: dict[str, frozenset[int]] = field(default_factory=dict)
    _launch: Any = None

    def block(self, program: Program, index: int, frame: Frame, lanes: Lanes) -> None:
        if program.name != self.kernel.entry:
            return
        self._launch = frame.launch
        self.visited += frame.size(lanes) * 8
        if program.name not in self._inside:
            self._inside[program.name] = self.inside_of(program.cfg)
        is_inside = index in self._inside[program.name]
        if self.kept > MOST_KEPT or (not is_inside and not self._open):
            return
        slots = self._slots(frame, lanes)
        crossing = [k for k, slot in enumerate(slots) if (slot in self._open) is not is_inside]
        if not crossing:
            return
        ports = self.region.live_in if is_inside else self.region.live_out
        rows = _registers(frame, lanes, ports)
        self.kept += len(crossing) * (len(ports) + 1)
        for k in crossing:
            slot, values = slots[k], tuple(_at(row, k) for row in rows)
            if is_inside:
                self._open.add(slot)
                self.passages[slot].append(Passage(values))
            else:
                self._open.discard(slot)
                self.passages[slot][-1].outputs = values

    def store(self, frame: Frame, lanes: Lanes, space: str, address: Any, size: int, values: list[Any]) -> None:
        if not self._open or self.kept > MOST_KEPT:
            return
        for k, slot in enumerate(self._slots(frame, lanes)):
            if slot in self._open:
                at = _at(np.asarray(address), k) or 0
                stored = tuple(_at(np.asarray(value), k) or 0 for value in values)
                self.passages[slot][-1].stores.append(Store(space, at, size, stored, self._place(frame, space, at)))
                self.kept += 2

    def name(self, slot: int) -> str:
        return self._launch.describe(self._within(slot))

    def slot_of(self, thread: tuple[int, int, int], block: tuple[int, int, int]) -> int | None:
        return next((s for s in self.passages if self._launch.coordinates(self._within(s)) == (thread, block)), None)

    def _within(self, slot: int) -> int:
        """The slot as the slice counts that ran last; its coordinates are the same."""
        return slot - self._launch.first * self._launch.padded

    def _slots(self, frame: Frame, lanes: Lanes) -> list[int]:
        """Numbers of threads in the whole grid: a slot counts within its slice."""
        launch = frame.launch
        return [int(s) + launch.first * launch.padded for s in frame.places(lanes)]

    def _place(self, frame: Frame, space: str, address: int) -> str:
        if space != ".global":
            return f"{space.removeprefix('.')} byte {address}"
        offset = address - HEAP_BASE
        found = next((a for a in frame.launch.heap.allocations if a.start <= offset < a.start + a.size), None)
        if found is None:
            return f"global address {address:#x}"
        return f"byte {offset - found.start} of {_argument(self.kernel, found.name)}"


def _registers(frame: Frame, lanes: Lanes, ports: Iterable[Port]) -> list[Any]:
    rows = []
    for port in ports:
        value = frame.registers.get(port.register)
        if value is not None and value.ndim and lanes is not None:
            value = value[lanes]
        rows.append(None if value is None else np.broadcast_to(value, frame.size(lanes)))
    return rows


def _at(row: Any, k: int) -> int | None:
    """The bits of one lane, unsigned."""
    if row is None:
        return None
    value = row[k] if np.ndim(row) else row
    return int(value.view(f"u{value.itemsize}")) if value.dtype.kind == "f" else int(value)


def _argument(kernel: Kernel, allocation: str) -> str:
    """``argument 7`` of the PTX as the source's argument."""
    number = allocation.removeprefix("argument ")
    if not number.isdigit():
        return allocation
    left = int(number)
    for argument in kernel.arguments:
        if left < len(argument.fields):
            return argument.name or allocation
        left -= len(argument.fields)
    return allocation


# --- the candidate with its end marked -------------------------------------------------------------------


def _marked(candidate: Candidate) -> tuple[Module, frozenset[str]]:
    """The module with a label where the rewrite ends, so that its last block is none of the kernel's too."""
    labels = frozenset(candidate.rewritten)
    functions = tuple(
        replace(f, body=Block(tuple(_with_end(f.body.statements, labels)), f.body.span))
        if isinstance(f, Function) and f.name == candidate.function and f.body is not None
        else f
        for f in candidate.module.items
    )
    return replace(candidate.module, items=functions), labels


def _with_end(statements: Sequence[Statement], labels: frozenset[str]) -> Iterable[Statement]:
    number = 0
    for statement in statements:
        yield statement
        if isinstance(statement, Block) and _holds(statement, labels):
            yield Label(f"{END_LABEL}{number}")
            number += 1


def _holds(block: Block, labels: frozenset[str]) -> bool:
    return any(
        (isinstance(s, Label) and s.name in labels) or (isinstance(s, Block) and _holds(s, labels))
        for s in block.statements
    )


def _holding(cfg: graphs.ControlFlowGraph, labels: frozenset[str]) -> frozenset[int]:
    return frozenset(b.index for b in cfg.blocks if any(cfg.scoped.spelling(name) in labels for name in b.labels))


# --- words -----------------------------------------------------------------------------------------------


def _of_difference(region: Region, thread: str, number: int, old: Passage, new: Passage) -> str:
    lines = _entering(region, thread, number, old.inputs)
    if old.inputs != new.inputs:
        other = _rows("%in", region.live_in, new.inputs, range(len(new.inputs)))
        lines += ["  with the rewrite it enters with", *other]
    if old.outputs is not None and new.outputs is not None:
        differing = [k for k, (a, b) in enumerate(zip(old.outputs, new.outputs, strict=True)) if a != b]
        for k in differing[:MOST_SHOWN]:
            type_ = region.live_out[k].type
            lines.append(
                f"  %out{k} must be {_show(old.outputs[k], type_)}; the rewrite leaves {_show(new.outputs[k], type_)}"
            )
    lines += _first_store(old.stores, new.stores)
    return "\n".join(lines)


def _first_store(old: Sequence[Store], new: Sequence[Store]) -> list[str]:
    for number, (mine, theirs) in enumerate(zip(old, new, strict=False)):
        if mine != theirs:
            return [f"  store number {number + 1} in it must be {_put(mine)}; the rewrite makes {_put(theirs)}"]
    if len(old) > len(new):
        return [f"  it must make {len(old)} stores; the rewrite makes {len(new)}: {_put(old[len(new)])} is missing"]
    if len(new) > len(old):
        return [f"  it must make {len(old)} stores; the rewrite also makes {_put(new[len(old)])}"]
    return []


def _of_fault(
    kernel: Kernel, region: Region, launch: Launch, fault: ExecutionError, before: _Watch, after: _Watch
) -> str:
    """The passage in which the candidate faulted, by its number for that thread."""
    if fault.thread is None or fault.block is None:
        return ""
    slot = after.slot_of(fault.thread, fault.block)
    if slot is None or not after.passages[slot]:
        return ""
    number = len(after.passages[slot]) - 1
    lines = _entering(region, after.name(slot), number, after.passages[slot][number].inputs)
    known = before.passages.get(slot, [])
    if number < len(known) and known[number].outputs is not None:
        outputs = known[number].outputs or ()
        lines += ["  the original leaves", *_rows("%out", region.live_out, outputs, range(len(outputs)))]
    return "\n".join(lines)


def _entering(region: Region, thread: str, number: int, inputs: Values) -> list[str]:
    times = "" if number == 0 else f" for the {number + 1}th time" if number > 2 else f" ({number + 1})"
    return [f"{thread} enters the region{times} with", *_rows("%in", region.live_in, inputs, range(len(inputs)))]


def _rows(stem: str, ports: Sequence[Port], values: Values, which: Iterable[int]) -> list[str]:
    return [f"    {stem}{k} = {_show(values[k], ports[k].type)}" for k in list(which)[:MOST_SHOWN]]


def _put(store: Store) -> str:
    values = ", ".join(f"{value:#0{2 + 2 * store.size}x}" for value in store.values)
    return f"{values} to {store.place}"


def _show(value: int | None, type_: str) -> str:
    """Bits, and what they mean: ``0x40400000 (3.0)``."""
    if value is None:
        return "never written"
    if type_ == ".pred":
        return "true" if value else "false"
    bits = int("".join(c for c in type_ if c.isdigit()))
    raw = f"{value:#0{2 + bits // 4}x}"
    if type_ in (".f32", ".f64"):
        return f"{raw} ({np.array(value, f'u{bits // 8}').view(f'f{bits // 8}')})"
    signed = value - (1 << bits) if value >> (bits - 1) else value
    return f"{raw} ({signed})" if bits >= 16 else raw
