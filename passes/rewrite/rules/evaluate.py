"""Instructions read as terms: the same normal forms that proofs compare, so that every spelling of a wraparound,
a maximum or an address is one polynomial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hybridcc.passes.rewrite.rules.subject import Subject
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.program import Program, Unsupported, type_width
from hybridcc.passes.verify.proof.term_algebra import TermAlgebra, results
from hybridcc.passes.verify.proof.terms import Condition, Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Member, Name, Not, Operand

Value: TypeAlias = Polynomial | Condition
Environment: TypeAlias = dict[str, Value]

HEAVIEST = 500
"""Operations that a value may be made of, each as often as it is used: nothing is made of what is larger, and chains of
choices double each time."""

IMPURE = frozenset(Effect) - {Effect.CARRY_IN, Effect.CARRY_OUT, Effect.HINT}


@dataclass(slots=True)
class Evaluator:
    """Reads one subject; ``fresh`` counts values of which nothing is known, ``prefix`` begins their names."""

    subject: Subject
    program: Program = field(init=False)
    algebra: TermAlgebra = field(init=False)
    fresh: int = 0
    prefix: str = "?"
    weights: dict[Value, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.program = Program("region", (), {}, self.subject.types, (), {}, (), "", ())
        self.algebra = TermAlgebra(commuting=False)

    def width(self, register: str) -> int:
        return type_width(self.subject.types[register])

    def unknown(self, register: str) -> Value:
        """A value of which nothing is known."""
        self.fresh += 1
        return symbol(f"{self.prefix}{self.fresh}:{register}", self.width(register))

    def read(self, environment: Mapping[str, Value], operand: Operand, width: int) -> Value:
        match operand:
            case Not(inner):
                return t.negation(self.read(environment, inner, 1))  # type: ignore[arg-type]
            case Name(text) if text in self.subject.types:
                return environment[text] if text in environment else symbol(text, self.width(text))
            case Name() | Member() | Immediate():
                found = self.program.value(operand, width)
                if found is not None:
                    return found
                if isinstance(operand, Name):
                    return t.variable(operand.text, width)
        raise Unsupported(f"operand {operand}", "region")

    def run(self, instruction: Instruction, environment: Environment) -> None:
        """The environment after an instruction; what it computes is unknown where it has no terms."""
        made: Environment = self._parameter(instruction)
        targets = [d for d in isa.defs(instruction) if d in self.subject.types]
        read = (environment.get(r) for r in isa.uses(instruction))
        weight = 1 + sum(self.weights.get(value, 1) for value in read if value is not None)
        if weight > HEAVIEST:
            weight = 1
        elif not isa.effects(instruction) & IMPURE:
            try:
                found = results(instruction, lambda o, w: self.read(environment, o, w), self.program, self.algebra)
                made = dict(found)
            except (Unsupported, t.TermTooLarge):
                made = {}
        for target in targets:
            value = made.get(target)
            if value is None:
                value = self.unknown(target)
            elif instruction.guard is not None:
                value = self._guarded(instruction, environment, target, value)
            environment[target] = value
            self.weights[value] = max(weight, self.weights.get(value, 0))

    def _parameter(self, instruction: Instruction) -> Environment:
        """A kernel parameter of 64 bits, as ``param3``: the same whenever it is loaded."""
        if isa.memory_space(instruction) != ".param" or instruction.guard is not None:
            return {}
        target, source = instruction.operands[0], instruction.operands[-1]
        if not isinstance(target, Name) or not isinstance(source, Address) or source.offset is not None:
            return {}
        plain = isinstance(source.base, Name) and source.base.text.startswith("param")
        if not plain or instruction.modifiers[-1] not in (".b64", ".u64", ".s64") or self.width(target.text) != 64:
            return {}
        assert isinstance(source.base, Name)
        return {target.text: t.variable(source.base.text, 64)}

    def _guarded(self, instruction: Instruction, environment: Environment, target: str, value: Value) -> Value:
        assert instruction.guard is not None
        condition = self.read(environment, Name(instruction.guard.name), 1)
        assert isinstance(condition, Condition)
        holds = t.negation(condition) if instruction.guard.negated else condition
        old = self.read(environment, Name(target), self.width(target))
        if isinstance(value, Polynomial) and isinstance(old, Polynomial):
            return t.select(holds, value, old)
        assert isinstance(value, Condition)
        assert isinstance(old, Condition)
        return t.choose(holds, value, old)

    def address(self, environment: Mapping[str, Value], operand: Operand) -> Polynomial | None:
        """The address of a memory operand; None where it is no register with a number."""
        if not isinstance(operand, Address) or not isinstance(operand.base, Name):
            return None
        base = self.read(environment, operand.base, 64)
        if not isinstance(base, Polynomial) or base.width != 64:
            return None
        offset = self.program.number(operand.offset) if operand.offset is not None else 0
        return t.add(base, t.constant(offset, 64))


def symbol(name: str, width: int) -> Value:
    if width == 1:
        return t.equal(t.variable(name, 1), t.constant(1, 1))
    return t.variable(name, width)


def merged(environments: list[Environment], evaluator: Evaluator) -> Environment:
    """What holds where several ways meet: a register with one value in all of them keeps it."""
    first, *rest = environments
    made: Environment = {}
    for register, value in first.items():
        if all(other.get(register) is value for other in rest):
            made[register] = value
        elif all(register in other for other in rest):
            made[register] = evaluator.unknown(register)
    return made
