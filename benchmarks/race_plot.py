"""The plot of race_study.py: every race's ratio with its interval, by case, as one SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, ROW, LEFT, RIGHT, TOP = 960, 3, 190, 20, 60
SPAN = 0.04
"""The axis runs from 1 - SPAN to 1 + SPAN; what lies outside is drawn at its edge."""

COLOURS = {"faster": "#1a7f37", "slower": "#cf222e", "same": "#0969da", "inconclusive": "#8c959f", "void": "#000000"}


def plot(study: Mapping[str, Any]) -> str:
    """``study`` is the pooled JSON. One line per race, sorted by ratio within its case."""
    races = study["races"]
    cases = sorted({race["case"] for race in races}, key=lambda case: study["summary"][case]["baseline_us"] or 0)
    parts: list[str] = []
    y = TOP
    for case in cases:
        rows = sorted((race for race in races if race["case"] == case and race["measurement"]), key=_ratio)
        parts.append(_case(case, study["summary"][case], rows, y))
        y += ROW * len(rows) + 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 20}" '
        'font-family="system-ui, sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
    )
    return head + _title(study) + _axis(y) + "".join(parts) + "</svg>\n"


def _ratio(race: Mapping[str, Any]) -> float:
    return float(race["measurement"]["ratio"] or 1.0)


def _x(ratio: float) -> float:
    share = (min(max(ratio, 1 - SPAN), 1 + SPAN) - (1 - SPAN)) / (2 * SPAN)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _title(study: Mapping[str, Any]) -> str:
    conditions = study["conditions"]
    text = (
        f"{len(study['races'])} races on {conditions['gpu']}, {conditions['settings']['budget_s']:g} s each: "
        "baseline time over variant time, with its interval"
    )
    legend = "".join(
        f'<tspan fill="{colour}" dx="{0 if number == 0 else 14}">{name}</tspan>'
        for number, (name, colour) in enumerate(COLOURS.items())
    )
    return f'<text x="10" y="18" font-size="14">{html.escape(text)}</text>\n<text x="10" y="36">{legend}</text>\n'


def _axis(bottom: float) -> str:
    steps = [1 + step / 100 for step in range(-math.floor(SPAN * 100), math.floor(SPAN * 100) + 1)]
    lines = [
        f'<line x1="{_x(at):.1f}" y1="{TOP - 8}" x2="{_x(at):.1f}" y2="{bottom}" '
        f'stroke="{"#57606a" if at == 1 else "#e4e8ec"}"/>'
        f'<text x="{_x(at):.1f}" y="{TOP - 12}" text-anchor="middle" fill="#57606a">{at:.2f}</text>'
        for at in steps
    ]
    return "\n".join(lines) + "\n"


def _case(name: str, row: Mapping[str, Any], races: Sequence[Mapping[str, Any]], y: float) -> str:
    label = f"{name}: {row['baseline_us'] or 0:.1f} us, {row['races']} races"
    detail = f"{row['right']} right, {row['wrong']} wrong"
    parts = [
        f'<text x="10" y="{y + 12}">{html.escape(label)}</text>\n'
        f'<text x="10" y="{y + 26}" fill="#57606a">{html.escape(detail)}</text>\n'
    ]
    for number, race in enumerate(races):
        measured, at = race["measurement"], y + ROW * number + 2
        colour = COLOURS[race["verdict"]]
        if measured["interval"]:
            low, high = (_x(bound) for bound in measured["interval"])
            parts.append(
                f'<line x1="{low:.1f}" y1="{at}" x2="{max(high, low + 0.5):.1f}" y2="{at}" '
                f'stroke="{colour}" stroke-width="1.5"/>\n'
            )
        if measured["ratio"]:
            parts.append(f'<circle cx="{_x(measured["ratio"]):.1f}" cy="{at}" r="1.4" fill="{colour}"/>\n')
    return "".join(parts)
