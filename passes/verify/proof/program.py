"""One kernel as the prover reads it: a list of instructions, register types, parameters, what must not differ."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hybridcc.passes.verify.proof import entry
from hybridcc.passes.verify.proof.bitvector import truncate
from hybridcc.passes.verify.proof.terms import Polynomial, constant
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Immediate, Instruction, Member, Name, Operand


class Unsupported(Exception):
    """Something that has no meaning as terms; a proof that meets it ends as unknown."""

    def __init__(self, what: str, where: str) -> None:
        self.what, self.where = what, where
        super().__init__(f"{where}: {what}" if where else what)


@dataclass(frozen=True)
class Program:
    """``registers`` gives each register its declared type; ``labels`` the instruction that a label stands before.

    ``parameters`` are (name, width in bits) in order, width 0 where a parameter is no plain number.
    ``interface`` holds everything besides the instructions that two equal kernels must share.
    """

    name: str
    instructions: tuple[Instruction, ...] = field(repr=False)
    labels: Mapping[str, int] = field(repr=False)
    registers: Mapping[str, str] = field(repr=False)
    parameters: tuple[tuple[str, int], ...] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    """The state space of each variable."""
    interface: tuple[object, ...] = field(repr=False)
    digest: str
    places: tuple[str, ...] = field(repr=False)
    """Where each instruction stands in the text: ``file:line``."""

    # --- names ---

    def is_register(self, name: str) -> bool:
        return name in self.registers

    def width(self, name: str) -> int:
        """Bits of a register; 1 for a predicate."""
        return type_width(self.registers[name])

    def type_width(self, kind: str) -> int:
        return type_width(kind)

    def label(self, name: str) -> int:
        """The instruction that a label stands before. Raises Unsupported."""
        if name not in self.labels:
            raise Unsupported(f"a branch to {name}", self.name)
        return self.labels[name]

    def parameter_index(self, name: str) -> int:
        for index, (known, _) in enumerate(self.parameters):
            if known == name:
                return index
        raise Unsupported(f".param {name}", self.name)

    def place(self, at: int) -> str:
        if at >= len(self.instructions):
            return f"{self.name}: end"
        here = [label for label, k in self.labels.items() if k == at]
        return f"{self.places[at]} ({here[0]})" if here else self.places[at]

    # --- values that do not change ---

    def number(self, operand: Immediate) -> int:
        """An integer immediate, in two's complement of any width. Raises Unsupported."""
        found = evaluate(operand.text)
        if found.kind != "int":
            raise Unsupported(f"{operand.text} as an integer", self.name)
        return found.value

    def bits(self, operand: Immediate, width: int) -> int:
        """The bits of an immediate where ``width`` bits are read. Raises Unsupported."""
        found = evaluate(operand.text)
        if found.kind == "int":
            return found.value
        if found.kind == "decimal" and width == 32:
            return int.from_bytes(struct.pack("<f", struct.unpack("<d", struct.pack("<Q", found.value))[0]), "little")
        if width != (32 if found.kind == "f32" else 64):
            raise Unsupported(f"{operand.text} in {width} bits", self.name)
        return found.value

    def value(self, operand: Operand, width: int) -> Polynomial | None:
        """An immediate, a special register or the address of a variable; None for anything else."""
        match operand:
            case Immediate():
                return constant(self.bits(operand, width), width)
            case Member(name, selector):
                return self._special(f"{name.removeprefix('%')}.{selector}", width)
            case Name("WARP_SZ"):
                return constant(32, width)
            case Name(text) if text in self.variables:
                return truncate(entry.address_of(text, self.variables[text]), width)
            case Name(text) if text.startswith("%"):
                return self._special(text.removeprefix("%"), width)
            case _:
                return None

    def _special(self, name: str, width: int) -> Polynomial:
        try:
            return entry.special(name, width)
        except entry.UnknownSpecialRegister as error:
            raise Unsupported(f"special register %{name} of {width} bits", self.name) from error

    # --- flow ---

    def successors(self, at: int) -> tuple[int, ...]:
        instruction = self.instructions[at]
        following = (at + 1,) if at + 1 < len(self.instructions) else ()
        targets = tuple(self.labels[t] for t in isa.branch_targets(instruction) if t in self.labels)
        if instruction.opcode in ("ret", "exit", "trap") or targets:
            return (*targets, *(following if instruction.guard is not None else ()))
        return following

    @cached_property
    def loop_heads(self) -> tuple[int, ...]:
        """Instructions that a branch from below leads to: every cycle passes one of them."""
        heads = {t for at in range(len(self.instructions)) for t in self.successors(at) if t <= at}
        return tuple(sorted(heads))

    def live_before(self, at: int) -> frozenset[str]:
        """Registers that may be read before they are written, from this instruction on."""
        return self._live[at] if at < len(self._live) else frozenset()

    @cached_property
    def _live(self) -> list[frozenset[str]]:
        count = len(self.instructions)
        used, made = [], []
        for instruction in self.instructions:
            used.append(frozenset(r for r in isa.uses(instruction) if r in self.registers))
            guarded = instruction.guard is not None
            made.append(frozenset() if guarded else frozenset(isa.defs(instruction)))
        live: list[frozenset[str]] = [frozenset()] * count
        changed = True
        while changed:
            changed = False
            for at in range(count - 1, -1, -1):
                after = frozenset().union(*(live[s] for s in self.successors(at)))
                before = used[at] | (after - made[at])
                if before != live[at]:
                    live[at], changed = before, True
        return live


def type_width(kind: str) -> int:
    """Bits of a PTX type: ``.f32``, ``.pred``, ``.f16x2``."""
    if kind == ".pred":
        return 1
    match = re.fullmatch(r"\.[a-z]+(\d+)(?:x(\d+))?", kind)
    if match is None:
        raise Unsupported(f"type {kind}", "")
    return int(match[1]) * int(match[2] or 1)
