"""How an address depends on the thread: ``base + a * tid.x + b * tid.y + …`` with what is known of a and b.

Where a register has several definitions (a pointer that a loop steps) their thread parts must agree, steps added to
the register itself being the same in every thread. 32-bit wraparound is not looked at, and indices are taken as not
negative, so that the wraparound of Python's indices adds nothing. A lint may be wrong; it says nothing where it does
not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hybridcc.passes.rewrite.lints.finding import Subject
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Member, Name, Operand
from hybridcc.ptx.targets import WARP_SIZE

RUNTIME: Final = "runtime"
"""A coefficient that is one number in all threads, and not known here: a row length, say."""

WARP = "%warp"
"""Stands for the number of a thread's warp, as ``%tid.x >> 5`` makes it."""
LANES = ("%tid.x", "%laneid")
"""What differs between neighbours in a warp, where a row of the block holds whole warps."""
THREAD = (*LANES, "%tid.y", "%tid.z")
DEEPEST = 40
SIGN_BITS = (-(1 << 31), 1 << 31, -(1 << 63), 1 << 63)

Coefficient = int | str


@dataclass(frozen=True, slots=True)
class Affine:
    """``threads`` maps special registers to coefficients that are not zero; ``offset`` is the part that is known
    and constant, None where something else that all threads share is added; ``symbols`` are variables in memory
    whose address it holds."""

    threads: Mapping[str, Coefficient] = field(default_factory=dict)
    offset: int | None = 0
    symbols: frozenset[str] = frozenset()

    @property
    def uniform(self) -> bool:
        return not self.threads

    @property
    def step(self) -> Coefficient:
        """From one thread of a warp to the next, in bytes for an address."""
        found = [self.threads[name] for name in LANES if name in self.threads]
        return RUNTIME if RUNTIME in found else sum(c for c in found if isinstance(c, int))

    def plus(self, other: Affine, sign: int = 1) -> Affine:
        merged = dict(self.threads)
        for name, value in other.threads.items():
            mine = merged.get(name, 0)
            total = RUNTIME if isinstance(mine, str) or isinstance(value, str) else mine + sign * value
            merged[name] = total
        merged = {name: value for name, value in merged.items() if value != 0}
        known = self.offset is not None and other.offset is not None
        offset = (self.offset or 0) + sign * (other.offset or 0) if known else None
        return Affine(merged, offset, self.symbols | other.symbols)

    def times(self, factor: int | None) -> Affine:
        """By a constant, or (None) by a value that all threads share."""
        if factor is None:
            return Affine(dict.fromkeys(self.threads, RUNTIME), None)
        if factor == 0:
            return Affine()
        scaled: dict[str, Coefficient] = {n: v if isinstance(v, str) else v * factor for n, v in self.threads.items()}
        return Affine(scaled, None if self.offset is None else self.offset * factor)


SHARED_VALUE: Final = Affine({}, None)
"""Some value that all threads have."""


