"""Which registers hold a value that may still be read."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Instruction


@dataclass(frozen=True, slots=True)
class Liveness:
    """Per block the registers live at its top and at its end, by their unique names."""

    live_in: tuple[frozenset[str], ...]
    live_out: tuple[frozenset[str], ...]


def live(cfg: ControlFlowGraph) -> Liveness:
    """Backward dataflow to a fixed point. A guarded definition may not happen, so it ends no life."""
    needs: list[frozenset[str]] = []
    kills: list[frozenset[str]] = []
    for block in cfg.blocks:
        needed, killed = _summary(cfg.instructions(block.index))
        needs.append(needed)
        kills.append(killed)
    live_in = list(needs)
    live_out: list[frozenset[str]] = [frozenset()] * len(cfg.blocks)
    waiting = list(range(len(cfg.blocks)))
    queued = set(waiting)
    while waiting:
        index = waiting.pop()
        queued.discard(index)
        after = frozenset().union(*(live_in[s] for s in cfg.blocks[index].successors))
        before = needs[index] | (after - kills[index])
        live_out[index] = after
        if before != live_in[index]:
            live_in[index] = before
            for predecessor in cfg.predecessors[index]:
                if predecessor not in queued:
                    queued.add(predecessor)
                    waiting.append(predecessor)
    return Liveness(tuple(live_in), tuple(live_out))


def live_before(cfg: ControlFlowGraph, liveness: Liveness, statement: int) -> frozenset[str]:
    """The registers live just before the flattened statement of this index."""
    block = cfg.blocks[cfg.block_of(statement)]
    rest = cfg.statements[statement : block.last]
    instructions = tuple(s for s in rest if isinstance(s, Instruction))
    needed, killed = _summary(instructions)
    return needed | (liveness.live_out[block.index] - killed)


def definitely_kills(instruction: Instruction) -> tuple[str, ...]:
    """The registers that hold a new value after the instruction, whatever its guard."""
    return () if isa.is_conditional_def(instruction) else isa.defs(instruction)


def _summary(instructions: tuple[Instruction, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """(registers read before any certain definition, registers certainly defined)."""
    needed: set[str] = set()
    killed: set[str] = set()
    for instruction in reversed(instructions):
        kills = definitely_kills(instruction)
        needed.difference_update(kills)
        killed.update(kills)
        needed.update(isa.uses(instruction))
    return frozenset(needed), frozenset(killed)
