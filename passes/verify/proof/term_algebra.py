"""The algebra of hybridcc/ptx/algebra.py over terms: how the prover reads every instruction that only computes.

Floating-point operations and conversions stay uninterpreted: two are equal when their operation (name, format,
rounding, every modifier) and operands are. Swapping two operands is allowed where ``swaps`` says that it changes
no bit and no assembler can tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from hybridcc.passes.verify.proof import bitvector as bv
from hybridcc.passes.verify.proof import lemmas
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.program import Program, Unsupported
from hybridcc.passes.verify.proof.terms import Condition, Polynomial
from hybridcc.ptx import isa, semantics
from hybridcc.ptx.algebra import Conversion, FloatOperation
from hybridcc.ptx.nodes import Instruction, Name, Operand
from hybridcc.ptx.types import width

CARRY: Final = "CC.CF"
"""The carry flag (ISA 9.7.2), kept among the registers under a name that no register can have."""

Value: TypeAlias = Polynomial | Condition
Read: TypeAlias = Callable[[Operand, int], Value]
"""An operand as so many bits; as a condition where the width is 1."""


def swaps(operation: FloatOperation) -> bool:
    """Whether exchanging the first two operands changes no bit, NaN payloads included.

    add, mul, fma, min and max in f32, rounded to nearest and without further modifiers: every NaN they give is the
    canonical one, so operands are told apart by nothing (measured on an H200: tests/hardware). Not in f64, where
    the payload of one operand survives and which one depends on its place.
    """
    if operation.ftz or operation.saturate or operation.nan or operation.xorsign or operation.relu:
        return False
    if operation.format != "f32":
        return False
    return operation.name in ("min", "max") or (operation.name in ("add", "mul", "fma") and operation.rounding == "rn")


@dataclass(frozen=True, slots=True)
class TermAlgebra:
    """``commuting``: no kernel of the proof holds a contractible pair, so operand order is nobody's business.

    ``ideal``: the reading of lemmas.py in which a NaN that is narrowed to f32 is the canonical one.
    """

    commuting: bool
    ideal: bool = False

    def constant(self, value: int, width: int) -> Polynomial:
        return t.constant(value, width)

    def truth(self, value: bool) -> Condition:
        return t.TRUE if value else t.FALSE

    def add(self, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return t.add(a, b)

    def sub(self, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return t.sub(a, b)

    def mul(self, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return t.mul(a, b)

    def mul_high(self, a: Polynomial, b: Polynomial, width: int, signed: bool) -> Polynomial:
        wide = t.mul(self.extend(a, width, 2 * width, signed), self.extend(b, width, 2 * width, signed))
        return bv.extract(wide, width, width)

    def divide(self, a: Polynomial, b: Polynomial, width: int, signed: bool) -> Polynomial:
        return bv.signed_quotient(a, b) if signed else bv.unsigned_quotient(a, b)

    def remainder(self, a: Polynomial, b: Polynomial, width: int, signed: bool) -> Polynomial:
        return bv.signed_remainder(a, b) if signed else bv.unsigned_remainder(a, b)

    def and_(self, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return bv.bitwise_and(a, b)

    def or_(self, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return bv.bitwise_or(a, b)

    def xor(self, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return bv.bitwise_xor(a, b)

    def not_(self, a: Polynomial, width: int) -> Polynomial:
        return bv.bitwise_not(a)

    def shift_left(self, a: Polynomial, amount: Polynomial, width: int) -> Polynomial:
        return bv.shift_left(a, amount)

    def shift_right(self, a: Polynomial, amount: Polynomial, width: int, signed: bool) -> Polynomial:
        return bv.shift_right_arithmetic(a, amount) if signed else bv.shift_right_logical(a, amount)

    def population_count(self, a: Polynomial, width: int) -> Polynomial:
        return t.atom("popc", (a,), 32, width)

    def leading_zeros(self, a: Polynomial, width: int) -> Polynomial:
        return t.atom("clz", (a,), 32, width)

    def reverse_bits(self, a: Polynomial, width: int) -> Polynomial:
        return t.atom("brev", (a,), width)

    def extend(self, a: Polynomial, width: int, to: int, signed: bool) -> Polynomial:
        return bv.sign_extend(a, to) if signed else bv.zero_extend(a, to)

    def truncate(self, a: Polynomial, width: int, to: int) -> Polynomial:
        return bv.truncate(a, to)

    def extract(self, a: Polynomial, width: int, low: int, to: int) -> Polynomial:
        return bv.extract(a, low, to)

    def concatenate(self, parts: tuple[Polynomial, ...], width: int) -> Polynomial:
        joined = parts[0]
        for part in parts[1:]:
            joined = bv.concatenate(part, joined)
        return joined

    def equal(self, a: Polynomial, b: Polynomial, width: int) -> Condition:
        return t.equal(a, b)

    def less(self, a: Polynomial, b: Polynomial, width: int, signed: bool) -> Condition:
        return t.signed_less(a, b) if signed else t.unsigned_less(a, b)

    def p_and(self, a: Condition, b: Condition) -> Condition:
        return t.conjunction(a, b)

    def p_or(self, a: Condition, b: Condition) -> Condition:
        return t.disjunction(a, b)

    def p_xor(self, a: Condition, b: Condition) -> Condition:
        return t.choose(a, t.negation(b), b)

    def p_not(self, a: Condition) -> Condition:
        return t.negation(a)

    def select(self, condition: Condition, a: Polynomial, b: Polynomial, width: int) -> Polynomial:
        return t.select(condition, a, b)

    def p_select(self, condition: Condition, a: Condition, b: Condition) -> Condition:
        return t.choose(condition, a, b)

    def float_operation(self, operation: FloatOperation, operands: tuple[Polynomial, ...]) -> Polynomial:
        # A multiplication that meets no addition is rounded as if it said so.
        name = _spelled(replace(operation, contractible=False) if self.commuting else operation)
        return lemmas.operated(name, operands, operands[0].width, commuting=self.commuting and swaps(operation))

    def float_less(self, a: Polynomial, b: Polynomial, format: str, ftz: bool) -> Condition:
        return lemmas.compared(f"less.{format}{'.ftz' if ftz else ''}", (a, b))

    def float_equal(self, a: Polynomial, b: Polynomial, format: str, ftz: bool) -> Condition:
        return lemmas.compared(f"equal.{format}{'.ftz' if ftz else ''}", (a, b))

    def is_nan(self, a: Polynomial, format: str) -> Condition:
        return lemmas.compared(f"nan.{format}", (a,))

    def convert(self, conversion: Conversion, a: Polynomial) -> Polynomial:
        fields = (conversion.result, conversion.source, conversion.rounding)
        flags = _flags(
            ftz=conversion.ftz, sat=conversion.saturate, relu=conversion.relu, satfinite=conversion.satfinite
        )
        name = ".".join(("convert", *fields)) + flags
        if self.ideal and name == lemmas.NARROW:
            return lemmas.narrowed(a, commuting=self.commuting)
        return lemmas.build(name, (a,), width(conversion.result))


def _spelled(o: FloatOperation) -> str:
    flags = _flags(ftz=o.ftz, sat=o.saturate, NaN=o.nan, xorsign=o.xorsign, relu=o.relu, contractible=o.contractible)
    return f"float.{o.name}.{o.format}.{o.rounding}{flags}"


def _flags(**flags: bool) -> str:
    return "".join(f".{name}" for name, given in flags.items() if given)


# --- instructions ---------------------------------------------------------------------------------------


def results(
    instruction: Instruction, read: Read, program: Program, algebra: TermAlgebra
) -> Iterator[tuple[str, Value]]:
    """(register, value as wide as the register) for all that an instruction computes. Raises Unsupported."""
    if isa.form(instruction) is None:
        raise Unsupported(f"{instruction.full_opcode} is in no table", program.name)
    if instruction.opcode == "cvta":
        yield _cvta(instruction, read, program)
        return
    try:
        operation = semantics.explain(instruction)
    except semantics.Unsupported as error:
        raise Unsupported(f"{instruction.full_opcode}: {error}", program.name) from error
    operands = semantics.source_operands(instruction)
    targets = semantics.destination_operands(instruction)
    if len(operands) != len(operation.sources) or len(targets) != len(operation.results):
        raise Unsupported(f"{instruction.full_opcode} with these operands", program.name)
    sources = [_as_wide(read(o, w), w, instruction) for o, w in zip(operands, operation.sources, strict=True)]
    if operation.carry_in:
        sources.append(read(Name(CARRY), 1))
    values = operation.apply(algebra, tuple(sources))
    names = [target.text if isinstance(target, Name) else "" for target in targets]
    if "" in names:
        raise Unsupported(f"{instruction.full_opcode} into {targets}", program.name)
    if operation.carry_out:
        names.append(CARRY)
    for name, value in zip(names, values, strict=True):
        if name != "_":
            yield name, _fitted(name, value, program, signed=operation.extend_signed)


def _as_wide(value: Value, width: int, instruction: Instruction) -> Value:
    """The low bits of a wider register."""
    if width == 1 or isinstance(value, Condition):
        if width != 1 or not isinstance(value, Condition):
            raise Unsupported(f"{instruction.full_opcode}: a predicate for a number", "")
        return value
    if value.width < width:
        raise Unsupported(f"{instruction.full_opcode}: {value.width} bits for {width}", "")
    return bv.truncate(value, width)


def _fitted(name: str, value: Value, program: Program, *, signed: bool) -> Value:
    if isinstance(value, Condition) or name == CARRY:
        return value
    width = program.width(name)
    if width < value.width:
        raise Unsupported(f"{value.width} bits in {name} of {width} bits", program.name)
    return bv.sign_extend(value, width) if signed else bv.zero_extend(value, width)


def _cvta(instruction: Instruction, read: Read, program: Program) -> tuple[str, Value]:
    """Generic and global addresses are the same numbers (ISA 5.1, Generic Addressing); other windows are unknown."""
    target, source = instruction.operands
    if not isinstance(target, Name) or ".u64" not in instruction.modifiers:
        raise Unsupported(instruction.full_opcode, program.name)
    value = _as_wide(read(source, 64), 64, instruction)
    assert isinstance(value, Polynomial)
    if ".global" not in instruction.modifiers:
        value = t.atom("".join(("cvta", *instruction.modifiers)), (value,), 64)
    return target.text, _fitted(target.text, value, program, signed=False)
