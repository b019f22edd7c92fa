"""What one access of a warp costs: bank conflicts, sectors moved, alignment of vectors.

Neighbours in a warp are taken as neighbours in %tid.x, as in blocks whose rows hold whole warps.
"""

from __future__ import annotations

from math import gcd

from hybridcc.passes.rewrite.lints.affine import RUNTIME, Addresses, Affine
from hybridcc.passes.rewrite.lints.finding import Finding, Subject
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction, Vector
from hybridcc.ptx.targets import BANK_WIDTH, SECTOR, SHARED_BANKS, WARP_SIZE


def access_bytes(instruction: Instruction) -> tuple[int, int]:
    """(bytes of one element, elements) that a thread reads or writes; (0, 0) where the form does not say."""
    given = isa.types(instruction)
    if not given or not isa.effects(instruction) & {Effect.READ, Effect.WRITE}:
        return 0, 0
    count = next((len(o.items) for o in instruction.operands if isinstance(o, Vector)), 1)
    return isa.bits(given[-1]) // 8, count


def bank_conflicts(subject: Subject) -> tuple[Finding, ...]:
    """Accesses to shared memory for which threads of a warp need different words of one bank."""
    found = []
    addresses = Addresses(subject)
    for index, instruction in subject.instructions:
        if isa.memory_space(instruction) != ".shared":
            continue
        size, count = access_bytes(instruction)
        form = addresses.of_access(instruction)
        if not size or form is None or isinstance(form.step, str):
            continue
        ways = conflict_ways(form.step, size * count)
        if ways > 1:
            text = (
                f"{ways} threads of a warp wait for one bank: neighbours are {abs(form.step)} bytes apart, and the "
                f"{SHARED_BANKS} banks of {BANK_WIDTH} bytes come round every {SHARED_BANKS * BANK_WIDTH}; pad the row "
                "by one element, or let neighbours take neighbouring words"
            )
            found.append(subject.finding("BANK_CONFLICT", "warning", index, text))
    return tuple(found)


def conflict_ways(step: int, size: int) -> int:
    """How many passes a warp's access takes where one would do: the most different words of one bank that the
    threads served together need. Accesses of 8 and 16 bytes are served by half and quarter warps."""
    together = WARP_SIZE * BANK_WIDTH // max(BANK_WIDTH, size)
    worst = 1
    for first in range(0, WARP_SIZE, together):
        words = {
            (lane * step + byte) // BANK_WIDTH
            for lane in range(first, first + together)
            for byte in range(0, max(size, 1), min(size, BANK_WIDTH))
        }
        banks: dict[int, int] = {}
        for word in words:
            banks[word % SHARED_BANKS] = banks.get(word % SHARED_BANKS, 0) + 1
        worst = max(worst, *banks.values())
    return worst


def uncoalesced(subject: Subject) -> tuple[Finding, ...]:
    """Accesses to global memory that move at least twice the sectors that the bytes wanted would fill."""
    found = []
    addresses = Addresses(subject)
    for index, instruction in subject.instructions:
        space = isa.memory_space(instruction)
        touches = isa.effects(instruction) & {Effect.READ, Effect.WRITE}
        if space != ".global" or not touches or Effect.ATOMIC in isa.effects(instruction):
            continue
        size, count = access_bytes(instruction)
        form = addresses.of_access(instruction)
        if not size or form is None or form.uniform:
            continue
        if form.step == RUNTIME:
            text = (
                "neighbours of a warp are a run-time stride apart: unless that is the element's size, each thread "
                f"moves a sector of {SECTOR} bytes of its own"
            )
            found.append(subject.finding("UNCOALESCED", "warning", index, text))
            continue
        moved, least = sectors(int(form.step), size * count)
        if moved >= 2 * least:
            text = (
                f"a warp moves {moved} sectors of {SECTOR} bytes where {least} would hold what it wants: neighbours "
                f"are {abs(int(form.step))} bytes apart"
            )
            found.append(subject.finding("UNCOALESCED", "warning", index, text))
    return tuple(found)


def sectors(step: int, size: int) -> tuple[int, int]:
    """(sectors that a warp's access moves from an aligned base, sectors that its different bytes would fill)."""
    bytes_ = {lane * step + byte for lane in range(WARP_SIZE) for byte in range(size)}
    return len({byte // SECTOR for byte in bytes_}), -(-len(bytes_) // SECTOR)


def misaligned(subject: Subject) -> tuple[Finding, ...]:
    """Vector accesses whose address is not shown to be a multiple of their size; with a thread's step or a constant
    that is none, some thread faults unless it is kept away."""
    found = []
    addresses = Addresses(subject)
    for index, instruction in subject.instructions:
        size, count = access_bytes(instruction)
        if count < 2 or isa.memory_space(instruction) not in (".global", ".shared"):
            continue
        form = addresses.of_access(instruction)
        step = None if form is None else _common_step(form)
        if step is None or step % (size * count) == 0:
            continue
        text = (
            f"an access of {size * count} bytes needs a multiple of {size * count}; from thread to thread this address "
            f"moves by {step}, so some threads fault unless they are kept away from it"
        )
        found.append(subject.finding("MISALIGNED_VECTOR", "warning", index, text))
    return tuple(found)


def _common_step(form: Affine) -> int | None:
    """The greatest number that every known step of the address is a multiple of."""
    known = [abs(c) for c in form.threads.values() if isinstance(c, int)]
    constant = [abs(form.offset)] if form.offset and form.symbols else []
    return gcd(*known, *constant) if known or constant else None
