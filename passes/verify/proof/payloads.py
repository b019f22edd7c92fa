"""Can a kernel tell the payloads of NaNs apart? What licenses a proof in the ideal reading of lemmas.py.

In the ideal reading ``cvt.rn.f32.f64`` and ``st.f32`` make every NaN the canonical one. ``check`` accepts a kernel
only if, for every launch, its real run and its ideal run go the same way, touch the same addresses, perform the
same effects and leave the same memory, but for 32-bit words that ``st`` wrote and that are NaNs in both.

Argument. Before each instruction a register is *exact* (the same bits in both runs) or *loose*: the same bits, or a
NaN of its format in both, f32 in 32 bits or f64 in 64. Memory is exact, or some aligned words are loose. Loose
values come from narrowing conversions, and from words that were stored loose. They may go

* through moves, selections (by exact predicates), f64 arithmetic and widening, whose results are loose;
* through f32 arithmetic and comparisons, whose results are exact: they see that a NaN is one, and no more;
* to memory as whole words.

Anything else that reads a loose register is refused, be it an address, an integer operation, a shuffle, a sign
taken by copysign, another width, or an instruction that is not known here. Once memory may be loose, every load
must be of whole words and gives loose values, no store may be narrower than a word, and no atomic or volatile
access may happen. Loads and stores of words are aligned (ISA 5.1.x: anything else is undefined), so that a word
is never seen in part. Without a barrier, fence or atomic in the kernel a thread sees no word that another one
wrote, since weak accesses do not race; with one, memory is taken for loose from the start if any store is loose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hybridcc.passes.verify.proof.program import Program
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Name, Operand, Vector

_WORDS: Final = frozenset((".f32", ".b32", ".u32", ".s32"))
_DOUBLES: Final = frozenset((".f64", ".b64", ".u64", ".s64"))
_EXACT32: Final = frozenset(("add", "sub", "mul", "fma", "div", "rcp", "sqrt", "min", "max"))
"""f32 arithmetic, which gives the canonical NaN and takes every NaN alike (lemmas.py)."""
_SIGNS: Final = frozenset(("neg", "abs"))
"""A NaN stays one, whatever becomes of its bits (ISA 9.7.3.10: unspecified)."""
_LOOSE64: Final = frozenset(("add", "sub", "mul", "fma", "div", "rcp", "sqrt"))
_ROUNDED: Final = frozenset((".rn", ".f32", ".f64"))
_WEAK: Final = frozenset((
    ".weak", ".nc", ".v2", ".v4", ".ca", ".cg", ".cs", ".lu", ".wb", ".global", ".shared", ".shared::cta", ".local",
    ".const", ".param",
))  # fmt: skip
_LOCAL: Final = frozenset(
    (isa.Effect.CONTROL, isa.Effect.EXIT, isa.Effect.CARRY_IN, isa.Effect.CARRY_OUT, isa.Effect.HINT)
)
_HARMLESS: Final = _LOCAL | {isa.Effect.BARRIER, isa.Effect.FENCE, isa.Effect.CONVERGENT}
"""Effects of instructions that touch no memory themselves."""
_ORDERING: Final = frozenset(isa.Effect) - _LOCAL - {isa.Effect.READ, isa.Effect.WRITE}
"""Effects by which a thread may come to see what another one wrote, or that are not looked into here."""


class PayloadSeen(Exception):
    """The kernel may act on the payload of a NaN that the ideal reading changes."""


@dataclass(frozen=True, slots=True)
class Loose:
    """The loose registers before an instruction, and whether memory may be loose."""

    words: frozenset[str] = frozenset()
    doubles: frozenset[str] = frozenset()
    memory: bool = False

    def union(self, other: Loose) -> Loose:
        return Loose(self.words | other.words, self.doubles | other.doubles, self.memory or other.memory)


def narrows(program: Program) -> bool:
    """Whether the ideal reading can differ from the real one in a way that a rule needs."""
    return any(_is_narrowing(i) for i in program.instructions)


def check(program: Program) -> None:
    """Raises PayloadSeen where the ideal reading is not shown to keep everything but payloads of NaNs in memory."""
    canonical = _canonical_registers(program)
    states = _flow(program, canonical, Loose())
    if any(s.memory for s in states.values()) and _meets_others(program):
        states = _flow(program, canonical, Loose(memory=True))
    for at, state in states.items():
        _check_instruction(program, program.instructions[at], at, state)


def _flow(program: Program, canonical: frozenset[str], start: Loose) -> dict[int, Loose]:
    """The state before each instruction that can be reached."""
    before: dict[int, Loose] = {0: start} if program.instructions else {}
    waiting = list(before)
    while waiting:
        at = waiting.pop()
        after = _after(program.instructions[at], before[at], canonical)
        for following in program.successors(at):
            known = before.get(following)
            merged = after if known is None else known.union(after)
            if merged != known:
                before[following] = merged
                waiting.append(following)
    return before


def _after(instruction: Instruction, s: Loose, canonical: frozenset[str]) -> Loose:
    made = frozenset(isa.defs(instruction))
    words, doubles, memory = s.words, s.doubles, s.memory
    if instruction.guard is None:
        words, doubles = words - made, doubles - made
    match _result(instruction, s):
        case "word":
            words |= made
        case "double":
            doubles |= made
    if instruction.opcode == "st" and _stores_loose(instruction, s, canonical):
        memory = True
    return Loose(words, doubles, memory)


def _result(instruction: Instruction, s: Loose) -> str:
    """``word``, ``double`` or ``exact``."""
    opcode = instruction.opcode
    read = _registers(instruction.operands[1:])
    if _is_narrowing(instruction):
        return "word"
    if opcode == "ld" and s.memory and not {".param", ".const"} & set(instruction.modifiers):
        return "word"
    if opcode in ("mov", "selp"):
        return "word" if read & s.words else "double" if read & s.doubles else "exact"
    if opcode == "cvt" and read & s.words:
        return "double"
    if opcode in _SIGNS and read & s.words:
        return "word"
    if opcode in (_LOOSE64 | _SIGNS) and read & s.doubles:
        return "double"
    return "exact"


def _stores_loose(instruction: Instruction, s: Loose, canonical: frozenset[str]) -> bool:
    values = _elements(instruction.operands[1])
    if instruction.modifiers[-1] == ".f32":
        return not all(_is_canonical(v, canonical) for v in values)
    return bool(_registers(values) & s.words)


def _check_instruction(program: Program, instruction: Instruction, at: int, s: Loose) -> None:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    kind = modifiers[-1] if modifiers else ""
    loose = s.words | s.doubles
    place = f"{program.place(at)}: {instruction.full_opcode}"
    size = {"word": 32, "double": 64, "exact": None}[_result(instruction, s)]
    if size is not None and any(program.width(d) != size for d in isa.defs(instruction)):
        raise PayloadSeen(f"{place} takes a NaN of another payload into a register that is not {size} bits wide")
    if opcode in ("ld", "st") and not {".param", ".const"} & set(modifiers):
        _check_access(instruction, s, place)
        read = frozenset(isa.uses(instruction)) & loose
        if opcode == "st" and kind in _WORDS:
            read -= s.words & _registers(_elements(instruction.operands[1]))
            read |= _address_registers(instruction) & loose
        if read:
            raise PayloadSeen(f"{place} reads {min(read)}, which may be a NaN of another payload")
        return
    if s.memory and opcode not in ("ld", "st") and not _effects(instruction) <= _HARMLESS:
        raise PayloadSeen(f"{place} where memory may hold NaNs of another payload")
    read = frozenset(isa.uses(instruction)) & loose
    if read and not read <= _allowed(instruction, s):
        raise PayloadSeen(f"{place} reads {min(read)}, which may be a NaN of another payload")


def _check_access(instruction: Instruction, s: Loose, place: str) -> None:
    """Once memory may be loose: whole words only, and weakly."""
    if not s.memory:
        return
    if not _is_weak(instruction):
        raise PayloadSeen(f"{place} where memory may hold NaNs of another payload")
    wide = instruction.opcode == "st" and instruction.modifiers[-1] in _DOUBLES
    if instruction.modifiers[-1] not in _WORDS and not wide:
        raise PayloadSeen(f"{place} of less or more than a word where memory may hold NaNs of another payload")


def _allowed(instruction: Instruction, s: Loose) -> frozenset[str]:
    """The loose registers that an instruction other than an access may read."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    kind = modifiers[-1] if modifiers else ""
    read = _registers(instruction.operands[1:])
    nothing: frozenset[str] = frozenset()
    if opcode in ("mov", "selp"):
        return (s.words if kind in _WORDS else s.doubles if kind in _DOUBLES else nothing) & read
    if opcode == "setp":
        return (s.words if kind == ".f32" else s.doubles if kind == ".f64" else nothing) & read
    if opcode == "cvt":
        if _is_narrowing(instruction):
            return s.doubles
        return s.words if modifiers == (".f64", ".f32") else nothing
    if opcode in (_EXACT32 | _SIGNS) and kind == ".f32" and _ROUNDED.issuperset(modifiers):
        return s.words
    if opcode in (_LOOSE64 | _SIGNS) and kind == ".f64" and _ROUNDED.issuperset(modifiers):
        return s.doubles
    return nothing


