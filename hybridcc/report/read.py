"""A report of whatever can be reported: a bundle, a folder of bundles, a result of the benchmark suite."""

from __future__ import annotations

from pathlib import Path

from hybridcc.errors import InputError
from hybridcc.report.model import Report

MANIFEST = "manifest.json"
NEXT = "name a folder that hybridcc build wrote, or a result of `python -m benchmarks run`"


def read(place: Path) -> Report:
    """Raises InputError for what is none of them."""
    from hybridcc.report.from_bundle import of_bundles
    from hybridcc.report.from_suite import of_suite

    if place.suffix == ".json" and place.is_file():
        return of_suite(place)
    if place.is_file() or (place / MANIFEST).is_file():
        return of_bundles([place], place.name)
    inside = sorted(path.parent for path in place.glob(f"*/{MANIFEST}")) if place.is_dir() else []
    if not inside:
        raise InputError("holds nothing to report", where=str(place), next_step=NEXT)
    return of_bundles(inside, place.name)
