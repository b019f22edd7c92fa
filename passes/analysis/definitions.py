"""Where registers get their values."""

from __future__ import annotations

from collections.abc import Mapping

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.liveness import definitely_kills
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Instruction


def definitions(cfg: ControlFlowGraph) -> Mapping[str, tuple[int, ...]]:
    """For each register the flattened statements that write it, guarded ones too, in source order."""
    found: dict[str, list[int]] = {}
    for index, statement in enumerate(cfg.statements):
        if isinstance(statement, Instruction):
            for register in isa.defs(statement):
                found.setdefault(register, []).append(index)
    return {register: tuple(places) for register, places in found.items()}


def reaching(cfg: ControlFlowGraph, register: str, statement: int) -> frozenset[int]:
    """The definitions whose value the register may hold just before this statement; -1 stands for none at all."""
    found: set[int] = set()
    seen: set[int] = set()
    block = cfg.blocks[cfg.block_of(statement)]
    waiting: list[tuple[int, int, int]] = [(block.index, block.first, statement)]
    while waiting:
        index, first, last = waiting.pop()
        if _last_definition(cfg, register, first, last, found):
            continue
        if index == cfg.entry:
            found.add(-1)
        for predecessor in cfg.predecessors[index]:
            if predecessor not in seen:
                seen.add(predecessor)
                before = cfg.blocks[predecessor]
                waiting.append((predecessor, before.first, before.last))
    return frozenset(found)


def _last_definition(cfg: ControlFlowGraph, register: str, first: int, last: int, found: set[int]) -> bool:
    """Add the definitions of statements first to last that reach last; whether one of them always happens."""
    for index in range(last - 1, first - 1, -1):
        statement = cfg.statements[index]
        if isinstance(statement, Instruction) and register in isa.defs(statement):
            found.add(index)
            if register in definitely_kills(statement):
                return True
    return False
