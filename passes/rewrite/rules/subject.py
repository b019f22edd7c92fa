"""A region's canonical text as a control-flow graph of its own, which the rules read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.dominators import DominatorTree, dominators, post_dominators
from hybridcc.passes.analysis.liveness import Liveness, live
from hybridcc.passes.analysis.loops import Loop, natural_loops
from hybridcc.passes.facts import Fact
from hybridcc.passes.regions import Region
from hybridcc.ptx import parse_statements
from hybridcc.ptx.nodes import (
    Block,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    RegisterDeclaration,
    Statement,
)

END = "$END"
"""A label after the region's last statement, with a ``ret`` behind it that keeps the outputs alive."""


class Unrecognised(Exception):
    """No rule knows the region: a stable code and a sentence."""

    def __init__(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(f"{code}: {reason}")


@dataclass(frozen=True)
class Subject:
    """``types`` gives every register of the text, ports among them, its declared type; ``facts`` are the kernel's."""

    region: Region = field(repr=False)
    facts: tuple[Fact, ...] = field(repr=False)
    cfg: ControlFlowGraph = field(repr=False)
    types: Mapping[str, str] = field(repr=False)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        return natural_loops(self.cfg)

    @cached_property
    def liveness(self) -> Liveness:
        return live(self.cfg)

    @cached_property
    def dominators(self) -> DominatorTree:
        return dominators(self.cfg)

    @cached_property
    def post_dominators(self) -> DominatorTree:
        return post_dominators(self.cfg)

    @property
    def end(self) -> int:
        """The block that everything leaves to."""
        return len(self.cfg.blocks) - 1

    def instructions(self, block: int) -> tuple[Instruction, ...]:
        return self.cfg.instructions(block)


def subject_of(region: Region, facts: tuple[Fact, ...] = ()) -> Subject:
    """The region as the rules read it. Raises Unrecognised where its text has scopes that hide names."""
    outs = {f"%out{k}": port.type for k, port in enumerate(region.live_out)}
    ports = {f"%in{k}": port.type for k, port in enumerate(region.live_in)} | outs
    declared: list[Statement] = [RegisterDeclaration(type_, ((name, None),)) for name, type_ in ports.items()]
    # The outputs are read behind the end, so that liveness keeps what makes them.
    reading: list[Statement] = [
        Instruction("mov", (_moved(type_),), (Name(f"%end{k}"), Name(name)))
        for k, (name, type_) in enumerate(outs.items())
    ]
    declared += [RegisterDeclaration(type_, ((f"%end{k}", None),)) for k, type_ in enumerate(outs.values())]
    body = (*declared, *parse_statements(region.text), Label(END), *reading, Instruction("ret"))
    function = Function(".entry", "region", body=Block(body))
    cfg = graphs.build(function, Module((function,)))
    if any(cfg.scoped.spelling(name) != name for name in cfg.scoped.types):
        raise Unrecognised("SCOPES", "its text declares one name twice")
    return Subject(region, facts, cfg, dict(cfg.scoped.types))


def _moved(type_: str) -> str:
    from hybridcc.passes.regions.canonical import move_type

    return move_type(type_)
