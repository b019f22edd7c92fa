"""From a result of the benchmark suite to a report: a row for each kernel and size, none left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hybridcc import __version__
from hybridcc.errors import InputError
from hybridcc.report.model import Report, Speed, SuiteRow

SUITE_FORMAT: Final = 1
SIDES = ("fastmath", "proved", "tested", "cuda_cpp")
NEXT = "name a JSON file that `python -m benchmarks run` wrote"


def of_suite(path: Path) -> Report:
    """Raises InputError for a file that is no such result."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held.get("suite_format") != SUITE_FORMAT:
            raise InputError("is no result of the suite", where=str(path), next_step=NEXT)
        rows = tuple(_row(k, held["machine"]["gpu"]["name"]) for k in held["kernels"])
        machine = held["machine"]
        conditions = {
            "GPU": machine["gpu"]["name"],
            "driver": machine["driver_version"],
            "SM clock": f"{machine['clocks']['sm_mhz']} MHz",
            "rewriter": ", ".join(held["rewriter"]),
            **machine["versions"],
        }
        summary = held["summary"]
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"cannot be read as one: {error}", where=str(path), next_step=NEXT) from error
    return Report(
        path.name,
        __version__,
        conditions,
        (),
        rows,
        {
            "kernels": summary["kernels"],
            "rows": len(rows),
            "wins": summary["wins"],
            "ties": summary["ties"],
            "losses": summary["losses"],
            "geomean": summary["geomean_vs_stock_all"],
            "geomean_loops": summary["geomean_vs_stock_loops"],
            "geomean_vs_cuda_cpp": summary["geomean_vs_cuda_cpp"],
            "measured": sum(not row.void for row in rows),
            "verdicts": dict(Counter(row.verdict for row in rows)),
        },
    )


def _row(k: Mapping[str, Any], device: str) -> SuiteRow:
    chosen = k["choices"].get("proved", {}) if k["choices"] else {}
    variant = str(chosen.get("variant", "baseline"))
    verdict = k["variants"].get(variant, {}).get("verdict", "") if variant != "baseline" else "baseline"
    return SuiteRow(
        k["kernel"],
        k["size"],
        variant,
        verdict,
        {side: _speed(k, side, device) for side in SIDES},
        {side: value for side, value in k["percent_of_bound"].items() if isinstance(value, (int, float))},
        k["void"],
    )


def _speed(k: Mapping[str, Any], side: str, device: str) -> Speed:
    """Of a policy, that of the variant it chose; the baseline's own where it chose that."""
    name = side if side in k["measurements"] else k["choices"].get(side, {}).get("variant", "")
    found = k["measurements"].get(name)
    noise = k["noise_floor"]
    if found is None:
        ratio = k["over_stock"].get(side) if name == "baseline" else None
        if isinstance(ratio, (int, float)):
            return Speed("same", float(ratio), None, device, noise, "the baseline runs")
        return Speed("not_measured", None, None, device, None, k["void"] or "not in the race")
    interval = found["interval"]
    return Speed(
        found["kind"], found["ratio"], (interval[0], interval[1]) if interval else None, device, noise, found["reason"]
    )
