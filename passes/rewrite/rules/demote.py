"""Precision demotion: one operation done in f64 and rounded back to f32 becomes the f32 operation, where a lemma of the
prover says that the two give the same number."""

from __future__ import annotations

from dataclasses import dataclass, field

from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.rules import cleaning
from hybridcc.passes.verify.proof import lemmas
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.lemmas import IDEAL, plain
from hybridcc.passes.verify.proof.program import Program, Unsupported, type_width
from hybridcc.passes.verify.proof.term_algebra import TermAlgebra, Value, results
from hybridcc.passes.verify.proof.terms import Polynomial
from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.nodes import Comment, Immediate, Instruction, Label, Name, Operand, RegisterDeclaration, Statement
from hybridcc.ptx.printer import print_statements

WIDE = ("float", "f64", "rn")


def demoted(text: str, region: Region) -> str | None:
    """The text with what can be demoted; None where nothing can."""
    if "cvt.rn.f32.f64" not in text:
        return None
    statements = parse_statements(text)
    types = {f"%in{k}": port.type for k, port in enumerate(region.live_in)}
    types |= {f"%out{k}": port.type for k, port in enumerate(region.live_out)}
    for declaration in statements:
        if isinstance(declaration, RegisterDeclaration):
            types |= {name: declaration.type for name, _ in declaration.names}
    reader = _Reader(types)
    code = [s for s in statements if not isinstance(s, RegisterDeclaration | Comment)]
    made = [reader.read(s) for s in code]
    if made == code:
        return None
    kept = cleaning.needed(made, [f"%out{k}" for k in range(len(region.live_out))])
    guards = print_statements(tuple(s for s in statements if isinstance(s, Comment)))
    return guards + cleaning.printed(kept, types)


@dataclass(slots=True)
class _Reader:
    """Reads one block after another. ``values`` are the registers in terms of ``x#n``, the n-th value of x."""

    types: dict[str, str]
    values: dict[str, Value] = field(default_factory=dict)
    names: dict[Value, str] = field(default_factory=dict)
    """Registers by what they hold now."""
    count: int = 0
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = Program("rewrite", (), {}, self.types, (), {}, (), "", ())

    def read(self, statement: Statement) -> Statement:
        if isinstance(statement, Label):
            self.values.clear()
            self.names.clear()
        if not isinstance(statement, Instruction):
            return statement
        try:
            made = dict(results(statement, self._operand, self.program, TermAlgebra(commuting=False, ideal=True)))
        except (Unsupported, t.TermTooLarge):
            made = {}
        new = self._demoted(statement, made)
        for target in isa.defs(statement):
            if target in self.types:
                value = made.get(target)
                if value is None or statement.guard is not None:
                    value = self._fresh(target)
                self._set(target, value)
        return new

    def _set(self, register: str, value: Value) -> None:
        self.names = {v: r for v, r in self.names.items() if r != register}
        self.values[register] = value
        self.names.setdefault(value, register)

    def _fresh(self, register: str) -> Value:
        self.count += 1
        width = type_width(self.types[register])
        free = t.variable(f"{register}#{self.count}", width)
        return t.equal(free, t.constant(1, 1)) if width == 1 else free

    def _operand(self, operand: Operand, width: int) -> Value:
        if isinstance(operand, Name) and operand.text in self.types:
            if operand.text not in self.values:
                self._set(operand.text, self._fresh(operand.text))
            return self.values[operand.text]
        found = self.program.value(operand, width)
        if found is None:
            raise Unsupported(f"operand {operand}", "rewrite")
        return found

    def _demoted(self, instruction: Instruction, made: dict[str, Value]) -> Instruction:
        """The f32 operation in the place of a conversion whose value it is."""
        if instruction.opcode != "cvt" or len(instruction.operands) != 2:
            return instruction
        target, source = instruction.operands
        if not isinstance(target, Name) or not isinstance(source, Name):
            return instruction
        rounded, exact = made.get(target.text), self.values.get(source.text)
        if instruction.guard is not None or instruction.modifiers[-1] != ".f64":
            return instruction
        if not isinstance(rounded, Polynomial) or not isinstance(exact, Polynomial):
            return instruction
        narrow, wide = t.as_atom(rounded), t.as_atom(exact)
        if narrow is None or wide is None or narrow.operation.startswith(IDEAL):
            return instruction
        kind, name, *rest = plain(wide.operation).split(".")
        if (kind, *rest) != WIDE:
            return instruction
        sources = [self._source(lemmas.demoted(a) if isinstance(a, Polynomial) else None) for a in wide.arguments]
        if any(each is None for each in sources):
            return instruction
        return Instruction(name, (".rn", ".f32"), (target, *(s for s in sources if s is not None)))

    def _source(self, argument: object) -> Operand | None:
        if not isinstance(argument, Polynomial):
            return None
        value = t.as_constant(argument)
        if value is not None:
            return Immediate(f"0f{value:08X}")
        held = self.names.get(argument)
        return Name(held) if held is not None and self.types[held] == ".f32" else None
