"""What the assembler's figures cost: spills, and the registers that keep one more block from running beside."""

from __future__ import annotations

from hybridcc.passes.rewrite.lints.finding import Finding
from hybridcc.ptx.targets import Target, blocks_per_sm

BLOCKS = (128, 256, 512, 1024)
"""Block sizes that are looked at where the launch is not known."""
NEAR = 8
"""Registers over a step of occupancy that are worth saving."""


def spills(stores: int, loads: int) -> tuple[Finding, ...]:
    if not stores and not loads:
        return ()
    text = (
        f"{stores} bytes are spilled and {loads} read back by each thread: registers go to local memory, which is "
        "global memory behind a cache; keep fewer values at a time"
    )
    return (Finding("SPILLS", "warning", text),)


def occupancy_cliff(target: Target, registers: int, shared: int, threads: int | None = None) -> tuple[Finding, ...]:
    """Where a few registers fewer let one more block run on each multiprocessor, and what then limits."""
    found = []
    for size in (threads,) if threads else BLOCKS:
        now = blocks_per_sm(target, threads=size, registers=registers, shared=shared)
        for fewer in range(registers - 1, max(0, registers - 1 - NEAR), -1):
            then = blocks_per_sm(target, threads=size, registers=fewer, shared=shared)
            if then > now:
                text = (
                    f"with blocks of {size} threads, {registers} registers let {now} blocks run on a multiprocessor of "
                    f"{target.name}, {fewer} would let {then}: {now * size} or {then * size} of "
                    f"{target.threads_per_sm} threads to hide each other's waiting"
                )
                found.append(Finding("OCCUPANCY_CLIFF", "note", text))
                break
    return tuple(found)
