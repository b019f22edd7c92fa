"""The control-flow graph of one function, over its body with the scopes flattened."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hybridcc.errors import InputError
from hybridcc.ptx import isa, scopes
from hybridcc.ptx.nodes import BranchTargets, Function, Instruction, Label, Module, Statement

if TYPE_CHECKING:
    import networkx

EXIT = -1
"""Where a post-dominator tree is rooted: the end of the function, which is no block."""


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Statements ``first`` to ``last`` (exclusive) of ControlFlowGraph.statements, entered at the top only.

    ``labels`` are the resolver's unique labels. ``successors`` are block indices without repeats, the
    fall-through one last; ``fallthrough`` is the block that control reaches without a branch, None where the
    block always branches or leaves; ``leaves`` says whether control can leave the function here (``ret``,
    ``exit``, ``trap``, guarded or not, or falling off the closing brace).
    """

    index: int
    labels: tuple[str, ...]
    first: int
    last: int
    successors: tuple[int, ...]
    fallthrough: int | None
    leaves: bool


@dataclass(frozen=True)
class ControlFlowGraph:
    """Blocks in source order; block 0 is the entry. Unreachable blocks are kept."""

    function: Function
    scoped: scopes.Scoped = field(repr=False)
    blocks: tuple[BasicBlock, ...]
    entry: int = 0

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The flattened body, registers and labels renamed to unique ones."""
        return self.scoped.statements

    @cached_property
    def graph(self) -> networkx.DiGraph:
        """Block indices and the edges between them."""
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(range(len(self.blocks)))
        graph.add_edges_from((b.index, s) for b in self.blocks for s in b.successors)
        return graph

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.blocks]
        for block in self.blocks:
            for successor in block.successors:
                found[successor].append(block.index)
        return tuple(tuple(p) for p in found)

    @cached_property
    def reachable(self) -> frozenset[int]:
        return reach(self, self.entry)

    def instructions(self, block: int) -> tuple[Instruction, ...]:
        b = self.blocks[block]
        return tuple(s for s in self.statements[b.first : b.last] if isinstance(s, Instruction))

    def block_of(self, statement: int) -> int:
        """The block that holds the flattened statement of this index."""
        from bisect import bisect_right

        return bisect_right([b.first for b in self.blocks], statement) - 1


def build(function: Function, module: Module, *, splits: frozenset[int] = frozenset()) -> ControlFlowGraph:
    """The graph of a function that has a body; ``splits`` are statement indices where a block begins as well.

    Raises InputError for a branch to a label that is not there.
    """
    return from_scoped(function, scopes.resolve(function, module), splits=splits)


def from_scoped(function: Function, scoped: scopes.Scoped, *, splits: frozenset[int] = frozenset()) -> ControlFlowGraph:
    """build(), for statements that are resolved already."""
    statements = scoped.statements
    bounds = _bounds(statements, splits)
    labels = [_labels(statements[first:last]) for first, last in bounds]
    at = {label: index for index, names in enumerate(labels) for label in names}
    tables = {s.label: s.targets for s in statements if isinstance(s, BranchTargets)}
    blocks = []
    for index, (first, last) in enumerate(bounds):
        targets, falls, leaves = _ending(statements[first:last], tables)
        following = index + 1 if falls and index + 1 < len(bounds) else None
        edges = [_block_at(at, t) for t in targets] + ([] if following is None else [following])
        blocks.append(
            BasicBlock(
                index,
                labels[index],
                first,
                last,
                tuple(dict.fromkeys(edges)),
                following,
                leaves or (falls and following is None),
            )
        )
    return ControlFlowGraph(function, scoped, tuple(blocks))


def _block_at(at: dict[str, int], label: str) -> int:
    if label not in at:
        raise InputError(
            f"a branch to {label}, which is no label in reach", next_step="mend the PTX: ptxas refuses it as well"
        )
    return at[label]


def reach(cfg: ControlFlowGraph, start: int, *, avoiding: int | None = None) -> frozenset[int]:
    """The blocks on paths that begin at ``start`` and do not enter ``avoiding``."""
    seen = {start}
    waiting = [start]
    while waiting:
        for successor in cfg.blocks[waiting.pop()].successors:
            if successor != avoiding and successor not in seen:
                seen.add(successor)
                waiting.append(successor)
    return frozenset(seen)


def is_branch(instruction: Instruction) -> bool:
    """Whether control may go elsewhere than to the next statement (calls come back, so they do not count)."""
    effects = isa.effects(instruction)
    return isa.Effect.CONTROL in effects or isa.Effect.EXIT in effects


def _bounds(statements: tuple[Statement, ...], splits: frozenset[int]) -> list[tuple[int, int]]:
    """Half-open ranges that cover the body. Comments and directives go with what follows them in a block."""
    starts = [0]
    filled = False  # whether the block being made holds an instruction
    for index, statement in enumerate(statements):
        begins = isinstance(statement, Label) or index in splits
        if begins and filled:
            starts.append(index)
            filled = False
        if isinstance(statement, Instruction):
            filled = True
            if is_branch(statement):
                starts.append(index + 1)
                filled = False
    starts = list(dict.fromkeys(starts))
    tail = statements[starts[-1] :]
    if len(starts) > 1 and not any(isinstance(s, (Instruction, Label)) for s in tail):
        starts.pop()
    return list(zip(starts, [*starts[1:], len(statements)], strict=True))


def _labels(statements: tuple[Statement, ...]) -> tuple[str, ...]:
    return tuple(s.name for s in statements if isinstance(s, Label))


def _ending(
    statements: tuple[Statement, ...], tables: dict[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], bool, bool]:
    """(labels branched to, whether the next block is reached, whether the function is left)."""
    last = next((s for s in reversed(statements) if isinstance(s, Instruction)), None)
    if last is None or not is_branch(last):
        return (), True, False
    guarded = last.guard is not None
    if isa.Effect.EXIT in isa.effects(last):
        return (), guarded, True
    targets = tuple(target for name in isa.branch_targets(last) for target in tables.get(name, (name,)))
    return targets, guarded, False
