"""What a run can be watched by: blocks as threads reach them, and stores as they are made."""

from __future__ import annotations

from typing import Any, Protocol

from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.program import Program

Array = Any


class Trace(Protocol):
    """Called while a kernel runs. It reads and keeps; it must change nothing."""

    def block(self, program: Program, index: int, frame: Frame, lanes: Lanes) -> None:
        """These lanes are about to run a basic block."""
        ...

    def store(self, frame: Frame, lanes: Lanes, space: str, address: Array, size: int, values: list[Array]) -> None:
        """These lanes store ``values`` of ``size`` bytes side by side, each at its own address in ``space``."""
        ...
