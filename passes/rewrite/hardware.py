"""What the prompt says of the machine: figures of targets.py and instructions of isa.py that matter to one region.

A figure that does not matter to the region is left out, so that architectures which differ in others only share a
prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hybridcc.passes.profile.model import Unit, unit_of
from hybridcc.passes.regions import Region
from hybridcc.ptx import isa, semantics
from hybridcc.ptx.isa import Effect, Form, Rounding
from hybridcc.ptx.nodes import Instruction
from hybridcc.ptx.semantics import video
from hybridcc.ptx.targets import (
    BANK_WIDTH,
    KIB,
    MAX_REGISTERS_PER_THREAD,
    SECTOR,
    SHARED_BANKS,
    STATIC_SHARED_LIMIT,
    WARP_SIZE,
    Target,
    blocks_per_sm,
)

USUAL_BLOCK = 256
"""Threads of a block where nothing bounds them."""
TARGET_OCCUPANCY = 0.5
"""Part of a multiprocessor's warps that a rewrite should leave room for: what hides latency well in most kernels, with
registers enough for a batch of loads."""


def hardware(region: Region, on: Target, busiest: Unit, threads: int | None) -> tuple[str, ...]:
    """Sentences. ``threads`` is the largest block that the kernel may be launched with, where that is known."""
    instructions = tuple(i for b in region.order for i in region.cfg.instructions(b))
    return (
        *_registers(on, threads),
        *(_shared(on) if ".shared" in _spaces(region) else ()),
        *(_global() if _spaces(region) & {".global", "generic"} else ()),
        *_rates(on, instructions, busiest),
        *_families(region, on, instructions),
    )


def register_budget(on: Target, threads: int, occupancy: float) -> int:
    """The most registers a thread may have for so large a part of the multiprocessor's warps to be resident."""
    warps = -(-threads // WARP_SIZE)
    wanted = occupancy * on.warps_per_sm
    most = blocks_per_sm(on, threads=threads, registers=1, shared=0) * warps
    fitting = (
        r
        for r in range(1, MAX_REGISTERS_PER_THREAD + 1)
        if blocks_per_sm(on, threads=threads, registers=r, shared=0) * warps >= min(wanted, most)
    )
    return max(fitting)


def _registers(on: Target, threads: int | None) -> Iterator[str]:
    size = threads or USUAL_BLOCK
    known = "the largest launch" if threads else "the launch is not known, this is a usual one"
    yield (
        f"{WARP_SIZE} threads run together as a warp. A multiprocessor holds up to {on.warps_per_sm} warps, and has "
        f"{on.registers} registers of 32 bits; a .b64 or .f64 value takes two."
    )
    yield (
        f"Register budget, with blocks of {size} threads ({known}): at most "
        f"{register_budget(on, size, TARGET_OCCUPANCY)} registers a thread for {TARGET_OCCUPANCY:.0%} of the warps, "
        f"which is the target; {register_budget(on, size, 1)} for all of them."
    )


def _shared(on: Target) -> Iterator[str]:
    yield (
        f"Shared memory: {on.shared_per_sm // KIB} KiB a multiprocessor, {on.shared_per_block // KIB} KiB a block at "
        f"most ({STATIC_SHARED_LIMIT // KIB} KiB of it declared). {SHARED_BANKS} banks, {BANK_WIDTH} bytes wide: "
        f"threads of a warp that need different words of one bank (addresses {SHARED_BANKS * BANK_WIDTH} bytes apart) "
        "wait for each other; the same word is free."
    )


def _global() -> Iterator[str]:
    yield (
        f"Global memory moves whole sectors of {SECTOR} bytes, and a load takes hundreds of cycles. A thread stalls "
        "where a loaded value is first used, so loads that are issued together wait together. An access of n bytes "
        "needs an address that is a multiple of n. An immediate offset in an address is free."
    )


def _rates(on: Target, instructions: Iterable[Instruction], busiest: Unit) -> Iterator[str]:
    """Only of the unit that has most to do, and of those that are slow on some machines."""
    used = {unit_of(i) for i in instructions}
    figures = {Unit.INT32: f"{on.int32_per_clock} of 32-bit integers"}
    if busiest is Unit.FP32 or Unit.FP64 in used:
        figures[Unit.FP32] = f"{on.fp32_per_clock} of f32"
    if Unit.FP64 in used:
        figures[Unit.FP64] = f"{on.fp64_per_clock} of f64"
    if Unit.SPECIAL in used:
        figures[Unit.SPECIAL] = f"{on.special_per_clock} of ex2, lg2, rcp, rsqrt, sin, cos"
    yield (
        f"Results per clock and multiprocessor: {', '.join(figures.values())}. There is no 64-bit integer unit: a "
        "64-bit add is two instructions, a 64-bit product several."
    )


def _families(region: Region, on: Target, instructions: tuple[Instruction, ...]) -> Iterator[str]:
    approximate = any(isa.rounding(i) is Rounding.APPROXIMATE for i in instructions)
    # the video instructions are left out: the assembler emulates them
    known = [n for n in isa.OPCODES if n in semantics.COMPUTED and n not in video.OPCODES]
    computing = [n for n in known if any(_plain(f, approximate) for f in _on(n, on))]
    yield f"Computing: {', '.join(computing)}."
    if region.effects.barriers or region.effects.convergent:
        together = [n for n in isa.OPCODES if any(_joint(f) for f in _on(n, on))]
        yield f"Among threads: {', '.join(together)}."
    if ".shared" in _spaces(region):
        beside = [n for n in isa.OPCODES if any(_beside(f) for f in _on(n, on))]
        yield f"Asynchronous: {', '.join(beside)}."


def _on(name: str, on: Target) -> Iterator[Form]:
    major, minor = on.capability
    for form in isa.OPCODES[name].forms:
        if form.least_sm <= 10 * major + minor and (on.arch_specific or not form.arch_specific):
            yield form


def _plain(form: Form, approximate: bool) -> bool:
    return not form.effects and (approximate or form.rounding is not Rounding.APPROXIMATE)


def _joint(form: Form) -> bool:
    together = form.effects & {Effect.CONVERGENT, Effect.BARRIER} or form.effects == {Effect.FENCE}
    return bool(together) and not form.effects & {Effect.STATE, Effect.ASYNC, Effect.VOLATILE}


def _beside(form: Form) -> bool:
    return Effect.ASYNC in form.effects and Effect.VOLATILE not in form.effects


def _spaces(region: Region) -> set[str]:
    return {*region.effects.loads, *region.effects.stores, *region.effects.atomics}
