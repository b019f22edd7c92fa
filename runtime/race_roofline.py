"""What no kernel can beat: times that would take more than the GPU's bandwidth or arithmetic are errors of measurement.

Only what is certain counts. A launch stores at least the words that it changes; of those, what the L2 cache cannot hold
back has to reach memory. Each warp issues at least one instruction. A caller who knows more gives it as ``Work``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hybridcc.errors import UnknownArchitecture
from hybridcc.ptx.targets import WARP_SIZE, target


@dataclass(frozen=True, slots=True)
class Work:
    """What every right kernel has to do in one launch: bytes moved from and to memory (not within the L2 cache), and
    results of arithmetic, a fused multiply-add being one; ``int32`` counts additions, comparisons and logic."""

    bytes: int = 0
    fp32: int = 0
    fp64: int = 0
    int32: int = 0


NO_WORK = Work()


@dataclass(frozen=True, slots=True)
class Bound:
    """A launch takes at least ``least_us``, at ``rate`` (in words)."""

    least_us: float
    rate: str


def bounds(facts: Mapping[str, Any], threads: int, launches: int, work: Work = NO_WORK) -> tuple[Bound, ...]:
    """``facts`` are the racing process's (race_worker: device); what they lack bounds nothing."""
    found = []
    bandwidth = float(facts.get("peak_gb_s") or 0)
    if bandwidth:
        moved = max(_stored(facts, launches), work.bytes)
        found.append(Bound(moved / bandwidth / 1000, f"{bandwidth:.0f} GB/s of memory"))
    mhz = float(facts.get("peak_sm_mhz") or 0)
    try:
        on = target(facts.get("arch", ""))
    except UnknownArchitecture:
        return tuple(found)
    if mhz:
        clocks = int(facts["multiprocessors"]) * mhz
        warps = -(-threads // WARP_SIZE)
        found.append(Bound(warps / (clocks * on.partitions), "one instruction of each warp"))
        for kind, count, rate in (
            ("f32", work.fp32, on.fp32_per_clock),
            ("f64", work.fp64, on.fp64_per_clock),
            ("i32", work.int32, on.int32_per_clock),
        ):
            found.append(Bound(count / (clocks * rate), f"{clocks * rate / 1e6:.1f} T results of {kind} per second"))
    return tuple(found)


def _stored(facts: Mapping[str, Any], launches: int) -> float:
    """Bytes per launch that reach memory: over a round of the buffer sets, the L2 cache keeps back its size at most."""
    sets = max(1, min(int(facts.get("sets") or 1), launches))
    written = int(facts.get("written_bytes") or 0)
    return max(0.0, (written * sets - int(facts.get("l2_bytes") or 0)) / sets)


def impossible(launch_us: float, known: tuple[Bound, ...]) -> str:
    """Why a launch cannot have taken so little; empty if it can."""
    worst = max(known, key=lambda bound: bound.least_us, default=None)
    if worst is None or launch_us >= worst.least_us:
        return ""
    return f"{launch_us:.2f} us is less than the {worst.least_us:.2f} us that {worst.rate} take: the timing is wrong"