def _is_narrowing(instruction: Instruction) -> bool:
    return instruction.opcode == "cvt" and instruction.modifiers == (".rn", ".f32", ".f64")


def _meets_others(program: Program) -> bool:
    """Whether anything in the kernel could order its accesses with another thread's."""
    return any(_effects(i) & _ORDERING or (i.opcode in ("ld", "st") and not _is_weak(i)) for i in program.instructions)


def _effects(instruction: Instruction) -> frozenset[isa.Effect]:
    """Every effect there is for an instruction that is in no table."""
    return frozenset(isa.Effect) if isa.form(instruction) is None else frozenset(isa.effects(instruction))


def _is_weak(instruction: Instruction) -> bool:
    return all(m in _WEAK or m.startswith((".L1::", ".L2::")) for m in instruction.modifiers[:-1])


# --- registers whose NaNs are canonical -----------------------------------------------------------------


def _canonical_registers(program: Program) -> frozenset[str]:
    """Registers that are written before they are read, and only by f32 arithmetic, or from one another."""
    writers: dict[str, list[Instruction]] = {}
    for instruction in program.instructions:
        for name in isa.defs(instruction):
            writers.setdefault(name, []).append(instruction)
    found = frozenset(writers) - program.live_before(0)
    shrinking = True
    while shrinking:
        kept = frozenset(r for r in found if all(_makes_canonical(i, found) for i in writers[r]))
        shrinking, found = kept != found, kept
    return found


def _makes_canonical(instruction: Instruction, canonical: frozenset[str]) -> bool:
    kind = instruction.modifiers[-1:]
    if instruction.opcode in _EXACT32 and kind == (".f32",):
        return _ROUNDED.issuperset(instruction.modifiers)
    if instruction.opcode == "mov" and instruction.modifiers in ((".f32",), (".b32",)):
        return _is_canonical(instruction.operands[1], canonical)
    return False


def _is_canonical(operand: Operand, canonical: frozenset[str]) -> bool:
    match operand:
        case Name(text):
            return text in canonical
        case Immediate(text):
            found = evaluate(text)
            return found.kind == "f32" and found.value & 0x7FFFFFFF <= 0x7F800000
        case _:
            return False


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _address_registers(instruction: Instruction) -> frozenset[str]:
    return frozenset(o.base.text for o in instruction.operands if isinstance(o, Address) and isinstance(o.base, Name))


def _registers(operands: Iterable[Operand]) -> frozenset[str]:
    return frozenset(_named(operands))


def _named(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Name):
            yield operand.text
        elif isinstance(operand, Vector):
            yield from _named(operand.items)
