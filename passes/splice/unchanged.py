"""The proof that a candidate differs from its baseline inside the rewritten regions only.

It shares nothing with the code that splices: it reads both bodies as sequences of statements and scope braces,
takes out of the one what the regions covered, out of the other what carries a rewrite's prefix, and compares
the rest statement by statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from hybridcc.errors import SpliceRefused
from hybridcc.passes.splice.candidate import Candidate, Part
from hybridcc.ptx.nodes import (
    Block,
    Comment,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    RegisterDeclaration,
    Statement,
    Variable,
)

Token: TypeAlias = Statement | str
"""A statement, or a scope's "{" or "}"."""


def check_outside(baseline: Module, candidate: Candidate) -> None:
    """Raises SpliceRefused(OUTSIDE_CHANGED) unless everything but the regions' statements is as it was."""
    if len(baseline.items) != len(candidate.module.items):
        raise _changed("the module's items")
    for old, new in zip(baseline.items, candidate.module.items, strict=True):
        if isinstance(old, Function) and isinstance(new, Function) and old.name == candidate.function:
            if replace(old, body=None) != replace(new, body=None):
                raise _changed("the kernel's head")
            _compare(old, new, candidate)
        elif old != new:
            raise _changed("another part of the module")


def _compare(old: Function, new: Function, candidate: Candidate) -> None:
    assert old.body is not None
    assert new.body is not None
    before = _without_empty_scopes(_outside_regions(old.body, candidate.parts))
    after = _without_empty_scopes(_outside_rewrites(new.body.statements, candidate.parts))
    if len(before) != len(after):
        raise _changed("the number of statements outside the regions")
    for was, is_now in zip(before, after, strict=True):
        if was != is_now:
            raise _changed(f"the statement {was}")


def _outside_regions(body: Block, parts: tuple[Part, ...]) -> Iterator[Token]:
    """The baseline's tokens; of a region kept behind a guard with its jumps to its own entry led to the fallback."""
    covered = {index: part for part in parts for index in part.region.statements}
    heads = {index for part in parts for index in _before_first_instruction(part)}
    depths = _depths(body)
    index = -1
    for token in _tokens(body.statements):
        if isinstance(token, str):
            yield token
            continue
        index += 1
        if isinstance(token, Comment):
            continue
        part = covered.get(index)
        if part is None or _stays(token, index, part, heads, depths):
            yield token
        elif part.fallback:
            yield _towards_fallback(token, part)


def _stays(token: Statement, index: int, part: Part, heads: set[int], depths: list[int]) -> bool:
    """The region's entry labels and the declarations of the scope it stands in are not its own."""
    if isinstance(token, Label):
        return index in heads
    entry = part.region.cfg.blocks[part.region.entry].first
    return isinstance(token, (RegisterDeclaration, Variable)) and depths[index] == depths[entry]


def _depths(body: Block) -> list[int]:
    """How many scopes each flattened statement lies in."""
    found: list[int] = []
    depth = 0
    for token in _tokens(body.statements):
        if isinstance(token, str):
            depth += 1 if token == "{" else -1
        else:
            found.append(depth)
    return found


def _towards_fallback(statement: Statement, part: Part) -> Statement:
    cfg = part.region.cfg
    entries = {cfg.scoped.spelling(label) for label in cfg.blocks[part.region.entry].labels}
    if not isinstance(statement, Instruction):
        return statement
    operands = tuple(
        Name(part.fallback) if isinstance(o, Name) and o.text in entries else o for o in statement.operands
    )
    return replace(statement, operands=operands)


def _before_first_instruction(part: Part) -> list[int]:
    """The flattened statements before the first instruction of the region."""
    cfg = part.region.cfg
    block = cfg.blocks[part.region.entry]
    found: list[int] = []
    for index in range(block.first, block.last):
        if isinstance(cfg.statements[index], Instruction):
            break
        found.append(index)
    return found


def _outside_rewrites(statements: tuple[Statement, ...], parts: tuple[Part, ...]) -> Iterator[Token]:
    skip = ""
    for statement in statements:
        made_by = _maker(statement, parts)
        if made_by is not None:
            skip = made_by.leaves_to
            continue
        if isinstance(statement, Comment):
            continue
        if skip and statement == Instruction("bra", (), (Name(skip),)):
            skip = ""
            continue
        skip = ""
        if isinstance(statement, Block):
            yield "{"
            yield from _outside_rewrites(statement.statements, parts)
            yield "}"
        elif not (isinstance(statement, Label) and _is_new(statement.name, parts)):
            yield statement


def _maker(statement: Statement, parts: tuple[Part, ...]) -> Part | None:
    """The part whose scope this statement is."""
    if not isinstance(statement, Block):
        return None
    first = next((s for s in _tokens(statement.statements) if isinstance(s, Label)), None)
    for part in parts:
        if first is not None and first.name.startswith(f"${part.prefix}"):
            return part
    return None


def _is_new(label: str, parts: tuple[Part, ...]) -> bool:
    return label.startswith("$hccexit") or any(label == part.fallback for part in parts)


def _tokens(statements: tuple[Statement, ...]) -> Iterator[Token]:
    for statement in statements:
        if isinstance(statement, Block):
            yield "{"
            yield from _tokens(statement.statements)
            yield "}"
        else:
            yield statement


def _without_empty_scopes(tokens: Iterator[Token]) -> list[Token]:
    """A scope that a region filled alone disappears with it."""
    kept: list[Token] = []
    for token in tokens:
        if token == "}" and kept and kept[-1] == "{":
            kept.pop()
        else:
            kept.append(token)
    return kept


def _changed(what: str) -> SpliceRefused:
    return SpliceRefused(
        "OUTSIDE_CHANGED", f"splicing changed {what}", next_step="this is a defect of hybridcc; please report it"
    )
