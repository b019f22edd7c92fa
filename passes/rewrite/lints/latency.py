"""What waits for what: how soon a loaded value is needed, and the longest chain of dependent instructions in a loop."""

from __future__ import annotations

from hybridcc.passes.analysis.loops import Loop, natural_loops
from hybridcc.passes.rewrite.lints.finding import Finding, Subject
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Address, Instruction

NEAR = 4
"""A load from global memory takes hundreds of cycles; a use so few instructions on waits for nearly all of them."""


def load_to_use(subject: Subject) -> tuple[Finding, ...]:
    """Loads from global memory in innermost loops that are used at once, with no other load on its way meanwhile."""
    found = []
    for loop in _innermost(subject):
        body = _straight(subject, loop)
        for position, (index, instruction) in enumerate(body):
            if not _is_global_load(instruction):
                continue
            distance, beside = _first_use(body, position)
            if distance is not None and distance <= NEAR and not beside:
                text = (
                    f"what it loads is used {distance} instruction{'s' if distance > 1 else ''} later, and no other "
                    "load is on its way meanwhile: each turn of the loop waits for memory once more; issue the loads "
                    "of several turns first"
                )
                found.append(subject.finding("LOAD_USED_AT_ONCE", "warning", index, text))
    return tuple(found)


def dependent_chain(subject: Subject) -> tuple[Finding, ...]:
    """The longest chain in each innermost loop that goes through two loads or more: memory waits for memory."""
    found = []
    for loop in _innermost(subject):
        body = _straight(subject, loop)
        length, loads, end = _longest(body)
        if loads >= 2:
            text = (
                f"the longest chain of dependent instructions in this loop has {length} of {len(body)}, {loads} of "
                "them loads: one load gives the address of the next, so their waits add up"
            )
            found.append(subject.finding("DEPENDENT_LOADS", "warning", end, text))
    return tuple(found)


def chain_of(subject: Subject, loop: Loop) -> tuple[int, int]:
    """(instructions in a turn of the loop, instructions on its longest dependent chain)."""
    body = _straight(subject, loop)
    return len(body), _longest(body)[0]


def _innermost(subject: Subject) -> list[Loop]:
    loops = natural_loops(subject.cfg)
    return [loop for loop in loops if not any(other.blocks < loop.blocks for other in loops)]


def _straight(subject: Subject, loop: Loop) -> list[tuple[int, Instruction]]:
    """The loop's instructions in source order."""
    return [(i, s) for i, s in subject.instructions if subject.cfg.block_of(i) in loop.blocks]


def _is_global_load(instruction: Instruction) -> bool:
    effects = isa.effects(instruction)
    reads = Effect.READ in effects and not effects & {Effect.WRITE, Effect.ASYNC}
    addressed = any(isinstance(o, Address) for o in instruction.operands)
    return reads and addressed and isa.memory_space(instruction) in (".global", None)


def _first_use(body: list[tuple[int, Instruction]], position: int) -> tuple[int | None, bool]:
    """(how many instructions on its value is used, whether another load is issued before that)."""
    values = set(isa.defs(body[position][1]))
    beside = position > 0 and _is_global_load(body[position - 1][1])
    for distance, (_, instruction) in enumerate(body[position + 1 :], start=1):
        if values & set(isa.uses(instruction)):
            return distance, beside
        beside = beside or _is_global_load(instruction)
    return None, beside


def _longest(body: list[tuple[int, Instruction]]) -> tuple[int, int, int]:
    """(its length, loads on it, the last load on it): the most loads first, then the most instructions."""
    best: dict[str, tuple[int, int, int]] = {}
    longest = (0, 0, body[0][0] if body else 0)
    for index, instruction in body:
        loads, length, last = max((best.get(u, (0, 0, index)) for u in isa.uses(instruction)), default=(0, 0, index))
        here = (loads + 1, length + 1, index) if _is_global_load(instruction) else (loads, length + 1, last)
        for register in isa.defs(instruction):
            best[register] = here
        longest = max(longest, here)
    loads, length, last = longest
    return length, loads, last
