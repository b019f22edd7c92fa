"""A function ready to run: segments of decoded steps between places where control may change or threads wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.ptx.nodes import Instruction

Step: TypeAlias = Callable[[Any, Any], None]
"""(frame, lanes) -> None; ``lanes`` is None for all lanes of the frame, else an index array."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps that the same lanes run from first to last. ``starts_block`` is a block's first segment.

    ``ending`` is (kind, data): "next" to the segment after; "branch" (guard, targets…); "table" (register, targets);
    "exit" leaves; "return"; "barrier" waits.
    """

    block: int
    starts_block: bool
    steps: tuple[Step, ...]
    instructions: int
    ending: tuple[str, Any]
    last: Instruction | None = None


@dataclass(slots=True)
class Program:
    """One function: ``widths`` gives the bits of each register, ``granule`` its smallest access in bytes (1 or 4)."""

    name: str
    cfg: ControlFlowGraph
    segments: list[Segment]
    segment_of_block: dict[int, int]
    widths: dict[str, int]
    parameters: list[tuple[str, int]] = field(default_factory=list)
    returns: list[tuple[str, int]] = field(default_factory=list)
    granule: int = 1
