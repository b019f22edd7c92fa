"""What each supported architecture has: one table, each figure with its source.

Sources, by the letters that Target.sources gives for each figure:
G  CUDA C++ Programming Guide 13.0, appendix "Compute Capabilities", table "Technical Specifications per Compute
   Capability".
O  ``cuda_occupancy.h`` of CUDA 13.0 (allocation granularities, blocks per multiprocessor).
T  CUDA C++ Programming Guide 13.0, section "Arithmetic Instructions", table "Throughput of Native Arithmetic
   Instructions" (results per clock per multiprocessor).
P  PTX ISA 9.0, chapter "Release Notes", table "PTX Release History".
W  NVIDIA's architecture whitepapers: A100 (2020), GA102 (2021), Ada (2023), H100 (2023); the board named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hybridcc.errors import UnknownArchitecture

KIB = 1024
WARP_SIZE = 32
SHARED_BANKS = 32
BANK_WIDTH = 4
"""Bytes that one bank gives in one clock."""
STATIC_SHARED_LIMIT = 48 * KIB
"""Bytes a block may declare statically; more is dynamic, and the launch has to ask for it."""
RESERVED_SHARED = 1 * KIB
"""Bytes of each block's shared memory that the system keeps."""
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
PREDICATES_PER_THREAD = 7
"""P0 to P6 of the machine code (CUDA Binary Utilities 13.0, "Instruction Set Reference")."""
SECTOR = 32
"""Bytes that one access to global memory moves at least (CUDA C++ Best Practices Guide 13.0, "Coalesced Access")."""


