"""Reading the CSV of Nsight Compute's source page."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace

from hybridcc.errors import ProfileError

SOURCE_COLUMN = "Source"
CONTENTION_COLUMNS = ("stall_not_selected", "stall_math")
SAMPLE_COLUMNS = ("# Samples", "Samples", "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (All Cycles)")


@dataclass(frozen=True, slots=True)
class Samples:
    """One kernel's machine instructions in address order, how often each was sampled, and its commonest stall.

    ``contended`` are the samples of each that found the warp waiting for the issue slot or a math pipe which another
    warp had: time that is the other's. Where many warps share a multiprocessor the oldest is served first, and the
    others pile up wherever they first need the busy pipe, be it ever so seldom executed.
    """

    sass: tuple[str, ...]
    counts: tuple[int, ...]
    stalls: tuple[str, ...]
    contended: tuple[int, ...]

    def own(self) -> Samples:
        """Without the samples in which another warp was served in place of this one."""
        return replace(self, counts=tuple(c - o for c, o in zip(self.counts, self.contended, strict=True)))


def read_csv(text: str, log: str = "") -> Samples:
    """Raises ProfileError(NSIGHT) for text that holds no source page with samples; ``log`` is what the tool said."""
    rows = list(csv.reader(line for line in text.splitlines() if not line.startswith("==")))
    head = next((n for n, row in enumerate(rows) if SOURCE_COLUMN in row and _column(row) is not None), None)
    if head is None:
        said = " ".join((log or text).split())[-300:]
        raise ProfileError(
            "NSIGHT",
            f"no source page with samples{': ' + said if said else ''}",
            next_step="export with: ncu --section SourceCounters --page source --csv",
        )
    names = rows[head]
    source, samples = names.index(SOURCE_COLUMN), _column(names)
    assert samples is not None
    stalls = [n for n, name in enumerate(names) if name.startswith("stall_") and "not_issued" not in name]
    body = [row for row in rows[head + 1 :] if len(row) == len(names) and row != names]
    return Samples(
        tuple(row[source].strip(" ;") for row in body),
        tuple(_number(row[samples]) for row in body),
        tuple(_worst(row, names, stalls) for row in body),
        tuple(sum(_number(row[names.index(c)]) for c in CONTENTION_COLUMNS if c in names) for row in body),
    )


def _column(names: list[str]) -> int | None:
    return next((names.index(name) for name in SAMPLE_COLUMNS if name in names), None)


def _worst(row: list[str], names: list[str], stalls: list[int]) -> str:
    worst = max(stalls, key=lambda n: _number(row[n]), default=None)
    return names[worst] if worst is not None and _number(row[worst]) else ""


def _number(text: str) -> int:
    try:
        return int(float(text.replace(",", "") or 0))
    except ValueError:
        return 0
