"""One screen per kernel, from its manifest: verdict first, then what was selected and why, then the evidence.

A number stands here only if an assembler, the executor or a device gave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hybridcc.records import BASELINE
from hybridcc.report.words import plural

Data = Mapping[str, Any]

FATE_STYLES = {"chosen": "green", "failed": "red", "slower": "yellow", "tie": "yellow", "skipped": "dim"}


def show(manifest: Data, console: Console, folder: str = "") -> None:
    """Print the report of one kernel."""
    kernel = manifest["kernel"]
    source = f", {kernel['source']}" if kernel["source"] else ""
    console.print(Text.assemble((kernel["name"], "bold"), (f"  {kernel['frontend']}{source}", "dim")))
    parts: list[Any] = [*_headlines(manifest), _architectures(manifest)]
    parts += _regions(manifest)
    parts += _candidates(manifest)
    parts += _inputs(manifest)
    parts += _failures(manifest)
    if folder:
        parts.append(Text(f"written to {folder}", "dim"))
    console.print(Padding(Group(*parts), (0, 0, 1, 2)))


def _headlines(manifest: Data) -> list[Text]:
    """One line per distinct selection, with the architectures it holds for."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in manifest["architectures"]:
        chosen = entry["selection"]
        groups.setdefault((chosen["variant"], chosen["reason"]), []).append(entry["arch"])
    return [
        Text.assemble((f"{', '.join(archs)}: ", "bold"), (reason, "green" if variant != BASELINE else "yellow"))
        for (variant, reason), archs in groups.items()
    ]


def _architectures(manifest: Data) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("arch", "module", "registers", "spill bytes st/ld", "SASS", "speed"):
        table.add_column(heading, overflow="fold")
    for entry in manifest["architectures"]:
        base = entry["baseline"]["machine"]
        table.add_row(entry["arch"], BASELINE, *_figures(base, None), "")
        for candidate in entry["candidates"]:
            if candidate["machine"] is not None:
                name = candidate["name"]
                mark = "*" if entry["selection"]["variant"] == name else ""
                table.add_row("", name + mark, *_figures(candidate["machine"], base), _speed(candidate["speed"]))
    return table


def _figures(machine: Data | None, base: Data | None) -> tuple[str, str, str]:
    if machine is None:
        return "not assembled", "", ""

    def against(field: str) -> str:
        value = machine[field]
        if value is None:
            return "not read"
        if base is None or base[field] is None:
            return str(value)
        return f"{value} ({value - base[field]:+d})"

    spills = f"{machine['spill_stores']}/{machine['spill_loads']}"
    return against("registers"), spills, against("instructions")


def _speed(speed: Data) -> str:
    if speed["ratio"] is None:
        return f"{speed['kind']} ({speed['reason']})" if speed["reason"] else speed["kind"]
    low, high = speed["interval"]
    return f"{speed['kind']} {speed['ratio']:.2f}x [{low:.2f}, {high:.2f}] {speed['device']}"


def _regions(manifest: Data) -> list[Text]:
    first = manifest["architectures"][0]["regions"] if manifest["architectures"] else []
    lines = []
    for region in first:
        answered = plural(region["answers"], "answer") if region["prompt_hash"] else "no answer"
        state = f"not rewritable ({region['ineligible']})" if region["ineligible"] else answered
        lines.append(
            Text(
                f"{region['name']}: {region['weight']} (estimated), {plural(region['blocks'], 'block')}, "
                f"{region['inputs']} in, {region['outputs']} out, {region['effects']}; {state}"
            )
        )
    return lines or [Text("no hot region: nothing to rewrite")]


def _candidates(manifest: Data) -> list[Text]:
    """Each candidate's fate, with the architectures that share it."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    after = {c["name"]: c["after"] for a in manifest["architectures"] for c in a["candidates"]}
    for entry in manifest["architectures"]:
        for candidate in entry["candidates"]:
            fate = candidate["fate"]
            detail = candidate["verdict"]["text"] if candidate["verdict"] else ""
            if fate["detail"] and fate["detail"] not in detail:
                detail = f"{detail}; {fate['detail']}" if detail else fate["detail"]
            groups.setdefault((candidate["name"], fate["kind"], fate["code"], detail), []).append(entry["arch"])
    lines = []
    for (name, kind, code, detail), archs in groups.items():
        where = "" if len(archs) == len(manifest["architectures"]) else f" on {', '.join(archs)}"
        told = f" (after {after[name]} failed)" if after[name] else ""
        lines.append(
            Text.assemble(f"{name}{told}{where}: ", (f"{kind} [{code}]", FATE_STYLES[kind]), f" {_short(detail)}")
        )
    return lines


def _inputs(manifest: Data) -> list[Text]:
    evidence = [c["evidence"] for a in manifest["architectures"] for c in a["candidates"] if c["evidence"]]
    if not evidence:
        return []
    first = evidence[0]
    made = {
        "types": "inputs made from types (give --inputs or examples= for your own)",
        "example": "inputs made from the examples given",
        "given": "inputs as given",
    }[first["origin"]]
    shapes = f"; shapes {' | '.join(first['plans'])}" if first["plans"] else ""
    skipped = sum(first["skipped"].values())
    left_out = f"; {skipped} left out, where the baseline itself faults" if skipped else ""
    return [Text(f"{made}{shapes}{left_out}", "dim"), *(Text(f"note: {n}", "dim") for n in first["notes"])]


def _failures(manifest: Data) -> list[Text]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for entry in manifest["architectures"]:
        for failure in entry["failures"]:
            found.setdefault((failure["stage"], failure["code"], failure["message"]), []).append(entry["arch"])
    for failure in manifest["failures"]:
        found.setdefault((failure["stage"], failure["code"], failure["message"]), [])
    return [
        Text.assemble((f"{stage} failed [{code}]", "red"), f"{_on(archs, manifest)}: {_short(message)}")
        for (stage, code, message), archs in found.items()
    ]


def _on(archs: Sequence[str], manifest: Data) -> str:
    everywhere = len(archs) in (0, len(manifest["architectures"]))
    return "" if everywhere else f" on {', '.join(archs)}"


def _short(text: str, most: int = 300) -> str:
    """The first sentence or two: a screen is one screen, and the manifest has the whole of it."""
    first, *rest = text.split("\n")
    told = f"{first} {rest[0].strip()}" if rest and first.endswith(":") else first
    return told if len(told) <= most else f"{told[:most]} … (the rest is in manifest.json)"
