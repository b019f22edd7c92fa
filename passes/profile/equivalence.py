"""Blocks that are always executed equally often: one counter serves a whole class of them."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.dominators import DominatorTree, dominators, post_dominators
from hybridcc.passes.analysis.loops import irreducible_blocks, natural_loops


@dataclass(frozen=True, slots=True)
class CountClass:
    """``blocks`` are executed equally often by every thread that ends; the first one carries the counter.

    ``every_thread`` says that each thread executes them exactly once, so that nothing need be counted;
    ``repeats`` that a thread may execute them more than once.
    """

    blocks: tuple[int, ...]
    every_thread: bool
    repeats: bool

    @property
    def counted_at(self) -> int:
        return self.blocks[0]


def count_classes(cfg: ControlFlowGraph) -> tuple[CountClass, ...]:
    """The reachable blocks in classes, in order of their first block.

    Two blocks belong together if one dominates the other, is post-dominated by it, and the same loops hold both
    (control equivalence: Johnson, Pearson, Pingali, PLDI 1994). A thread that never ends, or that traps, breaks the
    argument, and such a launch has no counts. Blocks on irreducible cycles stay alone.
    """
    forward, backward = dominators(cfg), post_dominators(cfg)
    loops = natural_loops(cfg)
    tangled = irreducible_blocks(cfg)
    inside = {b: frozenset(n for n, loop in enumerate(loops) if b in loop.blocks) for b in cfg.reachable}
    classes: list[list[int]] = []
    for block in sorted(cfg.reachable):
        home = next((c for c in classes if _equivalent(c[0], block, forward, backward, inside, tangled)), None)
        if home is None:
            classes.append([block])
        else:
            home.append(block)
    return tuple(
        CountClass(
            tuple(members),
            every_thread=members[0] == cfg.entry and not inside[cfg.entry] and cfg.entry not in tangled,
            repeats=bool(inside[members[0]]) or members[0] in tangled,
        )
        for members in classes
    )


def _equivalent(
    a: int,
    b: int,
    forward: DominatorTree,
    backward: DominatorTree,
    inside: dict[int, frozenset[int]],
    tangled: frozenset[int],
) -> bool:
    if inside[a] != inside[b] or a in tangled or b in tangled:
        return False
    return (forward.dominates(a, b) and backward.dominates(b, a)) or (
        forward.dominates(b, a) and backward.dominates(a, b)
    )
