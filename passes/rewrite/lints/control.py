"""What divergence and predicates cost: barriers that part of a block reaches, guards that say nothing new, too many
predicates."""

from __future__ import annotations

from collections.abc import Mapping

from hybridcc.passes.analysis.dominators import dominators
from hybridcc.passes.analysis.liveness import live, live_before
from hybridcc.passes.analysis.uniform import divergent_branches, influence
from hybridcc.passes.rewrite.lints.finding import Finding, Subject
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Immediate, Instruction
from hybridcc.ptx.targets import PREDICATES_PER_THREAD

FULL_MASKS = (-1, 0xFFFFFFFF)


def divergent_convergence(subject: Subject) -> tuple[Finding, ...]:
    """Barriers and full-mask shuffles and votes where threads of a block may have parted."""
    spheres = influence(subject.cfg)
    parted = {b for branch in divergent_branches(subject.cfg, subject.uniform) for b in spheres[branch].sphere}
    found = []
    for index, instruction in subject.instructions:
        effects = isa.effects(instruction)
        guarded = instruction.guard is not None and instruction.guard.name not in subject.uniform
        if not (guarded or subject.cfg.block_of(index) in parted):
            continue
        if Effect.BARRIER in effects and ".warp" not in instruction.modifiers:
            text = "threads of one block may part before it: those that come wait for those that do not"
            found.append(subject.finding("DIVERGENT_BARRIER", "warning", index, text))
        elif Effect.CONVERGENT in effects and _full_mask(instruction):
            text = "its mask names all 32 lanes, and some may not come: what it gives is then undefined"
            found.append(subject.finding("DIVERGENT_SHUFFLE", "warning", index, text))
    return tuple(found)


def _full_mask(instruction: Instruction) -> bool:
    last = instruction.operands[-1] if instruction.operands else None
    sync = ".sync" in instruction.modifiers
    return sync and isinstance(last, Immediate) and evaluate(last.text).value in FULL_MASKS


def redundant_predication(subject: Subject) -> tuple[Finding, ...]:
    """Guards on a predicate that a branch above has decided already."""
    tree = dominators(subject.cfg)
    found = []
    for index, instruction in subject.instructions:
        guard = instruction.guard
        if guard is None or len(subject.definitions.get(guard.name, ())) != 1:
            continue
        block = subject.cfg.block_of(index)
        for above in _dominating(tree.parent, block):
            known = _decides(subject, above, block, guard.name)
            if known is not None:
                word = "always" if known is not guard.negated else "never"
                text = f"the branch that leads here has decided {guard.name} already: it {word} runs"
                found.append(subject.finding("REDUNDANT_PREDICATE", "note", index, text))
                break
    return tuple(found)


def _dominating(parent: Mapping[int, int | None], block: int) -> list[int]:
    chain = []
    at = parent.get(block)
    while at is not None and at >= 0:
        chain.append(at)
        at = parent.get(at)
    return chain


def _decides(subject: Subject, above: int, block: int, predicate: str) -> bool | None:
    """What the predicate is in ``block``, where the branch that ends ``above`` has decided it."""
    instructions = subject.cfg.instructions(above)
    last = instructions[-1] if instructions else None
    successors = subject.cfg.blocks[above].successors
    if last is None or last.opcode != "bra" or last.guard is None or last.guard.name != predicate:
        return None
    if len(successors) != 2:
        return None
    taken, through = successors
    tree = dominators(subject.cfg)
    for successor, value in ((taken, not last.guard.negated), (through, last.guard.negated)):
        alone = subject.cfg.predecessors[successor] == (above,)
        if alone and (successor == block or successor in _dominating(tree.parent, block)):
            return value
    return None


def predicate_pressure(subject: Subject) -> tuple[Finding, ...]:
    """Places where more predicates are live than a thread has."""
    liveness = live(subject.cfg)
    worst, where = 0, -1
    for index, _ in subject.instructions:
        types = subject.cfg.scoped.types
        count = sum(types.get(r) == ".pred" for r in live_before(subject.cfg, liveness, index))
        if count > worst:
            worst, where = count, index
    if worst <= PREDICATES_PER_THREAD:
        return ()
    text = (
        f"{worst} predicates are live here and a thread has {PREDICATES_PER_THREAD}: the others are kept in registers, "
        "which takes two instructions each"
    )
    return (subject.finding("PREDICATE_PRESSURE", "warning", where, text),)
