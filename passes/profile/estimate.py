"""A static guess at where a kernel spends its time: loops are taken to run ten times, operations to cost a little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.loops import loop_depths, natural_loops
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction

ProfileOrigin: TypeAlias = Literal["measured", "executed", "estimated"]

TRIPS = 10
"""Trips taken for a loop about which nothing is known. Only the order of weights rests on it."""

MEMORY_COST = 4
"""Issue slots taken for an access to memory, against 1 for arithmetic. Only the order of weights rests on it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """``weights[b]`` is block b's part of the kernel's time; they sum to 1 (or are all 0 in an empty kernel)."""

    weights: tuple[float, ...]
    origin: ProfileOrigin


def estimate(cfg: ControlFlowGraph) -> Profile:
    """Weights from loop depth and instruction counts; unreachable blocks weigh nothing."""
    depths = loop_depths(cfg, natural_loops(cfg))
    raw = [
        float(TRIPS**depth * sum(cost(i) for i in cfg.instructions(block.index)))
        if block.index in cfg.reachable
        else 0.0
        for block, depth in zip(cfg.blocks, depths, strict=True)
    ]
    total = sum(raw) or 1.0
    return Profile(tuple(r / total for r in raw), "estimated")


def cost(instruction: Instruction) -> int:
    """Issue slots of one instruction, roughly."""
    touches = isa.effects(instruction) & {Effect.READ, Effect.WRITE, Effect.ATOMIC, Effect.BARRIER}
    return MEMORY_COST if touches else 1
