"""``hybridcc compare``: two results of the benchmark suite."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridcc.errors import InputError

if TYPE_CHECKING:
    from hybridcc.report.comparison import Comparison, Row, Speed

UNTESTABLE = 125
SCHEMA_VERSION = 1
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_FAIL_ON = re.compile(r"slower(?::(\d+(?:\.\d+)?)%)?")


class Policy(StrEnum):
    proved = "proved"
    tested = "tested"
    fastmath = "fastmath"
    cuda_cpp = "cuda_cpp"


def compare(
    old: Annotated[Path, typer.Argument(help="Results of `python -m benchmarks run`, or a folder with latest.json.")],
    new: Annotated[Path, typer.Argument(help="The same, of the run that is judged.")],
    policy: Annotated[Policy, typer.Option(help="Which side of the suite is compared.")] = Policy.proved,
    fail_on: Annotated[str, typer.Option(help="slower, or slower:2% for what is slower by more than that.")] = "slower",
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 4 where a row is undecided.")] = False,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="For git bisect run: exit code 125 where nothing was measured twice.")
    ] = False,
    across: Annotated[bool, typer.Option("--across", help="Compare runs on different GPUs too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Hold the speeds over stock Numba of two runs against each other, row by row.

    Exit codes: 0 no row is slower, 1 one is (--fail-on), 2 bad input or other GPUs, 3 nothing was measured in both,
    4 a row is undecided with --strict, 125 in place of 3 with --bisect.
    """
    import json

    from hybridcc.report import comparison

    most = _slack(fail_on)
    before, after = comparison.read(old, policy.value), comparison.read(new, policy.value)
    if before.conditions["gpu"] != after.conditions["gpu"] and not across:
        raise InputError(
            f"the runs are of different GPUs: {before.conditions['gpu']} and {after.conditions['gpu']}",
            where=after.path,
            next_step="compare runs of one kind of GPU, or pass --across",
        )
    found = comparison.compare(before, after)
    text = markdown(found, policy.value)
    if as_json:
        typer.echo(json.dumps(as_data(found, policy.value), indent=2, sort_keys=True))
    else:
        typer.echo(text, nl=False)
    if summary := os.environ.get(STEP_SUMMARY):
        with Path(summary).open("a") as file:
            file.write(text)
    raise typer.Exit(exit_code(found, most, strict, bisect))


def _slack(fail_on: str) -> float:
    given = _FAIL_ON.fullmatch(fail_on)
    if given is None:
        raise InputError(f"--fail-on {fail_on!r} is neither slower nor slower:2%", next_step="write slower:2%")
    return float(given[1] or 0) / 100


def exit_code(found: Comparison, most: float, strict: bool, bisect: bool) -> int:
    from hybridcc.report.comparison import Kind

    if not found.measured:
        typer.echo("hybridcc: nothing was measured in both runs: run the suite on a GPU twice", err=True)
        return UNTESTABLE if bisect else 3
    if found.slower_by(most):
        return 1
    return 4 if strict and any(row.kind is Kind.INCONCLUSIVE for row in found.rows) else 0


def markdown(found: Comparison, policy: str) -> str:
    """The whole comparison as Markdown that is readable as it stands."""
    from collections import Counter

    counts = Counter(row.kind.value for row in found.rows)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    mean = "nothing measured in both" if found.geomean is None else f"{found.geomean:.4f}x"
    lines = [
        f"## hybridcc compare, policy {policy}",
        "",
        f"New over old, geomean of {len(found.measured)} of {len(found.rows)} rows: {mean} (more is faster); {told}.",
        *(f"Other conditions: {each}." for each in found.other_conditions),
        "",
        "| kernel | size | old, over stock | new, over stock | new over old | interval | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_line(row) for row in found.rows),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    change = "-" if row.change is None else f"{row.change:.3f}"
    interval = "-" if row.interval is None else f"{row.interval[0]:.3f} to {row.interval[1]:.3f}"
    return f"| {row.kernel} | {row.size} | {_told(row.old)} | {_told(row.new)} | {change} | {interval} | {row.kind} |"


def _told(speed: Speed | None) -> str:
    return "not measured" if speed is None else f"{speed.ratio:.3f} ({speed.variant})"


def as_data(found: Comparison, policy: str) -> dict[str, Any]:
    """Everything, for JSON."""
    from dataclasses import asdict

    return {
        "schema_version": SCHEMA_VERSION,
        "policy": policy,
        "geomean": found.geomean,
        "measured": len(found.measured),
        "other_conditions": list(found.other_conditions),
        "rows": [{**asdict(row), "kind": row.kind.value} for row in found.rows],
    }
