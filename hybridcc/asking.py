"""Which regions of a kernel are asked about, and the prompts: the same for building and for exporting."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hybridcc.passes.kernel import Kernel

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite import Prompt
    from hybridcc.runtime.bundle import Bundle
    from hybridcc.sources import Source

MOST_REGIONS = 3


def regions_of(kernel: Kernel, most: int = MOST_REGIONS) -> tuple[Region, ...]:
    """The hottest that may be rewritten, those hotter that may not, and those that could bring next to nothing: of the
    last two the report says why."""
    from dataclasses import replace

    from hybridcc.passes.profile.hot import LEAST_GAIN, below_bound, gain_of
    from hybridcc.passes.regions import find

    everything = find(kernel)
    found = [region for region in everything if gain_of(region.share) >= LEAST_GAIN]
    eligible = [region for region in found if region.eligible][:most]
    last = found.index(eligible[-1]) + 1 if eligible else most
    little = [replace(region, ineligible=below_bound(region.share)) for region in everything if region not in found]
    return (*found[:last], *little)


def body_of(kernel: Kernel) -> tuple[Region, ...]:
    """The whole kernel as the one region."""
    from hybridcc.passes.regions import body

    return (body(kernel),)


def prompts_of(source: Source, most: int = MOST_REGIONS, *, body: bool = False) -> tuple[Prompt, ...]:
    """One prompt per region that may be rewritten and architecture; architectures whose figures agree share one."""
    from hybridcc.passes.rewrite import prompt

    found = [
        prompt.build(region, kernel)
        for kernel in source.kernels
        for region in (body_of(kernel) if body else regions_of(kernel, most))
        if region.eligible
    ]
    return tuple({each.hash: each for each in found}.values())


def unanswered_of(bundle: Bundle) -> tuple[Prompt, ...]:
    """The prompts of a build to which no answer came: of a replayed build, those of the next round."""
    from hybridcc.passes.rewrite.prompt import of_text

    if "prompts.jsonl" not in bundle.manifest["files"]:
        return ()
    asked = [json.loads(line) for line in bundle.read("prompts.jsonl").decode().split("\n") if line]
    return tuple(of_text(exchange["prompt"]) for exchange in asked if not exchange["answers"])
