"""Each barrier's scope against the threads that share the data: a block's exchange needs a block's barrier."""

from __future__ import annotations

from hybridcc.passes.rewrite.lints.affine import Addresses, Affine
from hybridcc.passes.rewrite.lints.finding import Finding, Subject
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction


def barrier_scope(subject: Subject) -> tuple[Finding, ...]:
    """A load of shared memory that may read what a thread of another warp stored, with no block barrier between; and a
    block barrier where each thread reads only what it stored itself."""
    addresses = Addresses(subject)
    accesses = [
        (index, instruction, addresses.of_access(instruction))
        for index, instruction in subject.instructions
        if isa.memory_space(instruction) == ".shared"
    ]
    stores = [(i, s, a) for i, s, a in accesses if Effect.WRITE in isa.effects(s)]
    loads = [(i, s, a) for i, s, a in accesses if Effect.READ in isa.effects(s)]
    barriers = [(i, s) for i, s in subject.instructions if _is_block_barrier(s)]
    found = []
    for index, _, read in loads:
        before = [(i, a) for i, _, a in stores if i < index and _may_meet(a, read)]
        if before and not any(before[-1][0] < i < index for i, _ in barriers):
            store_index, stored = before[-1]
            if _beyond_warp(stored, read) and subject.cfg.block_of(store_index) == subject.cfg.block_of(index):
                text = (
                    "it reads what threads of other warps may have stored since the last block barrier: bar.warp.sync "
                    "orders one warp alone"
                )
                found.append(subject.finding("BARRIER_SCOPE", "warning", index, text))
    if stores and barriers and all(_own(read, stores) for _, _, read in loads):
        text = "each thread reads only the shared memory that it wrote itself: no barrier is needed for it"
        found += [subject.finding("BARRIER_UNNEEDED", "note", i, text) for i, _ in barriers]
    return tuple(found)


def _is_block_barrier(instruction: Instruction) -> bool:
    return Effect.BARRIER in isa.effects(instruction) and ".warp" not in instruction.modifiers


def _may_meet(stored: Affine | None, read: Affine | None) -> bool:
    if stored is None or read is None:
        return True
    return not stored.symbols or not read.symbols or bool(stored.symbols & read.symbols)


def _beyond_warp(stored: Affine | None, read: Affine | None) -> bool:
    """Whether both are known, and are not one place of the thread's own, nor one that depends on its warp alike."""
    if stored is None or read is None or stored == read or stored.uniform:
        return False
    return stored.threads != read.threads or stored.offset != read.offset


def _own(read: Affine | None, stores: list[tuple[int, Instruction, Affine | None]]) -> bool:
    """Whether a load reads, of what may be stored there, only the thread's own."""
    meeting = [a for _, _, a in stores if _may_meet(a, read)]
    return read is not None and not read.uniform and read.offset is not None and all(a == read for a in meeting)
