"""What can be launched at all: a variant must run every launch that its baseline runs."""

from __future__ import annotations

from hybridcc.errors import LaunchLimit
from hybridcc.passes.kernel import LaunchBounds
from hybridcc.ptx.targets import MAX_THREADS_PER_BLOCK, WARP_SIZE, blocks_per_sm, target
from hybridcc.runtime.assemble import Cubin

NO_BOUNDS = LaunchBounds()


def largest_block(cubin: Cubin, entry: str, bounds: LaunchBounds = NO_BOUNDS) -> int:
    """The most threads that one block of ``entry`` can have on the cubin's architecture, in whole warps.

    Raises UnknownArchitecture where the table of targets has no figures for it.
    """
    on = target(cubin.arch)
    account = cubin.resources(entry)
    most = bounds.max_threads or MAX_THREADS_PER_BLOCK
    for threads in range(MAX_THREADS_PER_BLOCK, 0, -WARP_SIZE):
        if blocks_per_sm(on, threads=threads, registers=account.registers, shared=account.shared):
            return min(threads, most)
    return 0


def check_launch_limits(
    baseline: Cubin, variant: Cubin, entry: str, bounds: LaunchBounds = NO_BOUNDS, *, dynamic: bool = True
) -> None:
    """Raises LaunchLimit when a launch of the baseline exists that the variant cannot do: a block too large for its
    registers, or dynamic shared memory for which its static shared memory leaves no room. ``dynamic`` says whether
    the kernel uses dynamic shared memory; one that does not is launched with none, and may use more of the other."""
    before, after = (largest_block(cubin, entry, bounds) for cubin in (baseline, variant))
    if after < before:
        used = variant.resources(entry).registers
        raise LaunchLimit(
            f"with {used} registers a block has at most {after} threads on {variant.arch}, the baseline's {before}",
            next_step="use fewer registers, or declare launch_bounds on the kernel",
        )
    old, new = baseline.resources(entry).shared, variant.resources(entry).shared
    if new > old and dynamic:
        raise LaunchLimit(
            f"{new - old} bytes more of static shared memory leave less for a launch to ask for on {variant.arch}",
            next_step="use no more shared memory than the kernel does",
        )