@dataclass(slots=True)
class Addresses:
    """The affine forms of one function's registers."""

    subject: Subject
    _known: dict[str, Affine | None] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    def of_access(self, instruction: Instruction) -> Affine | None:
        """The address that a load, store or atomic uses; None where it is not affine."""
        found = next((o for o in instruction.operands if isinstance(o, Address)), None)
        if found is None:
            return None
        base = self._operand(found.base, 0)
        offset = evaluate(found.offset.text).value if found.offset else 0
        return None if base is None else base.plus(Affine({}, offset))

    def of_register(self, name: str, depth: int = 0) -> Affine | None:
        if name in self._known:
            return self._known[name]
        if name in self._open:  # round a loop: what the loop adds must be the same in every thread
            return SHARED_VALUE
        if depth > DEEPEST:
            return None
        self._open.add(name)
        found = self._of_definitions(name, depth)
        self._open.discard(name)
        if not self._open:
            self._known[name] = found
        return found

    def _of_definitions(self, name: str, depth: int) -> Affine | None:
        places = self.subject.definitions.get(name, ())
        if not places:
            return SHARED_VALUE if name in self.subject.uniform else None
        forms: list[Affine] = []
        for place in places:
            instruction = self.subject.cfg.statements[place]
            assert isinstance(instruction, Instruction)
            form = self._instruction(instruction, depth + 1)
            if form is None:
                return SHARED_VALUE if name in self.subject.uniform else None
            if name not in isa.uses(instruction):
                forms.append(form)
            elif not form.uniform:
                return None  # each turn adds something of the thread's own
        if not forms or any(f.threads != forms[0].threads for f in forms):
            return SHARED_VALUE if name in self.subject.uniform else None
        same = len(places) == 1
        return Affine(forms[0].threads, forms[0].offset if same else None, forms[0].symbols)

    def _instruction(self, instruction: Instruction, depth: int) -> Affine | None:
        sources = instruction.operands[1:]
        modifiers = instruction.modifiers
        match instruction.opcode:
            case "mov" | "cvta":
                return self._operand(sources[-1], depth)
            case "cvt" if all(m[1] in "usb" for m in modifiers if len(m) > 2 and m[2:].isdigit()):
                return self._operand(sources[0], depth)
            case "add" | "sub" if not self._is_float(modifiers):
                return self._sum(sources, 1 if instruction.opcode == "add" else -1, depth)
            case "mul" if not self._is_float(modifiers) and ".hi" not in modifiers:
                return self._product(sources[0], sources[1], depth)
            case "mad" if not self._is_float(modifiers) and ".hi" not in modifiers:
                product, addend = self._product(sources[0], sources[1], depth), self._operand(sources[2], depth)
                return None if product is None or addend is None else product.plus(addend)
            case "shl" if isinstance(sources[1], Immediate):
                form = self._operand(sources[0], depth)
                return None if form is None else form.times(1 << evaluate(sources[1].text).value)
            case "and" | "shr":
                return self._masked(instruction, sources, depth) or self._uniform_only(instruction)
            case "or":
                # an ``or`` with a small constant stands for an ``add`` where the bits are known to be free
                if isinstance(sources[1], Immediate):
                    return self._sum(sources, 1, depth)
                return self._uniform_only(instruction)
            case _:
                return self._uniform_only(instruction)

    def _masked(self, instruction: Instruction, sources: tuple[Operand, ...], depth: int) -> Affine | None:
        """``%tid.x & 31`` is the lane, ``%tid.x >> 5`` the warp; a sign bit is 0."""
        forms = [self._operand(s, depth) for s in sources]
        if Affine() in (forms if instruction.opcode == "and" else forms[:1]):
            return Affine()
        form, by = forms[0], sources[1]
        if form is None or not isinstance(by, Immediate):
            return None
        amount = evaluate(by.text).value
        width = isa.bits(isa.types(instruction)[-1])
        if amount in SIGN_BITS if instruction.opcode == "and" else amount == width - 1:
            return Affine()
        if form.threads != {"%tid.x": 1} or form.offset != 0:
            return None
        if instruction.opcode == "and" and amount == WARP_SIZE - 1:
            return Affine({"%laneid": 1})
        return Affine({WARP: 1}) if instruction.opcode == "shr" and 1 << amount == WARP_SIZE else None

    def _sum(self, sources: tuple[Operand, ...], sign: int, depth: int) -> Affine | None:
        left, right = (self._operand(s, depth) for s in sources)
        return None if left is None or right is None else left.plus(right, sign)

    def _product(self, first: Operand, second: Operand, depth: int) -> Affine | None:
        left, right = self._operand(first, depth), self._operand(second, depth)
        if left is None or right is None:
            return None
        if right.uniform:
            return left.times(right.offset)
        return right.times(left.offset) if left.uniform else None

    def _operand(self, operand: Operand, depth: int) -> Affine | None:
        scoped = self.subject.cfg.scoped
        match operand:
            case Immediate():
                return Affine({}, evaluate(operand.text).value)
            case Name() | Member():
                name = operand.text if isinstance(operand, Name) else operand.name
                if isinstance(operand, Name) and name in scoped.types:
                    return self.of_register(name, depth)
                if isa.is_special_register(operand):
                    spelled = name if isinstance(operand, Name) else f"{operand.name}.{operand.selector}"
                    return Affine({spelled: 1}) if spelled in THREAD else SHARED_VALUE
                return Affine({}, 0, frozenset({name})) if scoped.is_variable(name) else None
            case _:
                return None

    def _uniform_only(self, instruction: Instruction) -> Affine | None:
        """A result that is no sum of thread numbers is affine only where all threads have the same."""
        results = isa.defs(instruction)
        return SHARED_VALUE if results and all(r in self.subject.uniform for r in results) else None

    @staticmethod
    def _is_float(modifiers: tuple[str, ...]) -> bool:
        return any(m[1:2] == "f" or m.startswith(".bf") for m in modifiers)
