"""What a run of the suite leaves: rows, and the summary that runs are compared by."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite.building import POLICIES
from benchmarks.suite.case import MEASURED
from hybridcc.errors import InputError
from hybridcc.passes.rewrite.recording import replace_file

FORMAT = 1
LATEST = "latest.json"

LEAST = 0.99
"""A ratio below this is a loss; above its inverse a win; a tie between."""

Row = Mapping[str, Any]


def measured(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.get("over_stock")]


def geomean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def by_kernel(rows: Iterable[Row], figure: str, side: str) -> dict[str, float]:
    """Each kernel's geometric mean over its sizes, of a side's ratio (``over_stock``, ``over_cuda_cpp``)."""
    found: dict[str, list[float]] = {}
    for row in measured(rows):
        value = (row.get(figure) or {}).get(side)
        if value is not None:
            found.setdefault(row["kernel"], []).append(value)
    return {name: math.exp(sum(map(math.log, values)) / len(values)) for name, values in found.items()}


def summary(rows: Sequence[Row], expected: Sequence[str]) -> dict[str, Any]:
    """Of the policy ``proved``, with the same for others under ``by_side``. Kernels weigh alike, whatever their sizes.
    One without a verified rewrite counts with 1.0, since stock Numba is what runs then."""
    own = _of_side(rows, "proved")
    sides = ("fastmath", *POLICIES, "cuda_cpp")
    missing = {f"{name} {size}" for name in expected for size in MEASURED} - {
        f"{row['kernel']} {row['size']}" for row in measured(rows)
    }
    return {
        **own,
        "kernels": len({row["kernel"] for row in measured(rows)}),
        "kernels_in_suite": len(expected),
        "proved": len({row["kernel"] for row in rows if "proved" in {v["verdict"] for v in row["variants"].values()}}),
        "chosen": len({row["kernel"] for row in measured(rows) if row["choices"]["proved"]["code"] == "FASTER"}),
        "not_measured": sorted(missing),
        "by_size": {size: _of_side([row for row in rows if row["size"] == size], "proved") for size in MEASURED},
        "by_side": {side: _of_side(rows, side) for side in sides},
        "beyond_loops": geomean(by_kernel([r for r in rows if r["beyond_loops"]], "over_stock", "proved").values()),
    }


def _of_side(rows: Sequence[Row], side: str) -> dict[str, Any]:
    ratios = [(row, (row["over_stock"] or {}).get(side)) for row in measured(rows)]
    known = [(row, ratio) for row, ratio in ratios if ratio is not None]
    return {
        "geomean_vs_stock_loops": geomean(by_kernel([r for r in rows if r["has_loop"]], "over_stock", side).values()),
        "geomean_vs_stock_all": geomean(by_kernel(rows, "over_stock", side).values()),
        "geomean_vs_cuda_cpp": geomean(by_kernel(rows, "over_cuda_cpp", side).values()),
        "min_ratio_vs_stock": min((ratio for _, ratio in known), default=None),
        "wins": sum(ratio > 1 / LEAST for _, ratio in known),
        "ties": sum(LEAST <= ratio <= 1 / LEAST for _, ratio in known),
        "losses": sum(ratio < LEAST for _, ratio in known),
        "losses_to_cuda_cpp": sum(
            (row["over_cuda_cpp"] or {}).get(side, 1.0) < LEAST for row, _ in known if row["over_cuda_cpp"]
        ),
    }


def folder_of(gpu: str) -> str:
    return gpu.replace(" ", "-").lower()


def write(results: Mapping[str, Any], folder: Path, stamp: str) -> Path:
    """``suite-<stamp>.json`` and ``latest.json`` in the GPU's folder. Raises OutputError."""
    place = folder / folder_of((results["machine"].get("gpu") or {}).get("name", "no-gpu"))
    place.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, default=str) + "\n"
    path = place / f"suite-{stamp}.json"
    replace_file(path, text)
    replace_file(place / LATEST, text)
    return path


def read(path: Path) -> dict[str, Any]:
    """Raises InputError for a file that is no result of the suite."""
    try:
        data = json.loads(path.read_text())
        if data["suite_format"] != FORMAT:
            raise ValueError(f"of format {data['suite_format']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"no result of the suite: {error}", where=str(path), next_step="make it with python -m benchmarks run"
        ) from error
    return data
