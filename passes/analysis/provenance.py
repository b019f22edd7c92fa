"""What a register means at a place: an expression over parameters, special registers and constants.

Only registers with one definition in the whole function are followed (NVVM writes a register again only to carry a
value round a loop or past a join), so an expression holds wherever the register is live.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.definitions import definitions, reaching
from hybridcc.passes.analysis.parameters import parameter_numbers
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Member, Name, Operand

DEPTH_LIMIT = 6
LENGTH_LIMIT = 72
"""An expression deeper or longer than this says nothing to a reader, and is left out."""

BINARY = {"add": "+", "sub": "-", "mul": "*", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^"}


@dataclass(frozen=True, slots=True)
class Provenance:
    """``meanings`` are those of parameter_meanings()."""

    cfg: ControlFlowGraph
    definitions: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, int]
    meanings: tuple[str, ...]

    def note(self, register: str, statement: int) -> str:
        """What the register holds just before the flattened statement, in words; "" where that is not plain."""
        places = reaching(self.cfg, register, statement)
        texts = {self._defined(place, 0) for place in places}
        text = texts.pop() if len(texts) == 1 else None
        if len(places) > 1 and text is not None and not _is_constant(text):
            return ""
        if text is None:
            return ""
        text = _well_known(text)
        return text if len(text) <= LENGTH_LIMIT else ""

    def parameter(self, register: str) -> int | None:
        """The parameter that the register is a plain copy of (a pointer's change of state space counts as one)."""
        for _ in range(DEPTH_LIMIT):
            instruction = self._single(register)
            if instruction is None:
                return None
            if isa.memory_space(instruction) == ".param":
                return self._loaded(instruction)
            source = instruction.operands[-1]
            if instruction.opcode not in ("mov", "cvta") or not isinstance(source, Name):
                return None
            register = source.text
        return None

    def _single(self, register: str) -> Instruction | None:
        places = self.definitions.get(register, ())
        if len(places) != 1:
            return None
        statement = self.cfg.statements[places[0]]
        if not isinstance(statement, Instruction) or statement.guard is not None:
            return None
        return statement

    def _loaded(self, instruction: Instruction) -> int | None:
        """The number of the parameter that a load reads whole."""
        address = instruction.operands[-1]
        if not isinstance(address, Address) or not isinstance(address.base, Name) or len(instruction.operands) != 2:
            return None
        if address.offset is not None and evaluate(address.offset.text).value != 0:
            return None
        if not isinstance(instruction.operands[0], Name):
            return None
        return self.numbers.get(address.base.text)

    def _defined(self, place: int, depth: int) -> str | None:
        statement = self.cfg.statements[place] if place >= 0 else None
        if not isinstance(statement, Instruction) or statement.guard is not None:
            return None
        return self._expression(statement, depth)

    def _expression(self, instruction: Instruction, depth: int) -> str | None:
        if isa.memory_space(instruction) == ".param":
            number = self._loaded(instruction)
            return None if number is None else self.meanings[number]
        sources = instruction.operands[1:]
        match instruction.opcode:
            case "mov" | "cvta":
                return self._operand(sources[-1], depth)
            case "cvt" if len(sources) == 1 and _widens(instruction.modifiers):
                return self._operand(sources[0], depth)
            case "mul" if ".hi" in instruction.modifiers:
                return None
            case opcode if opcode in BINARY and len(sources) == 2:
                return self._joined(BINARY[opcode], sources, depth)
            case "mad" if ".hi" not in instruction.modifiers and len(sources) == 3:
                product = self._joined("*", sources[:2], depth)
                addend = self._operand(sources[2], depth + 1)
                return f"({product} + {addend})" if product and addend else None
            case _:
                return None

    def _joined(self, sign: str, sources: Sequence[Operand], depth: int) -> str | None:
        left, right = (self._operand(source, depth + 1) for source in sources)
        if left is None or right is None:
            return None
        if sign in "+*&|^" and right < left:
            left, right = right, left
        return f"({left} {sign} {right})"

    def _operand(self, operand: Operand, depth: int) -> str | None:
        if depth > DEPTH_LIMIT:
            return None
        match operand:
            case Immediate():
                return f"constant {operand.text}" if depth == 0 else operand.text
            case Member(name=name, selector=selector) if isa.is_special_register(name):
                return f"{name}.{selector}"
            case Name(text=name) if name in self.cfg.scoped.types:
                instruction = self._single(name)
                return None if instruction is None else self._expression(instruction, depth)
            case Name(text=name) if isa.is_special_register(name):
                return name
            case _:
                return None


def provenance(cfg: ControlFlowGraph, meanings: tuple[str, ...]) -> Provenance:
    return Provenance(cfg, definitions(cfg), parameter_numbers(cfg.function), meanings)


def _widens(modifiers: Sequence[str]) -> bool:
    """Whether a conversion keeps every value: integer to a wider integer."""
    types = [m for m in modifiers if m[1:2] in ("s", "u") and m[2:].isdigit()]
    return len(types) == 2 and int(types[0][2:]) >= int(types[1][2:])


def _is_constant(text: str) -> bool:
    return text.startswith("constant ")


WRAPPED = re.compile(r"\(\((?P<index>[^()]+) >> 63\) & (?P<extent>[^()]+)\)")


def _well_known(text: str) -> str:
    """The usual indices by their names, and no brackets round the whole."""
    for axis in "xyz":
        text = text.replace(f"(%tid.{axis} + (%ctaid.{axis} * %ntid.{axis}))", f"global thread index {axis}")
        text = text.replace(f"(%nctaid.{axis} * %ntid.{axis})", f"grid stride {axis}")
    wrapped = WRAPPED.search(text)
    if wrapped:  # Numba's negative index counts from the end
        index, extent = wrapped["index"], wrapped["extent"]
        for sum_ in (f"({wrapped[0]} + {index})", f"({index} + {wrapped[0]})"):
            text = text.replace(sum_, f"({index}, plus {extent} if negative)")
    return text[1:-1] if text.startswith("(") and _closes_last(text) else text


def _closes_last(text: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return at == len(text) - 1
    return False
