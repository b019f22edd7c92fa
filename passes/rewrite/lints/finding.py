"""What a lint says."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
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

    module: Module | None
    """None where only a part of a function is looked at."""
    function: Function
    cfg: ControlFlowGraph
    target: Target
    names: Mapping[str, str] = field(default_factory=dict)
    """Spellings that go before the function's own."""
    within: Container[int] | None = None
    """Statements that findings are about; None for all."""

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
        """Every reachable instruction that is looked at, with the index of its statement."""
        within = range(len(self.cfg.statements)) if self.within is None else self.within
        return tuple(
            (index, statement)
            for block in sorted(self.cfg.reachable)
            for index in range(self.cfg.blocks[block].first, self.cfg.blocks[block].last)
            if index in within and isinstance(statement := self.cfg.statements[index], Instruction)
        )

    def finding(self, code: str, severity: Severity, statement: int, text: str) -> Finding:
        """About one statement, in the function's own spelling."""
        line = " ".join(print_statement(self.spelled(statement)).split())
        return Finding(code, severity, text, line, self.loop_depth[self.cfg.block_of(statement)])

    def spelled(self, statement: int) -> Instruction:
        from hybridcc.ptx.rename import rename_statement

        def name(unique: str) -> str:
            return self.names.get(unique) or self.cfg.scoped.spelling(unique)

        renamed = rename_statement(self.cfg.statements[statement], name)
        assert isinstance(renamed, Instruction)
        return renamed


Lint: TypeAlias = Callable[[Subject], tuple[Finding, ...]]
