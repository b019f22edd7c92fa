"""Counts of basic blocks under the names a reader of the PTX knows them by."""

from __future__ import annotations

from typing import Any

from hybridcc.passes.analysis.cfg import ControlFlowGraph


def label_counts(cfg: ControlFlowGraph, counts: Any) -> dict[str, int]:
    """By each label of a block, as spelled; ``@N`` for block N where it has none. Labels that scopes repeat add up."""
    found: dict[str, int] = {}
    for block in cfg.blocks:
        count = int(counts[block.index])
        names = [cfg.scoped.spelling(label) for label in block.labels] or [f"@{block.index}"]
        for name in names:
            found[name] = found.get(name, 0) + count
    return found
