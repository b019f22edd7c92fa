"""Symbolic execution of one thread from one cut point to the next.

A branch on a condition that the path decides is followed one way, any other both ways. Guards on arithmetic
become selections; a guard on anything else is a branch. What has no meaning as terms raises Unsupported.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from hybridcc.passes.verify.proof import entry, memory
from hybridcc.passes.verify.proof.bitvector import sign_extend, truncate, zero_extend
from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.lemmas import canonical
from hybridcc.passes.verify.proof.program import Program, Unsupported
from hybridcc.passes.verify.proof.solver import OutOfBudget
from hybridcc.passes.verify.proof.state import EXITED, Access, State
from hybridcc.passes.verify.proof.term_algebra import CARRY, TermAlgebra, results
from hybridcc.passes.verify.proof.terms import (
    Condition,
    Polynomial,
    add,
    atom,
    choose,
    constant,
    equal,
    negation,
    predicate,
    select,
    variable,
)
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Member, Name, Not, Operand, Pair, Vector

STEP_LIMIT: Final = 20_000
"""Instructions on all paths between two cut points: a loop without a cut point ends here."""

_STRONG: Final = frozenset((".volatile", ".relaxed", ".acquire", ".release", ".mmio", ".cv", ".wt"))
_PLAIN: Final = frozenset((".weak", ".nc", ".v2", ".v4", ".v8", ".ca", ".cg", ".cs", ".lu", ".wb"))
"""Modifiers of a weak access that change nothing about its value."""
_SPACES: Final = {
    ".global": "global",
    ".shared": "shared",
    ".shared::cta": "shared",
    ".local": "local",
    ".const": "const",
    ".param": "param",
}
_BARRIERS: Final = frozenset(("bar", "barrier"))
_FENCES: Final = frozenset(("membar", "fence"))
_EXCHANGES: Final = frozenset(("shfl", "vote", "match", "redux"))


class Machine:
    """One program with the positions where its threads are stopped and compared."""

    def __init__(self, program: Program, side: str, stops: set[int], *, commuting: bool, ideal: bool = False) -> None:
        """``commuting`` and ``ideal`` as in TermAlgebra."""
        self.program, self.side, self.stops = program, side, frozenset(stops)
        self.algebra = TermAlgebra(commuting, ideal)

    def place(self, at: int) -> str:
        return "its end" if at == EXITED else self.program.place(at)

    def advance(self, state: State, context: Context) -> list[tuple[State, Context]]:
        """Every feasible way to the next stop or exit. Raises Unsupported, OutOfBudget."""
        done: list[tuple[State, Context]] = []
        work = [(state.copy(), context, True)]
        steps = 0
        while work:
            current, known, first = work.pop()
            while True:
                if current.at == EXITED or (current.at in self.stops and not first):
                    done.append((current, known))
                    break
                first = False
                steps += 1
                if steps > STEP_LIMIT:
                    raise OutOfBudget(f"{STEP_LIMIT} steps from {self.place(state.at)}")
                forks = self._step(current, known)
                if len(forks) != 1:
                    work += ((s, c, False) for s, c in forks)
                    break
                current, known = forks[0]
        return done

    # --- one instruction ---

    def _step(self, state: State, context: Context) -> list[tuple[State, Context]]:
        """The states after the next instruction; ``state`` itself is changed where there is one way only."""
        if state.at >= len(self.program.instructions):
            state.at, state.ending = EXITED, "ret"  # falling off the end returns
            return [(state, context)]
        instruction = self.program.instructions[state.at]
        if instruction.guard is None:
            return self._run(state, context, instruction, None)
        condition = self._condition(state, Name(instruction.guard.name))
        condition = negation(condition) if instruction.guard.negated else condition
        if self.side == "candidate" and ".uni" in instruction.modifiers:
            raise Unsupported("a guarded .uni, which promises that the warp agrees", self.place(state.at))
        condition = context.rewriter.condition(condition)
        known = context.decide(condition)
        if known is not None:
            if known:
                return self._run(state, context, instruction, None)
            state.at += 1
            return [(state, context)]
        if self._is_pure(instruction):
            return self._run(state, context, instruction, condition)
        skipped = state.copy()
        skipped.at += 1
        return [
            *self._run(state, context.extended([condition]), instruction, None),
            (skipped, context.extended([negation(condition)])),
        ]

    def _is_pure(self, instruction: Instruction) -> bool:
        return instruction.opcode not in _HANDLERS and instruction.opcode not in (_BARRIERS | _FENCES | _EXCHANGES)

    def _run(
        self, state: State, context: Context, instruction: Instruction, guard: Condition | None
    ) -> list[tuple[State, Context]]:
        opcode = instruction.opcode
        handler = _HANDLERS.get(opcode)
        if handler is not None:
            handler(self, state, context, instruction)
        elif opcode in _BARRIERS or opcode in _FENCES or opcode in _EXCHANGES:
            if opcode in _EXCHANGES and ".sync" not in instruction.modifiers:
                raise Unsupported(f"{instruction.full_opcode} without .sync", self.place(state.at))
            self._effect(state, instruction)
        else:
            self._compute(state, context, instruction, guard)
            state.at += 1
        return [(state, context)]

    def _compute(self, state: State, context: Context, instruction: Instruction, guard: Condition | None) -> None:
        def read(operand: Operand, width: int) -> Polynomial | Condition:
            return self._read(state, operand, width)

        for name, value in list(results(instruction, read, self.program, self.algebra)):
            self._write(state, context, name, value, guard)

    def _write(
        self, state: State, context: Context, name: str, value: Polynomial | Condition, guard: Condition | None = None
    ) -> None:
        if name == "_":
            return
        if guard is not None:
            value = self._guarded(state, name, value, guard)
        width = 1 if name == CARRY else self.program.width(name)
        if isinstance(value, Condition):
            if width != 1:
                raise Unsupported(f"a truth value in {name}", self.place(state.at))
            value = context.rewriter.condition(value)
        else:
            if value.width != width:
                raise Unsupported(f"{value.width} bits in {name} of {width} bits", self.place(state.at))
            value = context.simplified(value)
        state.registers[name] = value

    def _guarded(
        self, state: State, name: str, value: Polynomial | Condition, guard: Condition
    ) -> Polynomial | Condition:
        if isinstance(value, Condition):
            return choose(guard, value, self._condition(state, Name(name)))
        return select(guard, value, self._register(state, name))

    # --- operands ---

    def _read(self, state: State, operand: Operand, width: int) -> Polynomial | Condition:
        """An operand as ``width`` bits, or as a condition where ``width`` is 1."""
        match operand:
            case Not(inner):
                return negation(self._condition(state, inner))
            case Name(text) if text == CARRY:
                return self._condition(state, operand)
            case Name(text) if self.program.is_register(text):
                if self.program.width(text) == 1:
                    return self._condition(state, operand)
                return self._register(state, text)
            case Name() | Member() | Immediate():
                value = self.program.value(operand, width)
                if value is not None:
                    return value
        raise Unsupported(f"operand {operand}", self.place(state.at))

    def _register(self, state: State, name: str) -> Polynomial:
        value = state.registers.get(name)
        if value is None:
            return variable(f"undefined:{self.side}:{name}", self.program.width(name))
        if isinstance(value, Condition):
            raise Unsupported(f"predicate {name} as a number", self.place(state.at))
        return value

    def _condition(self, state: State, operand: Name) -> Condition:
        value = state.registers.get(operand.text)
        if value is None:
            if operand.text != CARRY and self.program.width(operand.text) != 1:
                raise Unsupported(f"{operand.text} as a predicate", self.place(state.at))
            return equal(variable(f"undefined:{self.side}:{operand.text}", 1), constant(1, 1))
        if not isinstance(value, Condition):
            raise Unsupported(f"{operand.text} as a predicate", self.place(state.at))
        return value

    def _number(self, state: State, operand: Operand, width: int) -> Polynomial:
        value = self._read(state, operand, width)
        if isinstance(value, Condition):
            raise Unsupported(f"predicate {operand} as a number", self.place(state.at))
        if value.width < width:
            raise Unsupported(f"{value.width} bits where {width} are needed", self.place(state.at))
        return truncate(value, width)

    def _address(self, state: State, operand: Operand) -> Polynomial:
        if not isinstance(operand, Address):
            raise Unsupported(f"address {operand}", self.place(state.at))
        base = operand.base
        known = base.text if isinstance(base, Name) else ""
        width = self.program.width(known) if self.program.is_register(known) else 64
        value = self._number(state, base, width)
        if operand.offset is not None:
            offset = self.program.value(operand.offset, width)
            assert isinstance(offset, Polynomial)
            value = add(value, offset)
        # 32-bit addresses are legal for windows that fit in 32 bits: they are zero-extended.
        return zero_extend(value, 64)

    # --- control ---

    def _branch(self, state: State, context: Context, instruction: Instruction) -> None:
        target = instruction.operands[0]
        if not isinstance(target, Name):
            raise Unsupported("a branch to no label", self.place(state.at))
        state.at = self.program.label(target.text)

    def _leave(self, state: State, context: Context, instruction: Instruction) -> None:
        state.at, state.ending = EXITED, "trap" if instruction.opcode == "trap" else "ret"

    # --- memory ---

    def _load(self, state: State, context: Context, instruction: Instruction) -> None:
        space, kind = self._space(instruction), instruction.modifiers[-1]
        if space == "param":
            self._load_parameter(state, context, instruction)
            return
        if not _STRONG.isdisjoint(instruction.modifiers):
            self._effect(state, instruction)
            return
        self._check_plain(state, instruction)
        width = self.program.type_width(kind)
        address = self._address(state, instruction.operands[1])
        targets = _elements(instruction.operands[0])
        for k, target in enumerate(targets):
            at = add(address, constant(k * width // 8, 64))
            if ".nc" in instruction.modifiers:
                value = atom("load_nc", (space, at), width)
            else:
                value = memory.load(state.memory, space, at, width, context.decide, context.separate)
            state.loads.append(_access(space, at, width, len(targets), k))
            self._write_loaded(state, context, target, value, kind)
        state.at += 1

    def _load_parameter(self, state: State, context: Context, instruction: Instruction) -> None:
        kind = instruction.modifiers[-1]
        width = self.program.type_width(kind)
        source = instruction.operands[1]
        if not isinstance(source, Address) or not isinstance(source.base, Name):
            raise Unsupported("a parameter behind a pointer", self.place(state.at))
        offset = 0 if source.offset is None else self.program.number(source.offset)
        for k, target in enumerate(_elements(instruction.operands[0])):
            index = self.program.parameter_index(source.base.text)
            value = entry.parameter(index, offset + k * width // 8, width)
            self._write_loaded(state, context, target, value, kind)
        state.at += 1

    def _write_loaded(self, state: State, context: Context, target: Operand, value: Polynomial, kind: str) -> None:
        """A register wider than the type is filled by sign or by zero (ISA 9.4.1)."""
        if not isinstance(target, Name):
            raise Unsupported(f"load into {target}", self.place(state.at))
        if target.text == "_":
            return
        width = self.program.width(target.text)
        if width < value.width:
            raise Unsupported(f"{value.width} bits in {target.text}", self.place(state.at))
        extend = sign_extend if kind.startswith(".s") else zero_extend
        self._write(state, context, target.text, extend(value, width))

    def _store(self, state: State, context: Context, instruction: Instruction) -> None:
        space = self._space(instruction)
        if space in ("param", "const"):
            raise Unsupported(f"a store to .{space}", self.place(state.at))
        if not _STRONG.isdisjoint(instruction.modifiers):
            self._effect(state, instruction)
            return
        self._check_plain(state, instruction)
        width = self.program.type_width(instruction.modifiers[-1])
        address = self._address(state, instruction.operands[0])
        sources = _elements(instruction.operands[1])
        for k, source in enumerate(sources):
            at = add(address, constant(k * width // 8, 64))
            value = context.simplified(self._number(state, source, width))
            if self.algebra.ideal and instruction.modifiers[-1] == ".f32":
                value = canonical(value)
            state.memory = memory.store(state.memory, space, context.simplified(at), value)
            state.stores.append(_access(space, at, width, len(sources), k))
        state.at += 1

    def _check_plain(self, state: State, instruction: Instruction) -> None:
        """Refuse what only looks like a plain load or store: st.async, st.bulk and whatever comes next."""
        for modifier in instruction.modifiers[:-1]:
            hint = modifier.startswith((".L1::", ".L2::"))
            if not (hint or modifier in _PLAIN or modifier in _SPACES):
                raise Unsupported(instruction.full_opcode, self.place(state.at))

    def _space(self, instruction: Instruction) -> str:
        for modifier in instruction.modifiers:
            if modifier in _SPACES:
                return _SPACES[modifier]
            if "::" in modifier and not modifier.startswith(".L"):
                raise Unsupported(f"{instruction.full_opcode}", "")
        return memory.GENERIC

    # --- effects ---

    def _atomic(self, state: State, context: Context, instruction: Instruction) -> None:
        self._effect(state, instruction)

    def _effect(self, state: State, instruction: Instruction) -> None:
        """Something that other threads see or take part in: its operands are compared, its results are unknown."""
        first = self._destinations(state, instruction)
        operands: list[Polynomial | Condition] = []
        types = isa.operand_types(instruction)
        for operand, kind in zip(instruction.operands[first:], types[first:], strict=True):
            operands += self._effect_operand(state, operand, kind)
        name = instruction.full_opcode
        state.memory = memory.effect(state.memory, name, tuple(operands))
        if instruction.opcode in _BARRIERS or instruction.opcode in _EXCHANGES:
            state.convergent.append((state.at, name))
        if first:
            self._effect_results(state, instruction.operands[0])
        state.at += 1

    def _destinations(self, state: State, instruction: Instruction) -> int:
        """How many operands, 0 or 1, are written: the instruction table says (bar.red has one, bar.sync none)."""
        found = isa.form(instruction)
        roles = "?" if found is None else "".join(rule.role for rule in found.operands)
        if roles[1:].strip("umi") or roles[:1] not in ("", "d", "u", "m", "i"):
            raise Unsupported(f"{instruction.full_opcode} with operands {roles}", self.place(state.at))
        return int(roles[:1] == "d")

    def _effect_operand(self, state: State, operand: Operand, kind: str) -> list[Polynomial | Condition]:
        """An operand as wide as it comes; a number as wide as the instruction table says, else 64 bits."""
        match operand:
            case Address():
                return [self._address(state, operand)]
            case Vector(items):
                return [x for item in items for x in self._effect_operand(state, item, kind)]
            case Immediate():
                try:
                    width = self.program.type_width(kind)
                except Unsupported:
                    width = 64
                return [constant(self.program.bits(operand, width), width)]
            case _:
                return [self._read(state, operand, 64)]

    def _effect_results(self, state: State, target: Operand) -> None:
        after = state.memory
        for k, item in enumerate(_elements(target)):
            if not isinstance(item, Name) or item.text == "_":
                continue
            width = self.program.width(item.text)
            if width == 1:
                state.registers[item.text] = predicate("result", (after, k))
            else:
                state.registers[item.text] = atom("result", (after, k), width)


def _elements(operand: Operand) -> tuple[Operand, ...]:
    match operand:
        case Vector(items):
            return items
        case Pair(first, second):
            return (first, second)
        case _:
            return (operand,)


def _access(space: str, at: Polynomial, width: int, elements: int, k: int) -> Access:
    """Element ``k`` of a vector access: the first needs the whole vector's alignment, each shows its part of it."""
    size = width // 8
    whole = size * elements
    return Access(space, at, width, whole if k == 0 else size, gcd(whole, k * size) if k else whole)


_HANDLERS: Final = {
    "bra": Machine._branch,
    "ret": Machine._leave,
    "exit": Machine._leave,
    "trap": Machine._leave,
    "ld": Machine._load,
    "st": Machine._store,
    "atom": Machine._atomic,
    "red": Machine._atomic,
}
