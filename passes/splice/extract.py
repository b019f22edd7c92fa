"""extract(): the rewrites back out of a candidate, in the interface's own names."""

from __future__ import annotations

from collections.abc import Iterator

from hybridcc.passes.splice.candidate import Candidate, Part
from hybridcc.ptx.nodes import Block, Label
from hybridcc.ptx.printer import print_statements
from hybridcc.ptx.rename import rename_statement


def extract(candidate: Candidate) -> tuple[str, ...]:
    """The text of each part's rewrite as it stands in the candidate's PTX, comments and guard lines aside.

    Splicing the text again gives the same kernel.
    """
    function = next(f for f in candidate.module.entries if f.name == candidate.function)
    assert function.body is not None
    scopes = list(_scopes(function.body))
    return tuple(_text(_scope_of(part, scopes), part) for part in candidate.parts)


def _scopes(block: Block) -> Iterator[Block]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield statement
            yield from _scopes(statement)


def _scope_of(part: Part, scopes: list[Block]) -> Block:
    for scope in scopes:
        if any(isinstance(s, Label) and s.name == part.blocks[0] for s in scope.statements):
            return scope
    raise LookupError(f"no scope holds {part.blocks[0]}")


def _text(scope: Block, part: Part) -> str:
    old = {new: name for name, new in part.new_names.items()}
    old |= {p.spelling: f"%in{k}" for k, p in enumerate(part.region.live_in)}
    old |= {p.spelling: f"%out{k}" for k, p in enumerate(part.region.live_out)}
    old |= {copy: f"%in{k}" for k, copy in part.copies.items()}
    old |= {name: symbol for symbol, name in part.region.symbols.items()}
    first, last = part.made
    own = set(part.new_names.values())
    kept = [
        s
        for s in (*scope.statements[:first], *scope.statements[last:])
        if not (isinstance(s, Label) and s.name not in own)
    ]
    renamed = tuple(rename_statement(s, lambda name: _old(name, old, part)) for s in kept)
    return print_statements(renamed)


def _old(name: str, old: dict[str, str], part: Part) -> str:
    if name in old:
        return old[name]
    mark = name[0] if name[:1] in ("%", "$") else ""
    stem = name[len(mark) :]
    return mark + stem.removeprefix(part.prefix)  # the stem of a range of registers
