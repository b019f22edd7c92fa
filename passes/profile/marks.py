"""Regions marked in the PTX itself, as comments that survive reading and printing."""

from __future__ import annotations

from collections.abc import Sequence

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.hot import HotRegion
from hybridcc.passes.profile.profile import Profile
from hybridcc.passes.splice.place import insert, with_function
from hybridcc.ptx import parse
from hybridcc.ptx.nodes import Comment, Label, Statement


def marked(kernel: Kernel, profile: Profile, hot: Sequence[HotRegion]) -> str:
    """The kernel's PTX with ``// hybridcc.region`` lines before each region's entry and after its last statement.

    Begin and end name the region and the profile's origin; ``execute``, ``assemble`` and ``parse`` see no difference.
    """
    from hybridcc.passes.regions.find import entry_of

    module = parse(kernel.ptx, kernel.name)
    function = entry_of(module, kernel.entry)
    before: dict[int, list[Statement]] = {}
    for one in hot:
        region = one.region
        cfg = region.cfg
        first = cfg.blocks[region.entry].first
        while first < cfg.blocks[region.entry].last and isinstance(cfg.statements[first], Label):
            first += 1
        before.setdefault(first, []).append(Comment(_begin(one, profile)))
        if region.exit >= 0:
            last = cfg.blocks[region.exit].first
            before.setdefault(last, []).insert(0, Comment(f"// hybridcc.region end {region.id}"))
    return str(with_function(module, function, insert(function, before, frozenset(), {})))


def _begin(one: HotRegion, profile: Profile) -> str:
    bound = f"{one.bound:.2f}x" if one.bound < 100 else "none"
    words = [
        f"// hybridcc.region begin {one.region.id}",
        f"share={100 * one.share:.1f}%",
        f"origin={profile.origin}",
        f"bound={bound}",
        f"limiter={one.limiter.value}",
    ]
    return " ".join(words)
