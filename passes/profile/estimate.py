"""A static guess at how often blocks run: loops run as often as the text says, or else ten times."""

from __future__ import annotations

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.loops import natural_loops
from hybridcc.passes.profile.model import block_cost
from hybridcc.passes.profile.trips import constant_trips
from hybridcc.ptx.targets import Target, known_targets, target

TRIPS = 10
"""Trips taken for a loop about which nothing is known. Only the order of weights rests on it."""


def estimated_counts(cfg: ControlFlowGraph) -> tuple[float, ...]:
    """Executions of each block by one thread that takes every branch; unreachable blocks have none."""
    loops = natural_loops(cfg)
    trips = [constant_trips(cfg, loop) or TRIPS for loop in loops]
    found = []
    for block in cfg.blocks:
        count = 1.0 if block.index in cfg.reachable else 0.0
        for loop, turns in zip(loops, trips, strict=True):
            count *= turns if block.index in loop.blocks else 1
        found.append(count)
    return tuple(found)


def weigh(
    cfg: ControlFlowGraph, counts: tuple[float, ...], on: Target, warps: float | None = None
) -> tuple[float, ...]:
    """Each block's part of the kernel's time by the cost model; they sum to 1, or are all 0 in an empty kernel.

    ``counts`` are executions of cfg's blocks, ``warps`` those that share a multiprocessor (half of the most if not
    given).
    """
    shared = warps if warps is not None else on.warps_per_sm / 2
    raw = [
        count * block_cost(cfg.instructions(block.index), on).clocks(shared)
        for block, count in zip(cfg.blocks, counts, strict=True)
    ]
    total = sum(raw) or 1.0
    return tuple(r / total for r in raw)


def model_target(arch: str) -> Target:
    """The architecture itself, or the newest that is known where the table has no figures for it."""
    name = arch if arch in known_targets() else known_targets()[-2]
    return target(name)
