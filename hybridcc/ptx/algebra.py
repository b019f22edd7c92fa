"""The algebra that the meaning of PTX is written in: bit-vectors, predicates, and named floating-point operations.

semantics/ defines each operation once over this Protocol. NumPy arrays interpret it for execution
(passes/execute/numpy_algebra.py), solver terms for proof (passes/verify/term_algebra.py). So integer operations
are composed of the few primitives below, and a floating-point operation is one call that is exact in its operands,
format, rounding and modifiers: an interpretation either computes it to the bit or leaves it uninterpreted.

Widths are in bits and explicit everywhere; a value never carries its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

V = TypeVar("V")
"""A bit-vector (for NumPy: an array of unsigned integers of just that width)."""
P = TypeVar("P")
"""A predicate (for NumPy: an array of bool)."""


@dataclass(frozen=True, slots=True)
class FloatOperation:
    """``name``: add sub mul fma div rcp sqrt rsqrt min max sin cos ex2 lg2 tanh (``.approx`` ones have a spelled name
    such as "sin.approx"); ``format``: f16 bf16 f32 f64 (packed formats are split by semantics/).

    ``rounding``: rn rz rm rp or "" where the operation has none (min, max, approximations). ``ftz`` flushes
    subnormal operands and results to signed zero; ``saturate`` clamps to [0, 1], NaN to 0; ``nan`` propagates NaN in
    min and max; ``xorsign`` is ``.xorsign.abs``; ``relu`` clamps below at 0. ``contractible`` is a mul, add or sub
    without a rounding modifier, which ptxas may fuse (design: Checking).
    """

    name: str
    format: str
    rounding: str = ""
    ftz: bool = False
    saturate: bool = False
    nan: bool = False
    xorsign: bool = False
    relu: bool = False
    contractible: bool = False

    @property
    def exact(self) -> bool:
        """Whether IEEE 754 and the PTX ISA fix every bit of the result."""
        return not (self.name.endswith(".approx") or self.name.endswith(".full"))


@dataclass(frozen=True, slots=True)
class Conversion:
    """``cvt``: source and result are type names (s32, u8, f16, f32, bf16, tf32, e4m3, …).

    ``rounding`` is rn rz rm rp rna or rni rzi rmi rpi (to an integral value), "" where exact. ``satfinite`` keeps
    what overflows at the largest number.
    """

    result: str
    source: str
    rounding: str = ""
    ftz: bool = False
    saturate: bool = False
    relu: bool = False
    satfinite: bool = False


class Algebra(Protocol[V, P]):
    """Everything an operation may do with its operands."""

    def constant(self, value: int, width: int) -> V: ...
    def truth(self, value: bool) -> P: ...

    # ring and division; division by zero is unspecified by PTX, so an interpretation may answer anything
    def add(self, a: V, b: V, width: int) -> V: ...
    def sub(self, a: V, b: V, width: int) -> V: ...
    def mul(self, a: V, b: V, width: int) -> V: ...
    def mul_high(self, a: V, b: V, width: int, signed: bool) -> V: ...
    def divide(self, a: V, b: V, width: int, signed: bool) -> V: ...
    def remainder(self, a: V, b: V, width: int, signed: bool) -> V: ...

    # bits
    def and_(self, a: V, b: V, width: int) -> V: ...
    def or_(self, a: V, b: V, width: int) -> V: ...
    def xor(self, a: V, b: V, width: int) -> V: ...
    def not_(self, a: V, width: int) -> V: ...
    def shift_left(self, a: V, amount: V, width: int) -> V:
        """``amount`` is an unsigned 32-bit value; 0 when it is ``width`` or more."""
        ...

    def shift_right(self, a: V, amount: V, width: int, signed: bool) -> V:
        """As shift_left; an arithmetic shift by ``width`` or more gives copies of the sign."""
        ...

    def population_count(self, a: V, width: int) -> V:
        """A 32-bit count."""
        ...

    def leading_zeros(self, a: V, width: int) -> V:
        """A 32-bit count, ``width`` for 0."""
        ...

    def reverse_bits(self, a: V, width: int) -> V: ...

    # widths
    def extend(self, a: V, width: int, to: int, signed: bool) -> V: ...
    def truncate(self, a: V, width: int, to: int) -> V: ...
    def extract(self, a: V, width: int, low: int, to: int) -> V:
        """Bits ``low`` to ``low + to - 1``."""
        ...

    def concatenate(self, parts: tuple[V, ...], width: int) -> V:
        """Equal parts of ``width`` bits each, the first one lowest."""
        ...

    # predicates
    def equal(self, a: V, b: V, width: int) -> P: ...
    def less(self, a: V, b: V, width: int, signed: bool) -> P: ...
    def p_and(self, a: P, b: P) -> P: ...
    def p_or(self, a: P, b: P) -> P: ...
    def p_xor(self, a: P, b: P) -> P: ...
    def p_not(self, a: P) -> P: ...
    def select(self, condition: P, a: V, b: V, width: int) -> V: ...
    def p_select(self, condition: P, a: P, b: P) -> P: ...

    # floating point, on bit patterns
    def float_operation(self, operation: FloatOperation, operands: tuple[V, ...]) -> V: ...
    def float_less(self, a: V, b: V, format: str, ftz: bool) -> P:
        """False when either is NaN; -0 is not less than +0."""
        ...

    def float_equal(self, a: V, b: V, format: str, ftz: bool) -> P:
        """False when either is NaN; -0 equals +0."""
        ...

    def is_nan(self, a: V, format: str) -> P: ...
    def convert(self, conversion: Conversion, a: V) -> V: ...
