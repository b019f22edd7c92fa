"""Dominator and post-dominator trees of a control-flow graph, with constant-time ancestor queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hybridcc.passes.analysis.cfg import EXIT, ControlFlowGraph


@dataclass(frozen=True, slots=True)
class DominatorTree:
    """``parent[b]`` is b's immediate (post-)dominator; the root and unreachable blocks have no entry.

    Of a post-dominator tree the root is EXIT, the place every ``ret``, ``exit`` and the closing brace lead to;
    a block from which no path leaves the kernel is unreachable there.
    """

    root: int
    parent: Mapping[int, int]
    _interval: Mapping[int, tuple[int, int]] = field(repr=False)

    def __contains__(self, block: int) -> bool:
        return block in self._interval

    def dominates(self, above: int, below: int) -> bool:
        """Whether every path from the root to ``below`` passes ``above`` (every block dominates itself)."""
        if above not in self._interval or below not in self._interval:
            return False
        first, last = self._interval[above]
        return first <= self._interval[below][0] <= last

    def chain(self, block: int) -> Iterator[int]:
        """``block``, its immediate dominator, and so on up to the root; empty for an unreachable block."""
        if block not in self._interval:
            return
        yield block
        while block in self.parent:
            block = self.parent[block]
            yield block


def dominators(cfg: ControlFlowGraph) -> DominatorTree:
    """The dominator tree of the blocks reachable from the entry."""
    import networkx

    return _tree(networkx.immediate_dominators(cfg.graph, cfg.entry), cfg.entry)


def post_dominators(cfg: ControlFlowGraph) -> DominatorTree:
    """The post-dominator tree, rooted at EXIT."""
    import networkx

    backwards = cfg.graph.reverse(copy=True)
    backwards.add_node(EXIT)
    backwards.add_edges_from((EXIT, b.index) for b in cfg.blocks if b.leaves)
    return _tree(networkx.immediate_dominators(backwards, EXIT), EXIT)


def _tree(immediate: Mapping[int, int | None], root: int) -> DominatorTree:
    # networkx before 3.6 maps the root to itself, later to None
    parent = {b: p for b, p in immediate.items() if p is not None and b != root}
    children: dict[int, list[int]] = {}
    for block in sorted(parent):
        children.setdefault(parent[block], []).append(block)
    opened: dict[int, int] = {}
    interval: dict[int, tuple[int, int]] = {}
    clock = 0
    stack = [(root, False)]
    while stack:
        block, done = stack.pop()
        if done:
            interval[block] = (opened[block], clock - 1)
            continue
        opened[block] = clock
        clock += 1
        stack.append((block, True))
        stack.extend((child, False) for child in children.get(block, ()))
    return DominatorTree(root, parent, interval)
