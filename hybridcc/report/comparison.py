"""Two results of the benchmark suite against each other: what got faster, what slower, what cannot be told.

A row is one kernel at one size under one policy. What is compared is its speed over stock Numba, which was measured in
the same race, so that two runs on machines of the same kind can be held against each other: absolute times cannot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from hybridcc.errors import InputError

MARGIN: Final = 0.01
"""A change that is certainly smaller than this is none."""
LATEST: Final = "latest.json"
SUITE_FORMAT: Final = 1
STOCK: Final = "stock Numba"


class Kind(StrEnum):
    """What became of a row."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True, slots=True)
class Speed:
    """Over stock Numba, more being faster: the ratio, its interval, and the variant that ran."""

    ratio: float
    interval: tuple[float, float]
    variant: str


@dataclass(frozen=True, slots=True)
class Results:
    """One run: the speed of each row, None where it was not measured, and on what it was measured."""

    path: str
    speeds: Mapping[tuple[str, str], Speed | None]
    conditions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """``change`` is the new speed over the old one, with an interval; both None where one side was not measured."""

    kernel: str
    size: str
    old: Speed | None
    new: Speed | None
    change: float | None
    interval: tuple[float, float] | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every row of either run, in order."""

    rows: tuple[Row, ...]
    other_conditions: tuple[str, ...]
    """Where the two were measured under different conditions."""

    @property
    def measured(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.change is not None)

    @property
    def geomean(self) -> float | None:
        """Of the measured rows' changes; None without any."""
        changes = [row.change for row in self.rows if row.change is not None]
        return math.exp(math.fsum(math.log(c) for c in changes) / len(changes)) if changes else None

    def slower_by(self, most: float) -> tuple[Row, ...]:
        """The rows that are slower, and by more than this (0.02: 2 %)."""
        return tuple(r for r in self.rows if r.kind is Kind.SLOWER and r.change is not None and 1 - r.change > most)


def read(path: Path, policy: str) -> Results:
    """A suite's results, or a folder's ``latest.json``. ``policy`` is a side of the suite: proved, tested, fastmath,
    cuda_cpp. Raises InputError."""
    file = path / LATEST if path.is_dir() else path
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read as JSON: {error}", where=str(file), next_step="give what `python -m benchmarks run` wrote"
        ) from error
    if not isinstance(data, dict) or data.get("suite_format") != SUITE_FORMAT:
        raise InputError(
            f"no results of the benchmark suite (suite_format {SUITE_FORMAT})",
            where=str(file),
            next_step="give what `python -m benchmarks run` wrote",
        )
    rows: Sequence[Mapping[str, Any]] = data["kernels"]
    speeds = {(row["kernel"], row["size"]): _speed(row, policy) for row in rows}
    return Results(str(file), speeds, _conditions(data))


def _speed(row: Mapping[str, Any], policy: str) -> Speed | None:
    if row.get("void") or policy not in row.get("over_stock", {}):
        return None
    choice = row.get("choices", {}).get(policy)
    variant = policy if choice is None else choice["variant"]
    measured = row.get("measurements", {}).get(variant)
    if measured is None:  # stock Numba's own code was chosen, which is what is compared with
        return Speed(1.0, (1.0, 1.0), STOCK)
    if measured["ratio"] is None or measured["interval"] is None:
        return None
    low, high = measured["interval"]
    return Speed(measured["ratio"], (low, high), variant)


def _conditions(data: Mapping[str, Any]) -> dict[str, str]:
    machine = data["machine"]
    gpu = machine.get("gpu") or {}
    versions = machine.get("versions") or {}
    named = {name: str(versions.get(name, "")) for name in ("numba-cuda", "nvidia-nvjitlink", "nvidia-nvvm")}
    return {"gpu": str(gpu.get("name", "")), "driver": str(machine.get("driver_version", "")), **named}


def compare(old: Results, new: Results) -> Comparison:
    """Every row of either, the old run's first."""
    keys = list(dict.fromkeys([*old.speeds, *new.speeds]))
    rows = tuple(_row(key, old.speeds.get(key), new.speeds.get(key)) for key in keys)
    names = dict.fromkeys([*old.conditions, *new.conditions])
    other = tuple(
        f"{name}: {old.conditions.get(name, '')} and {new.conditions.get(name, '')}"
        for name in names
        if old.conditions.get(name) != new.conditions.get(name)
    )
    return Comparison(rows, other)


def _row(key: tuple[str, str], old: Speed | None, new: Speed | None) -> Row:
    if old is None or new is None:
        return Row(*key, old, new, None, None, Kind.NOT_MEASURED)
    change = new.ratio / old.ratio
    interval = (new.interval[0] / old.interval[1], new.interval[1] / old.interval[0])
    return Row(*key, old, new, change, interval, Kind.SAME if old == new else _kind(change, interval))


def _kind(change: float, interval: tuple[float, float]) -> Kind:
    """Decided where the interval leaves 1 out and the change is no smaller than MARGIN; none where the whole interval
    lies within it."""
    low, high = interval
    if low > 1 and change >= 1 + MARGIN:
        return Kind.FASTER
    if high < 1 and change <= 1 - MARGIN:
        return Kind.SLOWER
    return Kind.SAME if low >= 1 - MARGIN and high <= 1 + MARGIN else Kind.INCONCLUSIVE
