"""Counts of basic blocks under the names a reader of the PTX knows them by."""

from __future__ import annotations

from typing import Any

from hybridcc.passes.analysis.cfg import build
from hybridcc.ptx.nodes import Function


def label_counts(function: Function, counts: Any) -> dict[str, int]:
    """By each label of a block, as spelled; ``@N`` for block N where it has none. Labels that scopes repeat add up."""
    cfg = build(function, None)  # type: ignore[arg-type]
    found: dict[str, int] = {}
    for block in cfg.blocks:
        count = int(counts[block.index]) if block.index < len(counts) else 0
        names = [cfg.scoped.spelling(label) for label in block.labels] or [f"@{block.index}"]
        for name in names:
            found[name] = found.get(name, 0) + count
    return found
