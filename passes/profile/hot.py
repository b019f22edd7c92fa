"""From a profile to a kernel's regions in order of what they cost, each with what its rewriting could bring at most."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.estimate import model_target
from hybridcc.passes.profile.model import Limiter, block_cost
from hybridcc.passes.profile.profile import Profile
from hybridcc.passes.regions.region import Region

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
        return float("inf") if self.best_share >= 1 else 1 / (1 - self.best_share)

    @property
    def best_share(self) -> float:
        """The measured share of the clock where there is one, else the modelled one."""
        return self.share if self.clocks is None else self.clocks

    @property
    def skipped(self) -> str:
        """Why the region is not worth a rewrite, or ""."""
        if self.region.ineligible is not None:
            return str(self.region.ineligible)
        if self.bound - 1 < LEAST_GAIN:
            return f"BELOW_BOUND: were it free, the kernel would gain {100 * (self.bound - 1):.1f} %"
        return ""


def hot_regions(kernel: Kernel, profile: Profile) -> tuple[HotRegion, ...]:
    """The kernel's regions, hottest first. Raises ProfileError(OTHER_PTX), PtxSyntaxError."""
    from hybridcc.passes.regions.find import find

    if profile.key:
        profile.check(kernel)
    found = [_hot(region, profile) for region in find(kernel, profile)]
    return tuple(sorted(found, key=lambda one: (-one.best_share, one.region.id)))


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
