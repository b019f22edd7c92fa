"""A clone of a guarded variant that counts how often its guards hold, and what the counts mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hybridcc.ptx import parse, parse_statements
from hybridcc.ptx.nodes import Block, Function, Instruction, Label, Name, Statement
from hybridcc.runtime.race_memory import COUNTERS

FALLBACK = re.compile(r"\$hcc\d+_original\w*\Z")
"""The splicer's label of the original region behind a guard (passes/splice/compose.py)."""


def instrumented(ptx: str, entry: str) -> str | None:
    """The same kernel with two 64-bit counters per guarded rewrite, in the order of their labels: threads that took
    it and threads that took the original. None where the entry has no guarded rewrite."""
    module = parse(ptx)
    function = next((i for i in module.items if isinstance(i, Function) and i.name == entry), None)
    if function is None or function.body is None:
        return None
    labels = [s.name for s in _flat(function.body) if isinstance(s, Label) and FALLBACK.match(s.name)]
    if not labels:
        return None
    counted = replace(function, body=replace(function.body, statements=_count(function.body.statements, labels)))
    declared = parse(_DECLARATION.format(name=COUNTERS, count=2 * len(labels))).items[-1]
    at = next(index for index, item in enumerate(module.items) if isinstance(item, Function))
    items = [counted if item is function else item for item in module.items]
    return str(replace(module, items=(*items[:at], declared, *items[at:])))


_DECLARATION = """.version 7.0
.target sm_52
.address_size 64
.visible .global .align 8 .b64 {name}[{count}];
"""


def _flat(body: Block) -> list[Statement]:
    return [
        inner
        for statement in body.statements
        for inner in (_flat(statement) if isinstance(statement, Block) else [statement])
    ]


def _count(statements: Sequence[Statement], labels: Sequence[str]) -> tuple[Statement, ...]:
    """The statements with a count behind each fallback's label, and one behind the last branch to it."""
    last = {
        statement.operands[0].text: index
        for index, statement in enumerate(statements)
        if isinstance(statement, Instruction) and statement.opcode == "bra" and statement.guard is not None
        and isinstance(statement.operands[0], Name)
    }  # fmt: skip
    found: list[Statement] = []
    for index, statement in enumerate(statements):
        if isinstance(statement, Block):
            found.append(replace(statement, statements=_count(statement.statements, labels)))
            continue
        found.append(statement)
        for number, label in enumerate(labels):
            if isinstance(statement, Label) and statement.name == label:
                found += _add(2 * number + 1)
            elif last.get(label) == index:
                found += _add(2 * number)
    return tuple(found)


def _add(counter: int) -> tuple[Statement, ...]:
    return parse_statements(f"red.global.add.u64 [{COUNTERS}+{8 * counter}], 1;")


def never_held(counts: Sequence[tuple[int, int]]) -> bool:
    """Whether no guarded rewrite was entered once: then what was raced is the original."""
    return bool(counts) and not any(taken for taken, _ in counts)


def rates(counts: Sequence[tuple[int, int]]) -> str:
    """ "guards held for 100.0 % of threads", by rewrite where there are several."""
    shares = [f"{taken / (taken + not_taken):.1%}" if taken + not_taken else "none" for taken, not_taken in counts]
    return f"guards held for {', '.join(shares)} of the threads that met them"
