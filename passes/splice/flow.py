"""What a rewrite's own control flow must show: values before use, outputs on every path, effects in step."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.errors import SpliceRefused
from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.liveness import definitely_kills
from hybridcc.passes.analysis.loops import loop_depths, natural_loops
from hybridcc.passes.analysis.uniform import divergent_branches, influence, uniform_registers
from hybridcc.passes.regions.canonical import declarations
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.reading import Rewrite
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Block, Function, Instruction, Module

ORDERED = frozenset({Effect.ATOMIC, Effect.BARRIER, Effect.CONVERGENT, Effect.VOLATILE, Effect.ASYNC})
"""Effects that a rewrite must have exactly as the region has them."""


def graph_of_rewrite(rewrite: Rewrite, region: Region) -> ControlFlowGraph:
    """The rewrite as a function of its own, the ports declared around it."""
    ports = {f"%in{k}": p.type for k, p in enumerate(region.live_in)}
    ports |= {f"%out{k}": p.type for k, p in enumerate(region.live_out)}
    body = Block((*declarations(ports), *rewrite.statements))
    function = Function(".entry", "rewrite", body=body)
    return cfg_module.build(function, Module((function,)))


def check_flow(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph) -> None:
    """Raises SpliceRefused for a read before a write, an output left unwritten, an end that is never reached."""
    ends = [b for b in cfg.blocks if b.leaves and b.index in cfg.reachable]
    if not ends:
        raise SpliceRefused("NO_EXIT", "the rewrite never reaches its end", where="rewrite")
    written = _written_before(cfg, region)
    for block in cfg.blocks:
        if block.index not in cfg.reachable:
            continue
        have = set(written[block.index])
        for instruction in cfg.instructions(block.index):
            for name in isa.uses(instruction):
                if name in cfg.scoped.types and name not in have:
                    spelling = cfg.scoped.spelling(name)
                    raise rewrite.refuse(
                        "READ_BEFORE_WRITE", f"{spelling} may be read before it is written", instruction.span
                    )
            have.update(definitely_kills(instruction))
        if block in ends:
            _outputs_written(rewrite, region, cfg, have)


def _outputs_written(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph, have: set[str]) -> None:
    spelled = {cfg.scoped.spelling(name) for name in have}
    for k in range(len(region.live_out)):
        if f"%out{k}" not in spelled:
            end = len(rewrite.source.text.rstrip())
            raise rewrite.refuse("OUT_NOT_WRITTEN", f"%out{k} is not written on every path", (end - 1, end))


def _written_before(cfg: ControlFlowGraph, region: Region) -> list[frozenset[str]]:
    """Registers certainly written at the top of each block (every register, where no path leads)."""
    everything = frozenset(cfg.scoped.types)
    inputs = {f"%in{k}" for k in range(len(region.live_in))}
    start = frozenset(name for name in everything if cfg.scoped.spelling(name) in inputs)
    kills = [frozenset(k for i in cfg.instructions(b.index) for k in definitely_kills(i)) for b in cfg.blocks]
    before = [everything] * len(cfg.blocks)
    before[cfg.entry] = start
    changed = True
    while changed:
        changed = False
        for block in cfg.blocks:
            meets = [before[p] | kills[p] for p in cfg.predecessors[block.index] if p in cfg.reachable]
            if block.index == cfg.entry:
                meets.append(start)
            if not meets:
                continue
            met = frozenset.intersection(*meets)
            if met != before[block.index]:
                before[block.index] = met
                changed = True
    return before


@dataclass(frozen=True, slots=True)
class Ordered:
    """One operation whose number and order matter, with what decides how often and by whom it runs."""

    opcode: str
    guarded: bool
    loop_depth: int
    divergent: bool
    """Whether threads of a block may part, inside the region, over running it."""


def check_effects(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph) -> None:
    """Raises SpliceRefused unless atomics, barriers, convergent and volatile operations are those of the region."""
    old = _ordered(region.cfg, region.order, uniform_registers(region.cfg))
    inputs = {f"%in{k}": p.uniform for k, p in enumerate(region.live_in)}
    varying = frozenset(name for name in cfg.scoped.types if not inputs.get(cfg.scoped.spelling(name), True))
    new = _ordered(cfg, tuple(sorted(cfg.reachable)), uniform_registers(cfg, varying=varying))
    for (was, _), (is_now, instruction) in zip(old, new, strict=False):
        if was.opcode != is_now.opcode:
            raise rewrite.refuse(
                "EFFECT_ORDER",
                f"{is_now.opcode} stands where the region has {was.opcode}: such operations keep their order",
                instruction.span,
            )
        if was.loop_depth != is_now.loop_depth:
            raise rewrite.refuse("EFFECT_MOVED", f"{is_now.opcode} was moved into or out of a loop", instruction.span)
        if (is_now.guarded and not was.guarded) or (is_now.divergent and not was.divergent):
            raise rewrite.refuse(
                "CONVERGENCE",
                f"{is_now.opcode} was moved under a condition that may differ between threads",
                instruction.span,
            )
    if len(new) > len(old):
        extra = new[len(old)]
        raise rewrite.refuse("EFFECT_COUNT", f"{extra[0].opcode} is one more than the region has", extra[1].span)
    if len(new) < len(old):
        raise SpliceRefused("EFFECT_COUNT", f"the region's {old[len(new)][0].opcode} is missing", where="rewrite")


def _ordered(
    cfg: ControlFlowGraph, order: tuple[int, ...], uniform: frozenset[str]
) -> tuple[tuple[Ordered, Instruction], ...]:
    """Such operations of these blocks, in the order given."""
    blocks = frozenset(order)
    depths = loop_depths(cfg, tuple(loop for loop in natural_loops(cfg) if loop.blocks <= blocks))
    parting = divergent_branches(cfg, uniform) & blocks
    spheres = influence(cfg)
    divergent = frozenset(b for branch in parting for b in spheres[branch][0])
    return tuple(
        (
            Ordered(i.full_opcode, i.guard is not None, depths[block], block in divergent),
            i,
        )
        for block in order
        for i in cfg.instructions(block)
        if isa.effects(i) & ORDERED
    )
