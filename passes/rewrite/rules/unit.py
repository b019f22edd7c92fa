"""One trip of a loop, as instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hybridcc.ptx.nodes import Instruction


@dataclass(frozen=True)
class Unit:
    """One trip: ``code`` holds the instructions of each of ``blocks``, without the branch back to ``header``."""

    header: int
    latch: int
    blocks: tuple[int, ...]
    code: Mapping[int, tuple[Instruction, ...]] = field(repr=False)
