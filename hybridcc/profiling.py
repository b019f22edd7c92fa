"""``hybridcc profile``: every source of a profile that this machine and this target allow, the most trusted first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hybridcc.errors import ExecutionError, NoDevice, ProfileError

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.profile.hot import HotRegion
    from hybridcc.passes.profile.profile import Profile
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.runtime.profiling import Measured

Wanted: TypeAlias = Literal["auto", "measured", "executed", "estimated"]
MOST_EXECUTED_THREADS = 1 << 20
"""Launches with more threads are not executed on the CPU unless asked for by name."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """``profiles`` by trust, each with its regions' shares; ``hot`` are the regions by the first of them.

    ``failures`` says for each source that was tried and gave nothing why.
    """

    kernel: Kernel
    profiles: tuple[Profile, ...]
    hot: tuple[HotRegion, ...]
    disagreements: tuple[str, ...]
    failures: tuple[str, ...]
    measured: Measured | None = None
    nsight: Mapping[str, float] | None = None
    """Nsight Compute's share of samples, by region."""
    nsight_own: Mapping[str, float] | None = None
    """The same without the samples in which another warp was served."""

    @property
    def best(self) -> Profile:
        return self.profiles[0]


def profile(kernel: Kernel, launch: Launch | None, wanted: Wanted = "auto", *, every: int | None = None) -> Profiled:
    """Profiles of one kernel at one launch.

    ``wanted`` names one source, or ``auto`` for all that can be had. Raises the source's own error where it was asked
    for by name: NoDevice, ExecutionError, ProfileError(NO_LAUNCH).
    """
    from hybridcc.passes.profile.hot import hot_regions
    from hybridcc.passes.profile.profile import disagreements

    if wanted in ("measured", "executed") and launch is None:
        raise ProfileError(
            "NO_LAUNCH",
            f"a profile that is {wanted} needs a launch",
            next_step="give --grid, --block and --arg, or --inputs, or examples= in @hybridcc.jit",
        )
    failures: list[str] = []
    found: list[Profile] = []
    measured = None
    if launch is not None and wanted in ("auto", "measured"):
        measured = _measured(kernel, launch, wanted, every, failures)
        found += [measured.profile] if measured else []
    if launch is not None and wanted in ("auto", "executed"):
        found += _executed(kernel, launch, wanted, failures)
    if wanted in ("auto", "estimated"):
        found.append(_estimated(kernel))
    ranked = [hot_regions(kernel, each) for each in found]
    shares: list[tuple[Any, Mapping[str, float]]] = [
        (each.origin, {one.region.id: one.share for one in hot}) for each, hot in zip(found, ranked, strict=True)
    ]
    if measured is not None and measured.profile.shares:
        shares.insert(0, ("clock", measured.profile.shares))
    return Profiled(kernel, tuple(found), ranked[0], disagreements(shares), tuple(failures), measured)


def _measured(
    kernel: Kernel, launch: Launch, wanted: Wanted, every: int | None, failures: list[str]
) -> Measured | None:
    from hybridcc.passes.regions import find
    from hybridcc.runtime import device
    from hybridcc.runtime.profiling import measure

    try:
        return measure(kernel, launch, device.current(), find(kernel), every=every)
    except (NoDevice, ProfileError) as error:
        if wanted == "measured":
            raise
        failures.append(f"measured: {error.what}")
    return None


def _executed(kernel: Kernel, launch: Launch, wanted: Wanted, failures: list[str]) -> list[Profile]:
    from hybridcc.passes.profile.executed import executed

    if wanted == "auto" and launch.threads > MOST_EXECUTED_THREADS:
        failures.append(f"executed: {launch.threads} threads are many for the CPU; --source executed runs them")
        return []
    try:
        return [executed(kernel, launch)]
    except ExecutionError as error:
        if wanted == "executed":
            raise
        failures.append(f"executed: {error.what}")
    return []


def _estimated(kernel: Kernel) -> Profile:
    from hybridcc.passes.analysis import cfg
    from hybridcc.passes.profile.profile import estimate, key_of
    from hybridcc.passes.regions.find import entry_of
    from hybridcc.ptx import parse

    module = parse(kernel.ptx, kernel.name)
    found = estimate(kernel, cfg.build(entry_of(module, kernel.entry), module))
    return replace(found, key=key_of(kernel))


def with_nsight(found: Profiled, launch: Launch | None, source: str) -> Profiled:
    """The same with Nsight Compute's shares beside: ``source`` is ``run`` or the path of a CSV.

    Raises ProfileError(NSIGHT) for a CSV that cannot be read or is of other machine code, InputError.
    """
    from hybridcc.cli.files import read_text
    from hybridcc.passes.profile.profile import disagreements
    from hybridcc.passes.profile.samples import read_csv
    from hybridcc.runtime import nsight

    if source == "run":
        if launch is None:
            raise ProfileError("NO_LAUNCH", "Nsight Compute needs a launch", next_step="give --grid, --block and --arg")
        code, samples = nsight.run(found.kernel, launch, found.kernel.arch)
    else:
        code, samples = nsight.located_code(found.kernel, found.kernel.arch), read_csv(read_text(source)[0])
    shares, own = (
        {one.region.id: nsight.share_of(counts, one.region, sum(some.counts)) for one in found.hot}
        for some, counts in ((some, nsight.by_block(code, some)) for some in (samples, samples.own()))
    )
    ours = {one.region.id: one.share for one in found.hot}
    return replace(
        found,
        nsight=shares,
        nsight_own=own,
        disagreements=(*found.disagreements, *disagreements([(found.best.origin, ours), ("nsight", own)])),
    )


def as_data(found: Profiled) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "kernel": found.kernel.name,
        "arch": found.kernel.arch,
        "origin": found.best.origin,
        "regions": [region_data(one) for one in found.hot],
        "disagreements": list(found.disagreements),
        "not_available": list(found.failures),
        "seconds": None if found.measured is None else found.measured.seconds,
        "counting_overhead": None if found.measured is None else found.measured.counting_overhead,
        "timing_overhead": None if found.measured is None else found.measured.timing_overhead,
        "nsight": None if found.nsight is None else dict(found.nsight),
        "nsight_without_contention": None if found.nsight_own is None else dict(found.nsight_own),
        "profiles": [each.to_json() for each in found.profiles],
    }


def region_data(one: HotRegion) -> dict[str, Any]:
    return {
        "id": one.region.id,
        "share": one.share,
        "clock_share": one.clocks,
        "bound": None if one.bound == float("inf") else one.bound,
        "limiter": one.limiter.value,
        "executions": one.executions,
        "line": one.line,
        "skipped": one.skipped,
        "key": one.region.key,
    }
