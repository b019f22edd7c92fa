"""Regions without a counted loop, and whole bodies: the same blocks, with what facts, ranges and branches decide put in
its place, and addresses that differ by a number of bytes made once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hybridcc.passes.rewrite.rules import cleaning
from hybridcc.passes.rewrite.rules.evaluate import symbol
from hybridcc.passes.rewrite.rules.forward import Forward, Step, Table
from hybridcc.passes.rewrite.rules.known import Known
from hybridcc.passes.rewrite.rules.pointers import FARTHEST
from hybridcc.passes.rewrite.rules.subject import Subject, Unrecognised
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.terms import Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Address, Directive, Immediate, Instruction, Label, Name, RegisterDeclaration, Statement


def simplified(subject: Subject) -> str:
    """The region's text with less to compute. Raises Unrecognised where nothing is decided."""
    statements = _Maker(subject).made()
    original = [s for s in subject.cfg.statements if isinstance(s, Instruction)]
    outputs = [f"%out{k}" for k in range(len(subject.region.live_out))]
    kept = cleaning.needed(statements, outputs)
    added = 1 + len(outputs)  # behind the end
    if sum(isinstance(s, Instruction) for s in kept) >= len(original) - added:
        raise Unrecognised("NOTHING", "nothing in it is decided by what is known")
    return cleaning.printed(kept, subject.types)


@dataclass(slots=True)
class _Maker:
    subject: Subject
    known: Known = field(init=False)
    forward: Forward = field(init=False)
    tables: dict[int, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        subject = self.subject
        self.known = Known(subject)
        defined = [d for b in subject.cfg.reachable for i in subject.instructions(b) for d in isa.defs(i)]
        carried = {r for loop in subject.loops for r in subject.liveness.live_in[loop.header]}
        outputs = {r for r in subject.types if r.startswith("%out")}
        once = frozenset(d for d in defined if defined.count(d) == 1) - carried - outputs
        self.forward = Forward(self.known.evaluator, once, frozenset(), Rewriter())

    def made(self) -> list[Statement]:
        made: list[Statement] = []
        for block in self.subject.cfg.blocks[: self.subject.end]:
            statements = self.subject.cfg.statements[block.first : block.last]
            if block.index in self.subject.cfg.reachable:
                made += self._block(block.index, statements)
            else:
                made += statements
        made += [Label(label) for label in self.subject.cfg.blocks[self.subject.end].labels]
        return [s for s in made if not isinstance(s, RegisterDeclaration | Directive)]

    def _block(self, block: int, statements: tuple[Statement, ...]) -> list[Statement]:
        above = self.subject.dominators.parent.get(block)
        table = dict(self.tables[above]) if above is not None else self._ports()
        environment = self.known.entered(block)
        self.forward.rewriter = Rewriter(decide=self.known.bounds[block].decide)
        made: list[Statement] = []
        for statement in statements:
            if not isinstance(statement, Instruction):
                made.append(statement)
                continue
            step = self.forward.step(statement, environment, table)
            if step is not None:
                made.append(_near(step, table))
        self.known.ends[block], self.tables[block] = environment, table
        return made

    def _ports(self) -> Table:
        return {
            (kind, symbol(name, self.known.evaluator.width(name))): name
            for name, kind in self.subject.types.items()
            if name.startswith("%in")
        }


def _near(step: Step, table: Table) -> Instruction:
    """The access by a register that holds an address some bytes away, the first such there is."""
    instruction = step.instruction
    if step.address is None:
        return instruction
    for (kind, value), register in table.items():
        if not isinstance(value, Polynomial) or value.width != 64 or not kind.endswith("64"):
            continue
        offset = t.as_constant(t.sub(step.address, value))
        if offset is not None and abs(signed := t.signed(offset, 64)) <= FARTHEST:
            at = Address(Name(register), Immediate(str(signed)) if signed else None)
            operands = tuple(at if isinstance(o, Address) else o for o in instruction.operands)
            return replace(instruction, operands=operands)
    return instruction
