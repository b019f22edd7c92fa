"""Instructions read one after another, with what is decided put in its place.

An integer instruction whose result some register holds already is left out, and its readers read that register: that
drops the wraparound of an index that is shown not to be negative, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hybridcc.passes.rewrite.rules.evaluate import IMPURE, Environment, Evaluator, Value
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.terms import Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Name
from hybridcc.ptx.rename import rename_statement

Table = dict[tuple[str, Value], str]
"""Which register of a type holds a value."""


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction, and the address it accesses where that is known."""

    instruction: Instruction
    address: Polynomial | None = None


@dataclass(slots=True)
class Forward:
    """``once`` are the registers with one definition, whose readers may read another register; ``counters`` get a new
    name where they are written. ``rewriter`` puts in what is decided at the place."""

    evaluator: Evaluator
    once: frozenset[str]
    counters: frozenset[str]
    rewriter: Rewriter
    types: dict[str, str] = field(default_factory=dict)
    """Of new registers."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Registers read in place of others, for good."""

    def step(self, instruction: Instruction, environment: Environment, table: Table) -> Step | None:
        """The instruction as it is needed; None where it is not. Environment and table are those behind it."""
        evaluator = self.evaluator
        address = self._address(instruction, environment)
        evaluator.run(instruction, environment)
        targets = [d for d in isa.defs(instruction) if d in self.evaluator.subject.types]
        for target in targets:
            before = environment[target]
            environment[target] = self._simple(before)
            self.evaluator.weights.setdefault(environment[target], self.evaluator.weights.get(before, 1))
        written = self._spelled(instruction, targets)
        pure = not isa.effects(instruction) & IMPURE and instruction.guard is None
        if not pure or len(targets) != 1 or not (targets[0] in self.once or targets[0] in self.counters):
            return Step(written, address)
        (target,) = targets
        kind, value = self.evaluator.subject.types[target], environment[target]
        if kind.startswith((".f", ".pred")) or not isinstance(value, Polynomial):
            return Step(written, address)
        held = table.get((kind, value))
        if held is not None:
            self.renamed[target] = held
            return None
        new = self.renamed.get(target, target)
        table[(kind, value)] = new
        constant = t.as_constant(value)
        if constant is not None:
            number = Immediate(str(t.signed(constant, value.width)))
            return Step(Instruction("mov", (kind,), (Name(new), number)))
        return Step(written, address)

    def _simple(self, value: Value) -> Value:
        return self.rewriter.polynomial(value) if isinstance(value, Polynomial) else self.rewriter.condition(value)

    def _spelled(self, instruction: Instruction, targets: list[str]) -> Instruction:
        """With the registers that hold its operands, and a new one for what a counter becomes."""
        read = dict(self.renamed)
        for target in targets:
            if target in self.counters:
                new = f"{target}n"
                self.types[new] = self.evaluator.subject.types[target]
                self.renamed[target] = new
        return _replaced(instruction, lambda n: read.get(n, n), lambda n: self.renamed.get(n, n))

    def _address(self, instruction: Instruction, environment: Environment) -> Polynomial | None:
        for operand in instruction.operands:
            if isinstance(operand, Address):
                found = self.evaluator.address(environment, operand)
                return None if found is None else self.rewriter.polynomial(found)
        return None


def _replaced(instruction: Instruction, read: Callable[[str], str], write: Callable[[str], str]) -> Instruction:
    """The instruction with other registers: its operands are read, its first ones written."""
    defs = set(isa.defs(instruction))
    if not defs & set(isa.uses(instruction)):
        renamed = rename_statement(instruction, lambda n: write(n) if n in defs else read(n))
        assert isinstance(renamed, Instruction)
        return renamed
    # A register that is both: only the target, which stands first, gets the new name.
    source = rename_statement(replace(instruction, operands=instruction.operands[1:]), read)
    target = rename_statement(replace(instruction, operands=instruction.operands[:1]), write)
    assert isinstance(source, Instruction)
    assert isinstance(target, Instruction)
    return replace(source, operands=(*target.operands, *source.operands))
