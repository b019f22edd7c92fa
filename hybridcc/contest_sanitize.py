"""Both sides of ``hybridcc ab`` under compute-sanitizer: B is judged by what A is clean of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hybridcc.contest import Progress, Side
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime.device import Device
from hybridcc.runtime.race_job import Contender
from hybridcc.runtime.race_sanitize import sanitize


def sanitized(
    a: Side, b: Side, arguments: Sequence[Argument], launch: Launch, device: Device, progress: Progress
) -> dict[str, list[dict[str, Any]]]:
    """What each tool says of each side, JSON-ready. Raises ToolchainError where there is no compute-sanitizer."""
    return {
        name: [
            asdict(found)
            for found in sanitize(
                Contender(name, one.cubin.bytes, one.entry.name), arguments, launch, device, progress=progress
            )
        ]
        for name, one in (("a", a), ("b", b))
    }


def verdict(told: dict[str, Any], found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """``told`` with what was found: a tool that finds something in B and nothing in A refutes B."""
    bad = [
        f"{b['tool']}: {b['text'].splitlines()[0] if b['text'] else 'errors'}"
        for a, b in zip(found["a"], found["b"], strict=True)
        if b["clean"] is False and a["clean"] is True
    ]
    correctness = told["correctness"]
    if bad and correctness["verdict"] != "refuted":
        how = "B MAKES ERRORS THAT A DOES NOT"
        correctness = {**correctness, "verdict": "refuted", "deviation": "; ".join(bad), "how": how}
    return {**told, "correctness": correctness, "sanitizer": found}


def lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    words = {True: "clean", False: "found errors", None: "could not run"}
    return [
        f"{name.upper()} under {each['tool']}: {words[each['clean']]}"
        + (f" ({each['text'].splitlines()[0]})" if each["text"] and not each["clean"] else "")
        for name in "ab"
        for each in found[name]
    ]
