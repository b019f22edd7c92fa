"""Putting new code where a region was: the walk over the syntax tree that rebuilds a function's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from hybridcc.errors import SpliceRefused
from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.names import NameScope
from hybridcc.ptx.nodes import (
    Block,
    Function,
    Instruction,
    Label,
    Module,
    RegisterDeclaration,
    Statement,
    Variable,
)

Path: TypeAlias = tuple[int, ...]
"""Positions in nested statement lists: (3, 0) is the first statement of the scope that is a body's fourth."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a region stands.

    ``at`` is the flattened statement before which the new code goes; ``removed`` the statements it takes the
    place of; ``falls`` whether what follows it there is the region's exit.
    """

    at: int
    removed: frozenset[int]
    falls: bool


def paths_of(body: Block) -> list[Path]:
    """The place in the tree of every flattened statement, in order."""
    found: list[Path] = []

    def walk(statements: tuple[Statement, ...], above: Path) -> None:
        for index, statement in enumerate(statements):
            if isinstance(statement, Block):
                walk(statement.statements, (*above, index))
            else:
                found.append((*above, index))

    walk(body.statements, ())
    return found


def site_of(region: Region, body: Block) -> Site:
    """Where the region stands in its kernel's body. Raises SpliceRefused(SCOPE) where it crosses a scope's brace."""
    cfg = region.cfg
    paths = paths_of(body)
    if len(paths) != len(cfg.statements):
        raise SpliceRefused("OTHER_KERNEL", "the region was found in another kernel's text")
    first, last = cfg.blocks[region.entry].first, cfg.blocks[region.entry].last
    head = [i for i in range(first, last) if isinstance(cfg.statements[i], Instruction)]
    # Behind the labels that lead there, and behind declarations: what they declare may be named in the new code.
    before = [
        i
        for i in range(first, head[0] if head else last)
        if isinstance(cfg.statements[i], (Label, RegisterDeclaration, Variable))
    ]
    at = before[-1] + 1 if before else first
    scope = paths[at][:-1]
    kept = frozenset(range(first, at))
    removed = frozenset(
        i
        for i in region.statements - kept
        if not (isinstance(cfg.statements[i], (RegisterDeclaration, Variable)) and paths[i][:-1] == scope)
    )
    _within_one_scope(paths, scope, removed, cfg)
    return Site(at, removed, _falls(cfg, region, at, removed))


def insert(
    function: Function,
    before: Mapping[int, Sequence[Statement]],
    removed: frozenset[int],
    changed: Mapping[int, Statement],
) -> Function:
    """The function with statements put in ``before`` flattened ones, and others removed or changed."""
    body = function.body
    assert body is not None
    counter = 0

    def walk(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal counter
        made: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Block):
                start = counter
                inside = walk(statement.statements)
                if not removed.issuperset(range(start, counter)) or start == counter:
                    made.append(replace(statement, statements=inside))
                continue
            made.extend(before.get(counter, ()))
            if counter not in removed:
                made.append(changed.get(counter, statement))
            counter += 1
        return tuple(made)

    return replace(function, body=replace(body, statements=walk(body.statements)))


def exit_label(region: Region, body: Block, site: Site, names: NameScope) -> tuple[str, int | None]:
    """A label of the exit block, and where to place it if it is a new one.

    Raises SpliceRefused(SCOPE) where the exit lies in a scope that cannot be branched into.
    """
    cfg = region.cfg
    paths = paths_of(body)
    exit_ = cfg.blocks[region.exit]
    here = paths[site.at][:-1]
    for index in range(exit_.first, exit_.last):
        statement = cfg.statements[index]
        if isinstance(statement, Label) and here[: len(paths[index]) - 1] == paths[index][:-1]:
            return cfg.scoped.spelling(statement.name), None
    if here[: len(paths[exit_.first]) - 1] != paths[exit_.first][:-1]:
        raise SpliceRefused("SCOPE", "the region leaves into a scope that cannot be branched into")
    return names.claim(f"${names.prefix('hccexit')}"), exit_.first


def with_function(module: Module, old: Function, new: Function) -> Module:
    """The module with one function replaced."""
    return replace(module, items=tuple(new if item is old else item for item in module.items))


def _within_one_scope(paths: list[Path], scope: Path, removed: frozenset[int], cfg: ControlFlowGraph) -> None:
    """Every removed statement lies in ``scope``, and a scope inside it is removed as a whole or not at all."""
    depth = len(scope)
    inner: dict[Path, bool] = {}
    for index, path in enumerate(paths):
        inside = path[:depth] == scope
        if index in removed and not inside:
            raise SpliceRefused("SCOPE", "the region reaches out of the scope that it begins in")
        if inside and len(path) > depth + 1:
            nested = path[: depth + 1]
            if inner.setdefault(nested, index in removed) != (index in removed):
                raise SpliceRefused("SCOPE", "the region ends inside a scope that it holds the beginning of")


def _falls(cfg: ControlFlowGraph, region: Region, at: int, removed: frozenset[int]) -> bool:
    """Whether control that leaves the new code at its end meets the exit block first."""
    exit_ = cfg.blocks[region.exit]
    for index in range(at, len(cfg.statements)):
        if index in removed or not isinstance(cfg.statements[index], (Instruction, Label)):
            continue
        return exit_.first <= index < exit_.last and not any(
            isinstance(s, Instruction) for s in cfg.statements[exit_.first : index]
        )
    return False
