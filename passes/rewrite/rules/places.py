"""Where a loop begins and ends, with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Iterable

from hybridcc.passes.analysis.cfg import reach
from hybridcc.passes.analysis.loops import Loop
from hybridcc.passes.rewrite.rules.copies import is_work
from hybridcc.passes.rewrite.rules.subject import Subject, Unrecognised

LONGEST_WAY = 8
"""Blocks between what is before a loop and the loop."""


def around(subject: Subject, blocks: Iterable[int]) -> tuple[int, int]:
    """The nearest blocks that all of these lie between. Raises Unrecognised where there are none."""
    inside = set(blocks)
    above = [list(subject.dominators.chain(b)) for b in inside]
    below = [list(subject.post_dominators.chain(b)) for b in inside]
    head = next((b for b in above[0] if b not in inside and all(b in chain for chain in above)), None)
    exit_ = next((b for b in below[0] if b not in inside and all(b in chain for chain in below)), None)
    if head is None or exit_ is None or exit_ < 0:
        raise Unrecognised("NO_ENTRY", "it begins inside its loop")
    for block in group(subject, head, exit_):
        if any(head not in subject.dominators.chain(p) for p in subject.cfg.predecessors[block]):
            raise Unrecognised("TANGLED", "its loops are entered from several places")
    return head, exit_


def group(subject: Subject, head: int, exit_: int) -> frozenset[int]:
    """The blocks between the two."""
    return reach(subject.cfg, head, avoiding=exit_) - {head}


def way(subject: Subject, head: int, loop: Loop, avoided: frozenset[int]) -> tuple[int, ...]:
    """The blocks between ``head`` and the loop on the way that does no work. Raises Unrecognised where there is none,
    or more than one."""
    waiting: list[tuple[int, ...]] = [()]
    found: list[tuple[int, ...]] = []
    while waiting:
        path = waiting.pop()
        for successor in subject.cfg.blocks[path[-1] if path else head].successors:
            if successor == loop.header:
                found.append(path)
            elif successor not in avoided and successor not in path and successor not in loop.blocks:
                works = any(is_work(i) and i.opcode != "mov" for i in subject.instructions(successor))
                if len(path) < LONGEST_WAY and not works:
                    waiting.append((*path, successor))
    if len(found) != 1:
        raise Unrecognised("NO_WAY", f"{len(found)} ways lead to its loop")
    return found[0]