@dataclass(frozen=True, slots=True)
class Board:
    """One product, for peak figures where no device is at hand; a device's own properties go before these."""

    name: str
    multiprocessors: int
    boost_mhz: int
    bandwidth_gb_s: int


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture.

    Registers are 32-bit. Shared memory is in bytes: ``shared_per_block`` is what a launch may ask for at most
    (opt-in), ``shared_unit`` the granularity of its allocation; ``register_unit`` is in registers per warp.
    The ``…_per_clock`` are results per clock per multiprocessor, a fused multiply-add being one result.
    ``sources`` gives for each figure the letters of this module's docstring.
    """

    name: str
    capability: tuple[int, int]
    least_ptx: tuple[int, int]
    registers: int
    shared_per_sm: int
    shared_per_block: int
    warps_per_sm: int
    blocks_per_sm: int
    fp16_per_clock: int
    fp32_per_clock: int
    fp64_per_clock: int
    int32_per_clock: int
    special_per_clock: int
    board: Board
    register_unit: int = 256
    shared_unit: int = 128
    partitions: int = 4
    """Sub-partitions of a multiprocessor; a warp belongs to one, with a quarter of the registers."""
    load_store_units: int = 32
    """Of a multiprocessor: lanes whose access to memory begins in one clock."""
    arch_specific: bool = False
    """PTX for it runs on it alone (sm_90a)."""

    @property
    def sources(self) -> Mapping[str, str]:
        return _SOURCES

    @property
    def threads_per_sm(self) -> int:
        return self.warps_per_sm * WARP_SIZE


_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "least_ptx": "P",
        "registers": "G",
        "shared_per_sm": "G",
        "shared_per_block": "G",
        "warps_per_sm": "G",
        "blocks_per_sm": "G O",
        "register_unit": "O",
        "shared_unit": "O",
        "partitions": "O",
        "fp16_per_clock": "T",
        "fp32_per_clock": "T",
        "fp64_per_clock": "T",
        "int32_per_clock": "T",
        "special_per_clock": "T",
        "load_store_units": "W",
        "board": "W",
    }
)


def _hopper(name: str, least_ptx: tuple[int, int], arch_specific: bool) -> Target:
    board = Board("H100 SXM5 80GB", 132, 1980, 3352)
    return Target(
        name, (9, 0), least_ptx, 65536, 228 * KIB, 227 * KIB, 64, 32, 256, 128, 64, 64, 16, board,
        arch_specific=arch_specific,
    )  # fmt: skip


_TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        t.name: t
        for t in (
            #      name     capability PTX     regs   shared/SM  /block     warps blocks f16  f32 f64 i32 special
            Target("sm_80", (8, 0), (7, 0), 65536, 164 * KIB, 163 * KIB, 64, 32, 256, 64, 32, 64, 16,
                   Board("A100 SXM4 40GB", 108, 1410, 1555)),
            Target("sm_86", (8, 6), (7, 1), 65536, 100 * KIB, 99 * KIB, 48, 16, 128, 128, 2, 64, 16,
                   Board("GeForce RTX 3090", 82, 1695, 936), load_store_units=16),
            Target("sm_89", (8, 9), (7, 8), 65536, 100 * KIB, 99 * KIB, 48, 24, 128, 128, 2, 64, 16,
                   Board("GeForce RTX 4090", 128, 2520, 1008), load_store_units=16),
            _hopper("sm_90", (7, 8), False),
            _hopper("sm_90a", (8, 0), True),
        )
    }
)  # fmt: skip


def known_targets() -> tuple[str, ...]:
    """The names of all architectures in the table, oldest first."""
    return tuple(_TARGETS)


def target(name: str) -> Target:
    """The architecture of this name ("sm_90"). Raises UnknownArchitecture with the names there are."""
    found = _TARGETS.get(name)
    if found is None:
        raise UnknownArchitecture(
            f"unknown architecture {name!r}", next_step=f"give one of {', '.join(known_targets())}"
        )
    return found


def assembles_for(ptx_target: str, name: str) -> bool:
    """Whether PTX with ``.target ptx_target`` can be assembled for the architecture ``name``.

    For itself and for later ones; an architecture-specific target for itself alone (PTX ISA 11.1.2).
    """
    wanted, built = target(name), target(ptx_target)
    if built.arch_specific or wanted.name == built.name:
        return wanted.name == built.name
    return wanted.capability >= built.capability


def blocks_per_sm(on: Target, *, threads: int, registers: int, shared: int) -> int:
    """Blocks resident on one multiprocessor at a time; 0 if the block cannot be launched at all.

    ``registers`` per thread, ``shared`` bytes per block (static and dynamic together). After cuda_occupancy.h of
    CUDA 13.0, with the whole of the shared memory given to blocks.
    """
    if not 0 < threads <= MAX_THREADS_PER_BLOCK or registers > MAX_REGISTERS_PER_THREAD:
        return 0
    if shared > on.shared_per_block:
        return 0
    warps = -(-threads // WARP_SIZE)
    limits = [on.blocks_per_sm, on.warps_per_sm // warps]
    allocated = _round_up(shared + RESERVED_SHARED, on.shared_unit)
    limits.append(on.shared_per_sm // allocated)
    per_warp = _round_up(registers * WARP_SIZE, on.register_unit)
    if per_warp:
        if per_warp * _round_up(warps, on.partitions) > on.registers:
            return 0
        warps_by_registers = on.registers // on.partitions // per_warp * on.partitions
        limits.append(warps_by_registers // warps)
    return min(limits)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def common_facts() -> tuple[str, ...]:
    """What holds on every architecture of the table, in sentences for a reader of PTX."""
    every = _TARGETS.values()
    registers = min(t.registers for t in every)
    shared = min(t.shared_per_block for t in every) // KIB
    warps = min(t.warps_per_sm for t in every)
    fp64 = min(t.fp64_per_clock for t in every)
    fp32 = min(t.fp32_per_clock for t in every)
    special = max(t.special_per_clock for t in every)
    return (
        f"{WARP_SIZE} threads run together as a warp; a multiprocessor holds {warps} warps or more at a time.",
        f"{registers} 32-bit registers per multiprocessor, at most {MAX_REGISTERS_PER_THREAD} for a thread.",
        f"{SHARED_BANKS} shared-memory banks, {BANK_WIDTH} bytes wide; {STATIC_SHARED_LIMIT // KIB} KiB per block "
        f"declared statically, {shared} KiB or more on request.",
        f"Per clock and multiprocessor: {fp32} or more f32 results, {fp64} or more f64 results, {special} of ex2, "
        "lg2, rcp, rsqrt, sin, cos.",
        "A warp's access to global memory moves whole sectors of 32 bytes; consecutive threads at consecutive "
        "addresses move the fewest.",
        "A load or store of n bytes needs an address that is a multiple of n: 8 for v2.f32, 16 for v4.f32.",
    )
