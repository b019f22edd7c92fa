"""Which registers hold the same value in every thread of a block that reaches them together.

Divergence analysis after Karrenberg and Hack ("Improving performance of OpenCL on CPUs", CC 2012), kept to one
rule per source of difference: where a value comes from, and where paths that threads chose differently meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from hybridcc.passes.analysis.cfg import EXIT, ControlFlowGraph, is_branch
from hybridcc.passes.analysis.dominators import post_dominators
from hybridcc.passes.analysis.liveness import Liveness, live
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction, Member, Name

UNIFORM_SPECIALS = frozenset({"%ntid", "%ctaid", "%nctaid", "%gridid", "%dynamic_smem_size", "%total_smem_size"})
"""Special registers that are the same for a whole block (ISA chapter 10)."""

UNIFORM_SPACES = frozenset({".param", ".const"})
"""Memory that no thread writes during a launch, so that one address gives one value."""


@dataclass(frozen=True, slots=True)
class Influence:
    """What hangs on one branch: ``sphere`` are the blocks that run or not by it, before all its ways meet again;
    ``joins`` the blocks where ways that began at different successors come together."""

    sphere: frozenset[int]
    joins: frozenset[int]


def uniform_registers(cfg: ControlFlowGraph, *, varying: frozenset[str] = frozenset()) -> frozenset[str]:
    """The registers known to be block-uniform wherever they are live; ``varying`` are known not to be.

    A register that no instruction defines (a live-in of the code seen) is taken as uniform unless ``varying``.
    """
    liveness = live(cfg)
    influences = influence(cfg)
    different = set(varying)
    changed = True
    while changed:
        before = len(different)
        for block in cfg.blocks:
            for instruction in cfg.instructions(block.index):
                if not _same_results(cfg, instruction, different):
                    different.update(isa.defs(instruction))
        for branch, found in influences.items():
            if not _taken_together(cfg, branch, different):
                different.update(_merged(cfg, liveness, found))
        changed = len(different) != before
    return frozenset(cfg.scoped.types) - different


def divergent_branches(cfg: ControlFlowGraph, uniform: frozenset[str]) -> frozenset[int]:
    """Blocks at whose end threads of one block may part."""
    varying = set(cfg.scoped.types) - uniform
    return frozenset(b for b in influence(cfg) if not _taken_together(cfg, b, varying))


def influence(cfg: ControlFlowGraph) -> dict[int, Influence]:
    """The influence of each block that ends in a choice."""
    tree = post_dominators(cfg)
    return {
        block.index: _influence(cfg, block.index, tree.parent.get(block.index, EXIT))
        for block in cfg.blocks
        if len(block.successors) + block.leaves >= 2
    }


def _influence(cfg: ControlFlowGraph, branch: int, meeting: int) -> Influence:
    """Each successor's name is carried along the ways from it; where two names arrive, ways join."""
    carried = {successor: successor for successor in cfg.blocks[branch].successors}
    joins: set[int] = set()
    waiting = sorted(s for s in carried if s != meeting)  # in source order, so that most names arrive but once
    while waiting:
        block = heappop(waiting)
        for successor in cfg.blocks[block].successors:
            name = carried[block]
            if carried.get(successor) == name:
                continue
            if successor in carried:
                if successor in joins:
                    continue
                joins.add(successor)
                name = successor
            carried[successor] = name
            if successor != meeting:
                heappush(waiting, successor)
    return Influence(frozenset(carried) - {meeting}, frozenset(joins))


def _same_results(cfg: ControlFlowGraph, instruction: Instruction, different: set[str]) -> bool:
    """Whether threads that run it with the same operands get the same results, and have the same operands."""
    effects = isa.effects(instruction)
    if effects & {Effect.ATOMIC, Effect.CONVERGENT, Effect.VOLATILE, Effect.CALL}:
        return False
    if Effect.READ in effects and isa.memory_space(instruction) not in UNIFORM_SPACES:
        return False
    if any(use in different for use in isa.uses(instruction)):
        return False
    return all(
        name.partition(".")[0] in UNIFORM_SPECIALS
        for operand in instruction.operands
        if isinstance(operand, (Name, Member))
        for name in [operand.text if isinstance(operand, Name) else operand.name]
        if name not in cfg.scoped.types and isa.is_special_register(name)
    )


def _taken_together(cfg: ControlFlowGraph, branch: int, different: set[str]) -> bool:
    last = cfg.instructions(branch)[-1]
    return is_branch(last) and not any(use in different for use in isa.uses(last))


def _merged(cfg: ControlFlowGraph, liveness: Liveness, found: Influence) -> frozenset[str]:
    """Registers that hold one value or another where ways join, by the way a thread took."""
    defined = {d for b in found.sphere for i in cfg.instructions(b) for d in isa.defs(i)}
    return frozenset(r for join in found.joins for r in liveness.live_in[join] if r in defined)
