"""Intervals of signed integers, and the arithmetic that keeps them sound under wraparound."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.facts import Origin


@dataclass(frozen=True, slots=True)
class Interval:
    """Every value the register can hold, read as a signed integer of its width, lies in ``low`` to ``high``."""

    low: int
    high: int

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def union(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: Interval) -> Interval:
        """Both hold. Where they contradict each other the code is never reached: then self, which is sound."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else self


@dataclass(frozen=True, slots=True)
class Known:
    """An interval and whose word it rests on."""

    interval: Interval
    origins: frozenset[Origin] = frozenset()

    @property
    def origin(self) -> Origin:
        """The one a proof has to look at: the weakest."""
        for origin in (Origin.DECLARED, Origin.GUARD, Origin.INVARIANT, Origin.FRONTEND):
            if origin in self.origins:
                return origin
        return Origin.ISA


def whole(width: int) -> Interval:
    return Interval(-(1 << (width - 1)), (1 << (width - 1)) - 1)


def fits(low: int, high: int, width: int) -> Interval:
    """The interval if no value of it wraps at this width, else every value of the width."""
    everything = whole(width)
    return Interval(low, high) if low >= everything.low and high <= everything.high else everything


def add(a: Interval, b: Interval, width: int) -> Interval:
    return fits(a.low + b.low, a.high + b.high, width)


def subtract(a: Interval, b: Interval, width: int) -> Interval:
    return fits(a.low - b.high, a.high - b.low, width)


def multiply(a: Interval, b: Interval, width: int) -> Interval:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return fits(min(corners), max(corners), width)


def bitwise_and(a: Interval, b: Interval, width: int) -> Interval:
    """A non-negative operand bounds the result by itself."""
    bounds = [i.high for i in (a, b) if i.low >= 0]
    return Interval(0, min(bounds)) if bounds else whole(width)


def bitwise_or(a: Interval, b: Interval, width: int) -> Interval:
    """Also for xor: no bit above both operands' highest is set."""
    if a.low < 0 or b.low < 0:
        return whole(width)
    return Interval(0, (1 << max(a.high.bit_length(), b.high.bit_length())) - 1)


def shift_right(a: Interval, amount: int, width: int, signed: bool) -> Interval:
    if not signed and a.low < 0:
        return whole(width) if amount == 0 else fits(0, (1 << (width - min(amount, width))) - 1, width)
    return Interval(a.low >> min(amount, width), a.high >> min(amount, width))


def negate(a: Interval, width: int) -> Interval:
    return fits(-a.high, -a.low, width)


def absolute(a: Interval, width: int) -> Interval:
    low = 0 if 0 in a else min(abs(a.low), abs(a.high))
    return fits(low, max(abs(a.low), abs(a.high)), width)


def unsigned(a: Interval, width: int) -> tuple[int, int]:
    """The bounds of the same bits read as an unsigned integer."""
    if a.low >= 0:
        return a.low, a.high
    if a.high < 0:
        return a.low + (1 << width), a.high + (1 << width)
    return 0, (1 << width) - 1
