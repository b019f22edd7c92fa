"""Natural loops, their nesting, and what is not one (irreducible cycles)."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.dominators import dominators


@dataclass(frozen=True, slots=True)
class Loop:
    """A header that dominates its latches, and every block that reaches a latch without passing the header.

    ``exits`` are the edges (from inside, to outside); ``depth`` is 1 for an outermost loop; ``parent`` is the
    position of the enclosing loop in the tuple that natural_loops returns.
    """

    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]
    exits: tuple[tuple[int, int], ...]
    depth: int
    parent: int | None


def natural_loops(cfg: ControlFlowGraph) -> tuple[Loop, ...]:
    """Every natural loop, in order of its header's place in the source; loops with one header are one loop."""
    latches = _back_edges(cfg)
    bodies = {header: _body(cfg, header, sources) for header, sources in latches.items()}
    headers = sorted(bodies)
    position = {header: at for at, header in enumerate(headers)}
    parents: dict[int, int | None] = {}
    for header in headers:
        around = [h for h in headers if h != header and header in bodies[h]]
        parents[header] = min(around, key=lambda h: len(bodies[h]), default=None)
    return tuple(
        Loop(
            header=header,
            blocks=bodies[header],
            latches=latches[header],
            exits=_exits(cfg, bodies[header]),
            depth=_depth(header, parents),
            parent=None if (parent := parents[header]) is None else position[parent],
        )
        for header in headers
    )


def irreducible_blocks(cfg: ControlFlowGraph) -> frozenset[int]:
    """Blocks on a cycle that no single header dominates (entered at two places); empty for structured code."""
    import networkx

    acyclic = cfg.graph.copy()
    for header, sources in _back_edges(cfg).items():
        acyclic.remove_edges_from((source, header) for source in sources)
    reachable = cfg.reachable
    found: set[int] = set()
    for component in networkx.strongly_connected_components(acyclic):
        if len(component) > 1 and component <= reachable:
            found |= component
    return frozenset(found)


def loop_depths(cfg: ControlFlowGraph, loops: tuple[Loop, ...]) -> tuple[int, ...]:
    """For each block the number of loops around it."""
    return tuple(sum(b.index in loop.blocks for loop in loops) for b in cfg.blocks)


def _back_edges(cfg: ControlFlowGraph) -> dict[int, tuple[int, ...]]:
    tree = dominators(cfg)
    found: dict[int, tuple[int, ...]] = {}
    for block in cfg.blocks:
        for header in block.successors:
            if tree.dominates(header, block.index):
                found[header] = (*found.get(header, ()), block.index)
    return found


def _body(cfg: ControlFlowGraph, header: int, latches: tuple[int, ...]) -> frozenset[int]:
    body = {header}
    waiting = list(latches)
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting.extend(p for p in cfg.predecessors[block] if p in cfg.reachable)
    return frozenset(body)


def _exits(cfg: ControlFlowGraph, body: frozenset[int]) -> tuple[tuple[int, int], ...]:
    return tuple((b, s) for b in sorted(body) for s in cfg.blocks[b].successors if s not in body)


def _depth(header: int, parents: dict[int, int | None]) -> int:
    depth = 1
    parent = parents[header]
    while parent is not None:
        depth += 1
        parent = parents[parent]
    return depth
