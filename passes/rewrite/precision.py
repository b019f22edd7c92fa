"""The precision audit: floating-point operations of a rewrite against those of the region it replaces.

It is cheap and coarse: it looks at which operations appear, not at how their values flow. What it lets through is
still executed and proved bit for bit; what it stops can never be right, or only by the assembler's whim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hybridcc.passes.rewrite.rejection import rejected
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Rounding
from hybridcc.ptx.nodes import Instruction
from hybridcc.ptx.source import Source

WIDTHS = {
    ".e2m1x2": 4, ".e2m3x2": 6, ".e3m2x2": 6, ".e4m3x2": 8, ".e5m2x2": 8, ".ue8m0x2": 8,
    ".bf16": 16, ".bf16x2": 16, ".f16": 16, ".f16x2": 16, ".tf32": 19, ".f32": 32, ".f32x2": 32, ".f64": 64,
}  # fmt: skip
"""Floating-point types of the PTX ISA (5.2.3), and the bits that carry a value."""

MODES = frozenset({".rn", ".rz", ".rm", ".rp", ".rna", ".rs", ".approx", ".full"})
"""Modifiers that say how a result is rounded (ISA 9.7.3)."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """What the audit compares of one instruction: opcode, floating types, rounding or approximation, ftz and sat."""

    instruction: Instruction
    types: tuple[str, ...]
    rounding: Rounding
    modes: frozenset[str]
    flushes: bool
    saturates: bool

    @property
    def kind(self) -> tuple[str, tuple[str, ...]]:
        return self.instruction.opcode, self.types


def audit(original: Iterable[Instruction], rewrite: Iterable[Instruction], source: Source) -> None:
    """Raises AnswerRejected with LOWER_PRECISION, APPROXIMATION, ROUNDING, FLUSHING or CONTRACTION."""
    known = [o for o in map(_operation, original) if o is not None]
    for operation in (o for o in map(_operation, rewrite) if o is not None):
        fault = _fault(operation, known)
        if fault is not None:
            raise rejected(*fault, source, operation.instruction.span)


def _operation(instruction: Instruction) -> _Operation | None:
    rounding = isa.rounding(instruction)
    if rounding is Rounding.NONE:
        return None
    types = tuple(m for m in instruction.modifiers if m in WIDTHS)
    words = frozenset(instruction.modifiers)
    return _Operation(instruction, types, rounding, words & MODES, ".ftz" in words, ".sat" in words)


def _fault(operation: _Operation, known: list[_Operation]) -> tuple[str, str] | None:
    """(code, sentence) for what is wrong with one operation of a rewrite, if anything is."""
    same = [k for k in known if k.kind == operation.kind]
    kin = same or [k for k in known if set(k.types) & set(operation.types)]
    narrowest = min((WIDTHS[t] for k in known for t in k.types), default=max(WIDTHS.values()))
    lower = [t for t in operation.types if WIDTHS[t] < narrowest]
    if lower:
        return "LOWER_PRECISION", f"this computes in {lower[0]}, which the original never does"
    loose = operation.rounding in (Rounding.APPROXIMATE, Rounding.UNDOCUMENTED)
    if loose and not any(operation.rounding is k.rounding for k in same):
        return "APPROXIMATION", "this is approximate where the original is not"
    if same and not any(operation.modes == k.modes for k in same):
        return "ROUNDING", f"this rounds otherwise than the original's {_spelled(same)}"
    if operation.saturates and not any(k.saturates for k in kin):
        return "ROUNDING", "this saturates, and the original does not"
    if kin and operation.flushes not in {k.flushes for k in kin}:
        word = "flushes" if operation.flushes else "keeps"
        return "FLUSHING", f"this {word} subnormal numbers, unlike the original's {_spelled(kin)}"
    if not same and operation.rounding is Rounding.CONTRACTIBLE:
        return "CONTRACTION", "this has no rounding modifier and no counterpart: the assembler may fuse it"
    return None


def _spelled(operations: list[_Operation]) -> str:
    return " or ".join(sorted({k.instruction.full_opcode for k in operations}))
