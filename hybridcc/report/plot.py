"""Intervals as a drawing in the page: one row each, the band of the baseline against itself shaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hybridcc.report.model import Speed

WIDTH, ROW, LEFT, RIGHT = 640, 22, 190, 120


@dataclass(frozen=True, slots=True)
class Row:
    """Where one row is drawn; all in pixels."""

    y: float
    label: str
    low: float
    high: float
    at: float
    band_left: float
    band_width: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    one: float
    height: int
    width: int = WIDTH


def plot(speeds: Sequence[tuple[str, Speed]]) -> Plot | None:
    """Those that were measured, on a logarithmic axis with 1 in it; None where none was."""
    measured = [(label, s) for label, s in speeds if s.ratio is not None]
    if not measured:
        return None
    ends = [1.0]
    for _, s in measured:
        assert s.ratio is not None
        ends += [s.ratio, *(s.interval or ())]
        ends += [1 - (s.noise or 0.0), 1 + (s.noise or 0.0)]
    low, high = min(ends) / 1.03, max(ends) * 1.03
    span = math.log(high / low)

    def x(ratio: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * math.log(ratio / low) / span, 1)

    rows = []
    for number, (label, s) in enumerate(measured):
        assert s.ratio is not None
        left, right = s.interval or (s.ratio, s.ratio)
        noise = s.noise or 0.0
        text = f"{s.ratio:.2f}x" + (f" [{left:.2f}, {right:.2f}]" if s.interval else "")
        rows.append(
            Row(
                ROW * number + ROW / 2, label, x(left), x(right), x(s.ratio), x(1 - noise),
                max(1.0, round(x(1 + noise) - x(1 - noise), 1)), s.kind, text,
            )
        )  # fmt: skip
    return Plot(tuple(rows), tuple((x(t), f"{t:g}x") for t in _ticks(low, high)), x(1.0), ROW * len(rows) + 24)


def _ticks(low: float, high: float) -> list[float]:
    powers = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    inside = [p for p in powers if low <= p <= high]
    return inside if len(inside) > 1 else sorted({1.0, round(low * 1.02, 2), round(high / 1.02, 2)})
