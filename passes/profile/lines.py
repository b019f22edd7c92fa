"""Which source line PTX came from, by its ``.loc`` directives (ISA 11.5.3)."""

from __future__ import annotations

import re
from collections import Counter

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.ptx.nodes import Directive, Instruction

_LOC = re.compile(r"\s*(\d+)\s+(\d+)")


def line_of(cfg: ControlFlowGraph, block: int) -> str:
    """``line N`` where most instructions of the block came from, "" where the PTX does not say."""
    counts = Counter(lines_of(cfg).get(i, 0) for i in range(cfg.blocks[block].first, cfg.blocks[block].last))
    counts.pop(0, None)
    return f"line {counts.most_common(1)[0][0]}" if counts else ""


def lines_of(cfg: ControlFlowGraph) -> dict[int, int]:
    """Source line of each instruction, by flattened statement index."""
    found: dict[int, int] = {}
    current = 0
    for index, statement in enumerate(cfg.statements):
        match statement:
            case Directive(".loc", arguments) if (seen := _LOC.match(arguments)) is not None:
                current = int(seen[2])
            case Instruction() if current:
                found[index] = current
            case _:
                pass
    return found
