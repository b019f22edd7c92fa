"""What a decoded instruction is: widths in, widths out, and a function over the algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from hybridcc.ptx.nodes import Instruction
from hybridcc.ptx.types import is_type

Apply: TypeAlias = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""(algebra, sources) -> results."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The meaning of one instruction that only computes.

    ``sources`` and ``results`` are widths in bits (1 is a predicate), in the order of source_operands() and
    destination_operands(). A register wider than its source width is read by its low bits; a register wider than its
    result is written zero-extended, or sign-extended where ``extend_signed`` (cvt.s16.s8 into a 32-bit register).
    ``carry_in``/``carry_out``: apply() takes one more source, gives one more result: CC.CF, a predicate.
    ``exact`` is False where PTX leaves bits open (``.approx``).
    """

    sources: tuple[int, ...]
    results: tuple[int, ...]
    apply: Apply
    extend_signed: bool = False
    carry_in: bool = False
    carry_out: bool = False
    exact: bool = True


class Unsupported(Exception):
    """The instruction has no meaning here yet; the message says what is missing. decode() turns it into None."""


@dataclass(frozen=True, slots=True)
class Modifiers:
    """An instruction's modifiers without order: ``types`` keep theirs (cvt.DST.SRC)."""

    words: frozenset[str]
    types: tuple[str, ...]

    def has(self, word: str) -> bool:
        return word in self.words

    def one_of(self, choices: tuple[str, ...], otherwise: str = "") -> str:
        """The one modifier among ``choices`` that is present."""
        for choice in choices:
            if choice in self.words:
                return choice
        return otherwise

    @property
    def type(self) -> str:
        if not self.types:
            raise Unsupported("no type")
        return self.types[0]


def modifiers(instruction: Instruction) -> Modifiers:
    plain = tuple(m[1:] for m in instruction.modifiers)
    types = tuple(m for m in plain if is_type(m))
    return Modifiers(frozenset(m for m in plain if m not in types), types)
