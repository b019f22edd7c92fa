"""What is known at each block of a region: what its registers hold, and the conditions on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from hybridcc.passes.rewrite.rules.bounds import Bounds, known
from hybridcc.passes.rewrite.rules.evaluate import Environment, Evaluator, merged, symbol
from hybridcc.passes.rewrite.rules.subject import Subject
from hybridcc.passes.verify.proof.terms import Condition
from hybridcc.ptx import isa


@dataclass(slots=True)
class Known:
    """``ends`` are the registers behind each block, ``bounds`` what holds in it; blocks are read in order."""

    subject: Subject
    evaluator: Evaluator = field(init=False)
    ends: dict[int, Environment] = field(default_factory=dict)
    bounds: dict[int, Bounds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.evaluator = Evaluator(self.subject)

    def entered(self, block: int) -> Environment:
        """The registers at the top of a block; its bounds are noted. What a loop changes is unknown at its header."""
        self.bounds[block] = self._bounds(block)
        ways = [self.ends[p] for p in self.subject.cfg.predecessors[block] if p in self.ends]
        environment = merged(ways, self.evaluator) if ways else {}
        for loop in self.subject.loops:
            if loop.header == block:
                for changed in {d for b in loop.blocks for i in self.subject.instructions(b) for d in isa.defs(i)}:
                    environment[changed] = self.evaluator.unknown(changed)
        return environment

    def _bounds(self, block: int) -> Bounds:
        """What was known above, and the condition of the only branch to it."""
        above = self.subject.dominators.parent.get(block)
        if above is None or above not in self.bounds:
            return known(self.subject)
        bounds = self.bounds[above]
        cfg = self.subject.cfg
        instructions = cfg.instructions(above)
        guard = instructions[-1].guard if instructions else None
        if cfg.predecessors[block] != (above,) or guard is None or len(cfg.blocks[above].successors) != 2:
            return bounds
        condition = self.ends[above].get(guard.name, symbol(guard.name, 1))
        assert isinstance(condition, Condition)
        holds = (block != cfg.blocks[above].fallthrough) != guard.negated
        return bounds.assuming(bounds.simplify_condition(condition), holds).assuming(condition, holds)


def known_in(subject: Subject) -> Known:
    """For every block that is reached."""
    made = Known(subject)
    for block in sorted(subject.cfg.reachable):
        environment = made.entered(block)
        for instruction in subject.instructions(block):
            made.evaluator.run(instruction, environment)
        made.ends[block] = environment
    return made
