"""What an integer instruction makes of intervals: one rule per operation, and "anything" for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hybridcc.passes.analysis import interval as ops
from hybridcc.passes.analysis.interval import Interval, Known, unsigned, whole
from hybridcc.ptx.isa import Effect, effects
from hybridcc.ptx.nodes import Immediate, Instruction, Operand

WIDTHS = {f".{kind}{width}": width for kind in "bus" for width in (8, 16, 32, 64)}
"""Integer types of instructions and registers, in bits."""

Read: TypeAlias = Callable[[Operand, int], Known]
"""An operand as a signed integer of so many bits."""


def transfer(instruction: Instruction, width: int, read: Read) -> Known:
    """What the instruction writes to a register of ``width`` bits, read as a signed integer."""
    anything = Known(whole(width))
    types = [m for m in instruction.modifiers if m in WIDTHS]
    rest = [m for m in instruction.modifiers if m not in WIDTHS]
    if not types or len(types) + len(rest) != len(instruction.modifiers):
        return anything
    if Effect.READ in effects(instruction):
        narrow = types[-1][1] != "b" and len(instruction.operands) == 2
        return _extended(whole_of(types[-1]), types[-1], width) if narrow else anything
    sources = instruction.operands[1:]
    match instruction.opcode, rest:
        case "cvt", [] if len(types) == 2:
            return _converted(read(sources[0], WIDTHS[types[1]]), types[0], types[1], width)
        case (("mul" | "mad"), [".wide"]) if width == 2 * WIDTHS[types[0]]:
            product = _wide(read(sources[0], width // 2), read(sources[1], width // 2), types[0], width)
            return product if len(sources) == 2 else _both(ops.add, product, read(sources[2], width), width)
        case _ if WIDTHS[types[0]] != width or len(types) != 1:
            return anything
        case "mov", []:
            return read(sources[0], width)
        case (("mul" | "mad"), [".lo"]):
            product = _both(ops.multiply, read(sources[0], width), read(sources[1], width), width)
            return product if len(sources) == 2 else _both(ops.add, product, read(sources[2], width), width)
        case opcode, [] if opcode in PLAIN:
            return _both(PLAIN[opcode], read(sources[0], width), read(sources[1], width), width)
        case "selp", []:
            a, b = read(sources[0], width), read(sources[1], width)
            return Known(a.interval.union(b.interval), a.origins | b.origins)
        case opcode, []:
            return _one_sided(opcode, types[0], [read(s, width) for s in sources], sources, width)
        case _:
            return anything


PLAIN = {
    "add": ops.add,
    "sub": ops.subtract,
    "and": ops.bitwise_and,
    "or": ops.bitwise_or,
    "xor": ops.bitwise_or,
}


def whole_of(declared: str) -> Interval:
    """Every value of a type, as a number."""
    width = WIDTHS[declared]
    return Interval(0, (1 << width) - 1) if declared[1] == "u" else whole(width)


def _both(operation: Callable[[Interval, Interval, int], Interval], a: Known, b: Known, width: int) -> Known:
    return Known(operation(a.interval, b.interval, width), a.origins | b.origins)


def _one_sided(opcode: str, declared: str, values: list[Known], sources: tuple[Operand, ...], width: int) -> Known:
    """Operations whose result hangs on one operand's interval, or on the sign of the type."""
    a = values[0]
    signed = declared[1] == "s" or all(v.interval.low >= 0 for v in values)
    origins = frozenset().union(*(v.origins for v in values))
    match opcode:
        case "neg":
            return Known(ops.negate(a.interval, width), a.origins)
        case "abs":
            return Known(ops.absolute(a.interval, width), a.origins)
        case "not":
            return Known(Interval(-a.interval.high - 1, -a.interval.low - 1), a.origins)
        case "shl" if isinstance(sources[1], Immediate) and 0 <= (by := values[1].interval.low) < width:
            return Known(ops.multiply(a.interval, Interval(1 << by, 1 << by), width), a.origins)
        case "shr" if isinstance(sources[1], Immediate) and values[1].interval.low >= 0:
            by = values[1].interval.low
            return Known(ops.shift_right(a.interval, by, width, declared[1] == "s"), a.origins)
        case "min" | "max" if signed and len(values) == 2:
            pick = min if opcode == "min" else max
            b = values[1].interval
            return Known(Interval(pick(a.interval.low, b.low), pick(a.interval.high, b.high)), origins)
        case "div" if signed and values[1].interval.low >= 1:
            return Known(Interval(min(a.interval.low, 0), max(a.interval.high, 0)), origins)
        case "rem" if signed and values[1].interval.low >= 1:
            most = values[1].interval.high - 1
            low = max(-most, min(a.interval.low, 0))
            return Known(Interval(low, min(most, max(a.interval.high, 0))), origins)
        case _:
            return Known(whole(width))


def _wide(a: Known, b: Known, declared: str, width: int) -> Known:
    """The exact product of two operands of half the width."""
    if declared[1] == "u":
        half = width // 2
        (al, ah), (bl, bh) = unsigned(a.interval, half), unsigned(b.interval, half)
        return Known(ops.fits(al * bl, ah * bh, width), a.origins | b.origins)
    return _both(ops.multiply, a, b, width)


def _converted(source: Known, target: str, declared: str, width: int) -> Known:
    """``cvt`` between integers: the value read by the source's type, kept where the target's type holds it."""
    value = source.interval
    if declared[1] == "u":
        value = Interval(*unsigned(value, WIDTHS[declared]))
    return Known(_extended(value, target, width).interval, source.origins)


def _extended(value: Interval, declared: str, width: int) -> Known:
    """A number of a type in a register that is as wide or wider: extended by the type's sign."""
    limits = whole_of(declared)
    if value.low < limits.low or value.high > limits.high:
        value = limits
    return Known(ops.fits(value.low, value.high, width))
