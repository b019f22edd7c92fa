"""The race of ``build``: on this machine's GPU, on the first example launch, for the GPU's own architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch
from hybridcc.pipeline import Progress, Race
from hybridcc.records import BASELINE, CandidateRecord, Machine, Speed

if TYPE_CHECKING:
    from hybridcc.runtime.race_job import Contender

BUDGET_S = 60.0


def race_here(examples: Sequence[Launch], progress: Progress, seed: int = 0) -> Race | None:
    """None where there is no GPU."""
    from hybridcc.runtime import device as devices
    from hybridcc.runtime.race import race
    from hybridcc.runtime.race_entrants import entrant

    device = devices.available()
    if device is None:
        return None

    def run(kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
        from hybridcc.speeds import speed_of

        why_not = _why_not(kernel, device.arch, examples)
        if why_not:
            return {c.name: Speed("not_measured", why_not) for c in candidates}
        raced = race(
            entrant(BASELINE, baseline.cubin, kernel.entry, kernel.ptx),
            entrants(kernel.entry, candidates),
            kernel.arguments,
            examples[0],
            device,
            budget_s=BUDGET_S,
            seed=seed,
            progress=progress,
        )
        return {c.name: speed_of(c.name, raced, device) for c in candidates}

    return run


def entrants(entry: str, candidates: Sequence[CandidateRecord]) -> list[Contender]:
    """Those that were assembled, each with the clones that check it."""
    from hybridcc.runtime.race_entrants import entrant

    return [
        entrant(c.name, c.machine.cubin, entry, c.ptx)
        for c in candidates
        if c.machine is not None and c.ptx is not None
    ]


def _why_not(kernel: Kernel, arch: str, examples: Sequence[Launch]) -> str:
    if kernel.arch != arch:
        return f"no {kernel.arch} GPU here"
    if not examples:
        return "no launch to race on: give --inputs or examples="
    return ""
