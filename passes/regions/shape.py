"""Where a region begins and ends: the growth of a single-entry single-exit region around a loop.

A region is as large as it can be with nothing but the loop's own business in it: the computations that lead to
it (Numba's range state, the zero-trip test), and the remainder loop that an unroller left behind. It stops at
whatever has an effect of its own, such as the store of the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from hybridcc.passes.analysis.cfg import ControlFlowGraph, reach
from hybridcc.passes.analysis.dominators import DominatorTree, dominators, post_dominators
from hybridcc.passes.analysis.liveness import Liveness, live, live_before
from hybridcc.passes.analysis.loops import Loop, natural_loops
from hybridcc.passes.regions.ports import port_registers
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Directive, Instruction, Label, Member, Name

REACH_LIMIT = 16
"""How many blocks up and down the (post-)dominator tree one step of growth looks: a bound on time only."""

FLOATING = (".f16", ".bf16", ".f32", ".f64")

LASTING = frozenset(Effect) - {Effect.READ, Effect.CONTROL, Effect.CARRY_IN, Effect.CARRY_OUT, Effect.HINT}
"""Effects that keep code which is not the loop's own out of its region."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Every edge into ``blocks`` goes to ``entry``, every edge out of them to ``exit``, which is outside."""

    entry: int
    exit: int
    blocks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Graph:
    """A control-flow graph with what region finding asks of it, computed once."""

    cfg: ControlFlowGraph
    dominators: DominatorTree
    post_dominators: DominatorTree
    liveness: Liveness
    loops: tuple[Loop, ...]


def graph_of(cfg: ControlFlowGraph) -> Graph:
    return Graph(cfg, dominators(cfg), post_dominators(cfg), live(cfg), natural_loops(cfg))


def enclosed(cfg: ControlFlowGraph, entry: int, exit_: int) -> Shape | None:
    """The single-entry single-exit shape between two blocks, or None if there is none."""
    if entry == exit_ or exit_ < 0:
        return None
    blocks = reach(cfg, entry, avoiding=exit_)
    for block in blocks:
        if cfg.blocks[block].leaves:
            return None
        if block != entry and any(p not in blocks for p in cfg.predecessors[block]):
            return None
    return Shape(entry, exit_, blocks)


def smallest(graph: Graph, loop: Loop) -> Shape | None:
    """The smallest shape that holds the whole loop; None where a path leaves the kernel from inside."""
    for entry, exit_ in _pairs(graph, loop.header, loop.header):
        shape = enclosed(graph.cfg, entry, exit_)
        if shape is not None and loop.blocks <= shape.blocks:
            return shape
    return None


def grow(graph: Graph, loop: Loop, start: Shape) -> Shape:
    """The shape around ``start`` with the fewest ports among the largest that hold only the loop's business."""
    best = [start]
    current = start
    while (wider := _wider(graph, loop, current)) is not None:
        if _held(graph, loop, wider) != _held(graph, loop, best[0]):
            best = []
        best.append(wider)
        current = wider
    exits = list(graph.post_dominators.chain(start.exit))
    return min(best, key=lambda s: (_ports(graph, s), exits.index(s.exit), -len(s.blocks)))


def split_entry(graph: Graph, shape: Shape) -> tuple[Shape, int]:
    """The shape with the statement it had better begin at.

    That may be in the middle of its entry block, or of the block above: after the kernel's parameter loads,
    where the fewest registers are live in.
    """
    fewest = _ports(graph, shape)
    best = (shape, graph.cfg.blocks[shape.entry].first)
    for block, blocks in _openings(graph, shape):
        wider = Shape(block, shape.exit, blocks)
        for statement in _positions(graph.cfg, block):
            ports = _ports(graph, wider, statement)
            if ports < fewest:
                fewest, best = ports, (wider, statement)
    return best


def _openings(graph: Graph, shape: Shape) -> Iterator[tuple[int, frozenset[int]]]:
    """Blocks that a region may begin inside, with the blocks it then covers."""
    cfg = graph.cfg
    if not any(p in shape.blocks for p in cfg.predecessors[shape.entry]):
        yield shape.entry, shape.blocks
    above = graph.dominators.parent.get(shape.entry)
    if above is None:
        return
    wider = enclosed(cfg, above, shape.exit)
    if wider is None or wider.blocks - shape.blocks != {above}:
        return
    if not any(p in wider.blocks for p in cfg.predecessors[above]):
        yield above, wider.blocks


