"""Which regions of a kernel are asked about, and the prompts: the same for building and for exporting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hybridcc.passes.kernel import Kernel

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite import Prompt
    from hybridcc.runtime.bundle import Bundle
    from hybridcc.sources import Source

MOST_REGIONS = 3
CHARACTERS_PER_TOKEN = 2
"""Of PTX, as tokenizers of large models cut it: two to three; the lower is the safe side."""
ANSWER_FACTOR = 2
"""How much longer an answer may be than its region: an unrolled loop."""


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


def fitting(kernel: Kernel, regions: Sequence[Region], window: int | None) -> tuple[Region, ...]:
    """The regions, those cut whose prompt and answer together are longer than ``window`` tokens (None: as they are).

    Tokens are estimated from characters, on the safe side: how a model cuts text up, only the model knows. An answer is
    taken to be as long as twice its region."""
    if window is None:
        return tuple(regions)
    from hybridcc.passes.regions import cut
    from hybridcc.passes.rewrite import prompt

    room = window * CHARACTERS_PER_TOKEN
    found: list[Region] = []
    for region in regions:
        if not region.eligible:
            found.append(region)
            continue
        around = len(prompt.build(region, kernel).text) - len(region.text)  # a part's facts and examples differ little
        found += cut(kernel, region, lambda part, n=around: n + (1 + ANSWER_FACTOR) * len(part.text) <= room)
    return tuple(found)


def prompts_of(
    source: Source, most: int = MOST_REGIONS, *, body: bool = False, window: int | None = None
) -> tuple[Prompt, ...]:
    """One prompt per region that may be rewritten and architecture; architectures whose figures agree share one.
    Regions that are too long for ``window`` tokens are cut."""
    from hybridcc.passes.rewrite import prompt

    found = [
        prompt.build(region, kernel)
        for kernel in source.kernels
        for region in fitting(kernel, body_of(kernel) if body else regions_of(kernel, most), window)
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
