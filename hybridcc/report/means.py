"""The mean of ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """None of none."""
    return math.exp(sum(math.log(r) for r in ratios) / len(ratios)) if ratios else None
