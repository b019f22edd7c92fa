"""What one execution of a block costs a multiprocessor: issue slots by unit, bytes, and the chain to be waited for.

Figures come from targets.py. Latencies are the few below: rounded from published microbenchmarks (Jia et al.,
"Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018; Luo et al., "Benchmarking and Dissecting the
Nvidia Hopper GPU Architecture via Microbenchmarking", 2024). They rank regions; no report quotes them as a measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect, Rounding
from hybridcc.ptx.nodes import Instruction, Vector
from hybridcc.ptx.targets import WARP_SIZE, Target

ALU_LATENCY: Final = 5
SHARED_LATENCY: Final = 30
GLOBAL_LATENCY: Final = 300
"""Clocks; of global memory between a hit in L2 and one in DRAM."""
SEQUENCE_SLOTS: Final = 12
"""Instructions taken for one that the assembler expands."""
SCHEDULERS: Final = 4
"""Warp instructions that a multiprocessor issues per clock (one for each partition)."""


class Unit(StrEnum):
    """What an instruction keeps busy."""

    FP16 = "fp16"
    FP32 = "fp32"
    FP64 = "fp64"
    INT32 = "int32"
    SPECIAL = "special functions"
    MEMORY = "load/store"


class Limiter(StrEnum):
    """What a region's time is made of."""

    ISSUE = "issue"
    COMPUTE = "compute"
    MEMORY = "memory"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class BlockCost:
    """One warp's execution of one block, in clocks of one multiprocessor.

    ``issue`` is what the schedulers need, ``units`` what each unit needs, ``chain`` the longest chain of dependent
    instructions; ``bytes`` are what one thread asks of global and generic memory.
    """

    issue: float
    units: tuple[tuple[Unit, float], ...]
    chain: float
    bytes: int

    def clocks(self, warps: float) -> float:
        """Throughput time when ``warps`` warps share the multiprocessor: the busiest resource, or the chain that their
        number does not hide."""
        return max(self.issue, *(c for _, c in self.units), self.chain / max(1.0, warps))

    def limiter(self, warps: float) -> Limiter:
        compute = max((c for u, c in self.units if u is not Unit.MEMORY), default=0.0)
        memory = max((c for u, c in self.units if u is Unit.MEMORY), default=0.0)
        parts = {
            Limiter.ISSUE: self.issue,
            Limiter.COMPUTE: compute,
            Limiter.MEMORY: memory,
            Limiter.LATENCY: self.chain / max(1.0, warps),
        }
        return max(parts, key=lambda one: parts[one])


def unit_of(instruction: Instruction) -> Unit | None:
    """None for what only the schedulers see: branches, barriers, moves of no type."""
    effects = isa.effects(instruction)
    touches = effects & {Effect.READ, Effect.WRITE, Effect.ATOMIC}
    if touches and isa.memory_space(instruction) not in (".param", ".const"):
        return Unit.MEMORY
    if isa.rounding(instruction) is Rounding.APPROXIMATE:
        return Unit.SPECIAL
    kinds = isa.types(instruction)
    if not kinds:
        return None
    widest = max(kinds, key=isa.bits)
    if any(k.startswith((".f", ".bf", ".tf")) for k in kinds):
        width = isa.bits(widest)
        return Unit.FP64 if width == 64 else Unit.FP16 if widest.startswith((".f16", ".bf16")) else Unit.FP32
    return Unit.INT32


def block_cost(instructions: Sequence[Instruction], target: Target) -> BlockCost:
    """The cost of one warp's execution of the instructions, in order."""
    rates = {
        Unit.FP16: target.fp16_per_clock,
        Unit.FP32: target.fp32_per_clock,
        Unit.FP64: target.fp64_per_clock,
        Unit.INT32: target.int32_per_clock,
        Unit.SPECIAL: target.special_per_clock,
        Unit.MEMORY: target.load_store_units,
    }
    units: dict[Unit, float] = {}
    slots = 0.0
    for instruction in instructions:
        count = _slots(instruction)
        slots += count
        unit = unit_of(instruction)
        if unit is not None:
            units[unit] = units.get(unit, 0.0) + count * WARP_SIZE / rates[unit]
    return BlockCost(
        slots / SCHEDULERS,
        tuple(sorted(units.items())),
        longest_chain(instructions),
        sum(access_bytes(i) for i in instructions),
    )


def _slots(instruction: Instruction) -> float:
    """Machine instructions: 64-bit integers take two, wide accesses one per 4 bytes and lane."""
    if isa.is_sequence(instruction):
        return SEQUENCE_SLOTS * (2 if _widest(instruction) == 64 else 1)
    if unit_of(instruction) is Unit.MEMORY:
        return max(1.0, access_bytes(instruction, every_space=True) / 4)
    if unit_of(instruction) is Unit.INT32 and _widest(instruction) == 64:
        return 2.0
    return 1.0


def _widest(instruction: Instruction) -> int:
    return max((isa.bits(k) for k in isa.types(instruction)), default=32)


def access_bytes(instruction: Instruction, *, every_space: bool = False) -> int:
    """Bytes that one thread moves: from or to global or generic memory, or any."""
    if not isa.effects(instruction) & {Effect.READ, Effect.WRITE}:
        return 0
    if not every_space and isa.memory_space(instruction) not in (".global", None):
        return 0
    elements = max((len(o.items) for o in instruction.operands if isinstance(o, Vector)), default=1)
    return elements * _widest(instruction) // 8


def latency(instruction: Instruction) -> int:
    effects = isa.effects(instruction)
    if effects & {Effect.READ, Effect.ATOMIC}:
        match isa.memory_space(instruction):
            case ".shared":
                return SHARED_LATENCY
            case ".param" | ".const":
                return ALU_LATENCY
            case _:
                return GLOBAL_LATENCY
    if isa.is_sequence(instruction):
        return ALU_LATENCY * SEQUENCE_SLOTS
    return ALU_LATENCY


def longest_chain(instructions: Iterable[Instruction]) -> float:
    """Clocks from the first to the last of the longest chain of register dependences."""
    ready: dict[str, float] = {}
    longest = 0.0
    for instruction in instructions:
        start = max((ready.get(r, 0.0) for r in isa.uses(instruction)), default=0.0)
        end = start + latency(instruction)
        longest = max(longest, end)
        for register in isa.defs(instruction):
            ready[register] = end
    return longest
