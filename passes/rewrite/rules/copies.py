"""What an unroller made of a loop: several trips in a turn, and trips left over with no loop of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hybridcc.passes.analysis.loops import Loop
from hybridcc.passes.regions.canonical import copy_register
from hybridcc.passes.regions.shape import FLOATING
from hybridcc.passes.rewrite.rules.subject import Subject, Unrecognised
from hybridcc.passes.rewrite.rules.unit import Unit
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction, Name

MEMORY = frozenset({Effect.READ, Effect.WRITE, Effect.ATOMIC})


def is_work(instruction: Instruction) -> bool:
    """Whether it touches memory or computes with floating point: what a trip is for, and unrolling multiplies."""
    return bool(isa.effects(instruction) & MEMORY) or any(m.startswith(FLOATING) for m in instruction.modifiers)


def work(subject: Subject, blocks: Iterable[int]) -> Counter[str]:
    """How often each such operation stands in the blocks."""
    return Counter(i.full_opcode for block in blocks for i in subject.instructions(block) if is_work(i))


def ratio(subject: Subject, main: Loop, unit: Loop) -> int:
    """How many trips one turn of the unrolled loop makes. Raises Unrecognised where it does other work."""
    total, each = work(subject, main.blocks).total(), work(subject, unit.blocks).total()
    if not each or total % each or total == each:
        raise Unrecognised("OTHER_WORK", "its loops are no unrolled loop and remainder")
    return total // each


def left_over(subject: Subject, loop: Loop) -> tuple[int, ...]:
    """Blocks outside every innermost loop that touch memory as the loop does, less often: trips that were peeled."""
    whole = _memory(subject, loop.blocks)
    inside = {b for other in subject.loops for b in other.blocks if other.depth >= loop.depth}
    around = None if loop.parent is None else subject.loops[loop.parent].blocks
    found = []
    for block in sorted(subject.cfg.reachable - inside):
        part = _memory(subject, (block,))
        within = around is None or block in around
        if within and part and part.keys() == whole.keys() and all(2 * part[k] <= whole[k] for k in part):
            found.append(block)
    return tuple(found)


def _memory(subject: Subject, blocks: Iterable[int]) -> Counter[str]:
    instructions = (i for block in blocks for i in subject.instructions(block))
    return Counter(i.full_opcode for i in instructions if isa.effects(i) & MEMORY)


def first(subject: Subject, loop: Loop, factor: int, data: frozenset[str]) -> Unit:
    """The first of the trips that a turn makes one after another, with its data handed on where the loop would.

    Raises Unrecognised where they do not follow one another in one block.
    """
    if len(loop.blocks) != 1:
        raise Unrecognised("COPIES", "a turn of its loop makes several trips with branches in them")
    code = subject.instructions(loop.header)[:-1]
    places = [k for k, instruction in enumerate(code) if is_work(instruction)]
    count, odd = divmod(len(places), factor)
    if odd or not count or any(code[p].full_opcode != code[q].full_opcode for p, q in zip(places, places[count:])):  # noqa: B905
        raise Unrecognised("COPIES", "the trips of a turn are not made one after another")
    segment = code[: places[count - 1] + 1]
    made = {d for instruction in segment for d in isa.defs(instruction)}
    moves = []
    for register in sorted(data):
        handed = _handed_on(code, places, count, register)
        if handed not in made or handed in data:
            raise Unrecognised("COPIES", f"what a trip makes of {register} is not seen")
        moves.append(copy_register(register, handed, subject.types[register]))
    return Unit(loop.header, loop.header, (loop.header,), {loop.header: (*segment, *moves)})


def _handed_on(code: Sequence[Instruction], places: Sequence[int], count: int, register: str) -> str:
    """What the second trip reads where the first one reads the register."""
    for p, q in zip(places[:count], places[count : 2 * count], strict=True):
        for mine, its in zip(code[p].operands[1:], code[q].operands[1:], strict=True):
            if isinstance(mine, Name) and mine.text == register and isinstance(its, Name):
                return its.text
    return ""


def other(subject: Subject, unit: Unit, left: Sequence[int], factor: int) -> Unit | None:
    """The trip that is left over, where it computes with other operations than the others (LLVM contracts there what
    it does not in the loop). Raises Unrecognised where several are left."""
    own = Counter(i.full_opcode for i in unit.code[unit.header] if is_work(i))
    own.subtract(i.full_opcode for i in unit.code[unit.header] if i.opcode == "mov" and is_work(i))
    if all(+own == work(subject, (block,)) for block in left):
        return None
    if len(left) != 1 or factor != 2:
        raise Unrecognised("OTHER_WORK", "the trips that are left over compute with other operations")
    (block,) = left
    code = tuple(i for i in subject.instructions(block) if not isa.branch_targets(i))
    return Unit(block, block, (block,), {block: code})
