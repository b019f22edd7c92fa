"""What is known where control comes to a loop: the conditions on the way, and what the registers hold."""

from __future__ import annotations

from collections.abc import Iterable

from hybridcc.passes.analysis.cfg import reach
from hybridcc.passes.rewrite.rules.bounds import Bounds
from hybridcc.passes.rewrite.rules.evaluate import Environment, Evaluator, merged, symbol
from hybridcc.passes.rewrite.rules.subject import Subject
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.terms import Condition, Polynomial
from hybridcc.ptx import isa


def entered(evaluator: Evaluator, bounds: Bounds, head: int, exit_: int) -> tuple[Bounds, Environment]:
    """What holds behind block ``head``, on the way to the loops.

    Registers that a loop around it changes are unknown there.
    """
    subject, cfg = evaluator.subject, evaluator.subject.cfg
    ends: dict[int, Environment] = {}
    for block in sorted(_before(subject, head)):
        ways = [ends[p] for p in cfg.predecessors[block] if p in ends]
        environment = merged(ways, evaluator) if ways else {}
        for register in _changed(subject, block):
            environment[register] = evaluator.unknown(register)
        for instruction in cfg.instructions(block):
            evaluator.run(instruction, environment)
        ends[block] = environment
        if block in subject.dominators.chain(head):
            bounds = _decided(evaluator, bounds, block, environment, (head, exit_))
    return bounds, ends[head]


def _before(subject: Subject, head: int) -> list[int]:
    """The blocks that may come before ``head`` in the same turn of the loops around it, itself among them."""
    back = {(latch, loop.header) for loop in subject.loops for latch in loop.latches}
    found, waiting = {head}, [head]
    while waiting:
        block = waiting.pop()
        for p in subject.cfg.predecessors[block]:
            if (p, block) not in back and p not in found:
                found.add(p)
                waiting.append(p)
    return sorted(found)


def _changed(subject: Subject, block: int) -> set[str]:
    """The registers that a loop with this header changes."""
    return {
        d
        for loop in subject.loops
        if loop.header == block
        for b in loop.blocks
        for i in subject.instructions(b)
        for d in isa.defs(i)
        if d in subject.types
    }


def _decided(
    evaluator: Evaluator,
    bounds: Bounds,
    block: int,
    environment: Environment,
    place: tuple[int, int],
) -> Bounds:
    """With the condition of a branch that leads to the loops one way only."""
    head, exit_ = place
    subject, cfg = evaluator.subject, evaluator.subject.cfg
    instructions = cfg.instructions(block)
    successors = cfg.blocks[block].successors
    guard = instructions[-1].guard if instructions else None
    if guard is None or len(successors) != 2:
        return bounds
    if block == head:
        leading = [s for s in successors if s != exit_]
    else:
        leading = [s for s in successors if cfg.predecessors[s] == (block,) and s in subject.dominators.chain(head)]
        leading = leading or [s for s in successors if head in reach(cfg, s)]
    if len(leading) != 1:
        return bounds
    condition = environment.get(guard.name, symbol(guard.name, 1))
    assert isinstance(condition, Condition)
    holds = (leading[0] != cfg.blocks[block].fallthrough) != guard.negated
    return bounds.assuming(bounds.simplify_condition(condition), holds).assuming(condition, holds)


def along(evaluator: Evaluator, before: Environment, path: Iterable[int]) -> Environment:
    """The registers behind the blocks of a path."""
    environment = dict(before)
    for block in path:
        for instruction in evaluator.subject.instructions(block):
            evaluator.run(instruction, environment)
    return environment


def simplified(environment: Environment, bounds: Bounds) -> Environment:
    """With every condition that is decided put in its place."""
    rewriter = Rewriter(decide=bounds.decide)
    return {
        register: rewriter.polynomial(value) if isinstance(value, Polynomial) else rewriter.condition(value)
        for register, value in environment.items()
    }
