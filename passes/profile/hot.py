"""From a profile to a kernel's regions in order of what they cost, each with what its rewriting could bring at most."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.estimate import model_target
from hybridcc.passes.profile.model import Limiter, block_cost
from hybridcc.passes.profile.profile import Profile
from hybridcc.passes.regions.region import Ineligible, Region

LEAST_GAIN = 0.02
"""Regions that could bring less, were they free, are skipped."""


@dataclass(frozen=True, slots=True)
class HotRegion:
    """``share`` (0 to 1) is of the kernel's time by counts and cost model; ``clocks`` the measured share of all
    threads' cycles, None without a GPU. ``bound`` is the kernel's speed-up if the region took no time (Amdahl).
    ``line`` is the source line that most of its time belongs to, "" without line information."""

    region: Region
    share: float
    clocks: float | None
    limiter: Limiter
    executions: float
    """Of the region's hottest block, by threads."""
    line: str = ""

    @property
    def bound(self) -> float:
        return 1 + gain_of(self.share)

    @property
    def skipped(self) -> str:
        """Why the region is not worth a rewrite, or ""."""
        if self.region.ineligible is not None:
            return str(self.region.ineligible)
        return str(below_bound(self.share)) if gain_of(self.share) < LEAST_GAIN else ""


def gain_of(share: float) -> float:
    """By how much a kernel gets faster, 0.5 being one and a half times as fast, if this part of its time goes
    (Amdahl)."""
    return float("inf") if share >= 1 else 1 / (1 - share) - 1


def below_bound(share: float) -> Ineligible:
    """The reason for leaving alone a region that is too small to matter."""
    return Ineligible("BELOW_BOUND", f"were it free, the kernel would gain {100 * gain_of(share):.1f} %")


def hot_regions(kernel: Kernel, profile: Profile) -> tuple[HotRegion, ...]:
    """The kernel's regions, hottest first. Raises ProfileError(OTHER_PTX), PtxSyntaxError."""
    from hybridcc.passes.regions.find import find

    if profile.key:
        profile.check(kernel)
    found = [_hot(region, profile) for region in find(kernel, profile)]
    return tuple(sorted(found, key=lambda one: (-one.share, one.region.id)))


def _hot(region: Region, profile: Profile) -> HotRegion:
    from hybridcc.passes.profile.lines import line_of

    cfg = region.cfg
    counts = profile.counts_in(cfg)
    weights = profile.weights(cfg)
    on = model_target(profile.arch)
    hottest = max(region.blocks, key=lambda b: weights[b])
    warps = profile.warps_per_sm if profile.warps_per_sm is not None else on.warps_per_sm / 2
    return HotRegion(
        region,
        region.share,
        profile.shares.get(region.id),
        block_cost(cfg.instructions(hottest), on).limiter(warps),
        counts[hottest],
        line_of(cfg, hottest),
    )