def _positions(cfg: ControlFlowGraph, block: int) -> list[int]:
    """Statements of a block that a region may begin at: nothing from there on is kernel set-up or has an effect."""
    found: list[int] = []
    b = cfg.blocks[block]
    for index in range(b.last - 1, b.first, -1):
        statement = cfg.statements[index]
        if not isinstance(statement, Instruction):
            if isinstance(statement, (Label, Directive)):
                break  # a directive binds to the instruction after it
            continue
        effects = isa.effects(statement)
        if effects & (LASTING | {Effect.CARRY_OUT}) or is_setup(statement):
            break
        found.append(index)
    return found[::-1]


def is_setup(instruction: Instruction) -> bool:
    """Whether it reads a kernel parameter or a special register, as a kernel does once, at its start."""
    if isa.memory_space(instruction) == ".param":
        return True
    sources = (o.text if isinstance(o, Name) else o.name for o in instruction.operands if isinstance(o, (Name, Member)))
    return any(isa.is_special_register(name) for name in sources)


def _wider(graph: Graph, loop: Loop, shape: Shape) -> Shape | None:
    """The next larger shape that holds only the loop's business, growing upwards before downwards."""
    for entry, exit_ in _pairs(graph, shape.entry, shape.exit):
        if (entry, exit_) == (shape.entry, shape.exit):
            continue
        wider = enclosed(graph.cfg, entry, exit_)
        if wider is None or not wider.blocks > shape.blocks:
            continue
        if _belongs(graph, loop, wider.blocks, wider.blocks - shape.blocks):
            return wider
    return None


def _pairs(graph: Graph, above: int, below: int) -> Iterator[tuple[int, int]]:
    """(entry, exit) candidates by distance, entries first."""
    entries = list(islice(graph.dominators.chain(above), REACH_LIMIT))
    exits = list(islice(graph.post_dominators.chain(below), REACH_LIMIT))
    for distance in range(len(entries) + len(exits) - 1):
        for down in range(distance + 1):
            up = distance - down
            if up < len(entries) and down < len(exits):
                yield entries[up], exits[down]


def _belongs(graph: Graph, loop: Loop, whole: frozenset[int], added: frozenset[int]) -> bool:
    """Whether the blocks added to make ``whole`` prepare the loop, or are what an unroller left over of it."""
    cfg = graph.cfg
    work = _work(cfg, loop.blocks)
    for other in graph.loops:
        shared = other.blocks & added
        if not shared:
            continue
        if loop.blocks < other.blocks:
            if other.blocks <= whole:
                return False  # the enclosing loop has a region of its own
        elif not other.blocks <= added or not _is_fraction(_work(cfg, other.blocks), work):
            return False
    lasting = Counter[str]()
    for block in sorted(added):
        for instruction in cfg.instructions(block):
            if is_setup(instruction):
                return False
            effects = isa.effects(instruction)
            if effects & {Effect.CALL, Effect.EXIT, Effect.BARRIER, Effect.CONVERGENT}:
                return False
            if effects & LASTING:
                lasting[instruction.full_opcode] += 1
    return all(2 * count <= work[opcode] for opcode, count in lasting.items())


def _work(cfg: ControlFlowGraph, blocks: Iterable[int]) -> Counter[str]:
    """How often each memory and floating-point operation stands in the blocks: what unrolling multiplies."""
    found: Counter[str] = Counter()
    for block in blocks:
        for instruction in cfg.instructions(block):
            touches = isa.effects(instruction) & {Effect.READ, Effect.WRITE, Effect.ATOMIC}
            if touches or any(m.startswith(FLOATING) for m in instruction.modifiers):
                found[instruction.full_opcode] += 1
    return found


def _is_fraction(part: Counter[str], whole: Counter[str]) -> bool:
    """Whether ``part`` does what ``whole`` does, at most half as often."""
    return part.keys() == whole.keys() and all(2 * part[k] <= whole[k] for k in part)


def _held(graph: Graph, loop: Loop, shape: Shape) -> int:
    """How many loops the shape holds, and blocks that do a trip's work: remainders that were unrolled away."""
    work = _work(graph.cfg, loop.blocks)
    loops = sum(one.blocks <= shape.blocks for one in graph.loops)
    trips = sum(_is_fraction(_work(graph.cfg, (b,)), work) for b in shape.blocks - loop.blocks) if work else 0
    return loops + trips


def _ports(graph: Graph, shape: Shape, first: int | None = None) -> int:
    """How many registers cross the region's border, if its entry block begins at statement ``first``."""
    cfg = graph.cfg
    start = cfg.blocks[shape.entry].first if first is None else first
    inside = [
        statement
        for block in shape.blocks
        for index in range(cfg.blocks[block].first, cfg.blocks[block].last)
        if (block != shape.entry or index >= start) and isinstance(statement := cfg.statements[index], Instruction)
    ]
    ins, outs = port_registers(inside, live_before(cfg, graph.liveness, start), graph.liveness.live_in[shape.exit])
    return len(ins) + len(outs)
