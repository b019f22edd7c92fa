"""What a lint says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.definitions import definitions
from hybridcc.passes.analysis.loops import loop_depths, natural_loops
from hybridcc.passes.analysis.uniform import uniform_registers
from hybridcc.ptx.nodes import Function, Instruction, Module
from hybridcc.ptx.printer import print_statement
from hybridcc.ptx.targets import Target

Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable; ``text`` says what and why it costs; ``line`` is the statement, "" where there is no one;
    ``depth`` counts the loops round it."""

    code: str
    severity: Severity
    text: str
    line: str = ""
    depth: int = 0

    def __str__(self) -> str:
        where = f" at `{self.line}`" if self.line else ""
        return f"{self.code}{where}: {self.text}"


@dataclass(frozen=True)
class Subject:
    """One function to look at, with what several lints need of it."""

    module: Module
    function: Function
    cfg: ControlFlowGraph
    target: Target
    _depths: dict[int, int] = field(default_factory=dict)

    @cached_property
    def definitions(self) -> dict[str, tuple[int, ...]]:
        return dict(definitions(self.cfg))

    @cached_property
    def uniform(self) -> frozenset[str]:
        return uniform_registers(self.cfg)

    @cached_property
    def loop_depth(self) -> tuple[int, ...]:
        """By block."""
        return loop_depths(self.cfg, natural_loops(self.cfg))

    @cached_property
    def instructions(self) -> tuple[tuple[int, Instruction], ...]:
        """Every reachable instruction, with the index of its statement."""
        return tuple(
            (index, statement)
            for block in sorted(self.cfg.reachable)
            for index in range(self.cfg.blocks[block].first, self.cfg.blocks[block].last)
            if isinstance(statement := self.cfg.statements[index], Instruction)
        )

    def finding(self, code: str, severity: Severity, statement: int, text: str) -> Finding:
        """About one statement, in the function's own spelling."""
        line = " ".join(print_statement(self.spelled(statement)).split())
        return Finding(code, severity, text, line, self.loop_depth[self.cfg.block_of(statement)])

    def spelled(self, statement: int) -> Instruction:
        from hybridcc.ptx.rename import rename_statement

        renamed = rename_statement(self.cfg.statements[statement], self.cfg.scoped.spelling)
        assert isinstance(renamed, Instruction)
        return renamed


Lint: TypeAlias = Callable[[Subject], tuple[Finding, ...]]
