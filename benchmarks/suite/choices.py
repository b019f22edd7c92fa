"""Choices made by an earlier run, to be measured anew: what was picked because it came out fastest came out too fast.

A run that is given the results of an earlier one on the same GPU races what that one chose and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.suite.building import POLICIES, STOCK, Built
from benchmarks.suite.results import measured
from hybridcc.errors import InputError


@dataclass(frozen=True, slots=True)
class Choices:
    """By kernel and size: what each policy chose. ``made`` is the earlier run's time."""

    made: str
    chosen: Mapping[tuple[str, str], Mapping[str, str]]

    def of(self, kernel: str, size: str) -> Mapping[str, str]:
        """Stock for what the earlier run did not measure."""
        return self.chosen.get((kernel, size), dict.fromkeys(POLICIES, STOCK))

    def left(self, built: Built, size: str) -> Built:
        """With the chosen variants alone. Raises InputError where one of them was not built this time."""
        wanted = {name for name in self.of(built.name, size).values() if name != STOCK}
        kept = tuple(v for v in built.variants if v.contender.name in wanted)
        missing = wanted - {v.contender.name for v in kept}
        if missing:
            raise InputError(
                f"{built.name} has no {', '.join(sorted(missing))}, which the run of {self.made} chose",
                next_step="race the same build as that run",
            )
        return replace(built, variants=kept)


def of_results(data: Mapping[str, Any], gpu: str) -> Choices:
    """Raises InputError where the results are another GPU's."""
    its = (data["machine"].get("gpu") or {}).get("name", "none")
    if its != gpu:
        raise InputError(f"the choices are for {its}, this is {gpu}", next_step="give results of this GPU")
    chosen = {
        (row["kernel"], row["size"]): {policy: choice["variant"] for policy, choice in row["choices"].items()}
        for row in measured(data["kernels"])
    }
    return Choices(data["made"], chosen)
