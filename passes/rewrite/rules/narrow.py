"""Counting in 32 bits, where a range or a guard shows that the trips fit: half the instructions of a 64-bit counter."""

from __future__ import annotations

from hybridcc.passes.rewrite.rules.bounds import Bounds
from hybridcc.passes.rewrite.rules.vector import MOST_OPERATIONS, spelled
from hybridcc.passes.verify.proof.terms import Polynomial

FITS = 1 << 31


def condition(trips: Polynomial, bounds: Bounds) -> str | None:
    """What must be asked so that the trips fit 32 bits with a sign: "" where nothing, None where no guard can."""
    if trips.width == 32 or bounds.range(trips).high < FITS:
        return ""
    sum_ = spelled(trips)
    if sum_ is None or sum_.count("*") + sum_.count("+") > MOST_OPERATIONS:
        return None
    return f"{sum_} < {FITS}"
