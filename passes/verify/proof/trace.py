"""Concrete runs of both sides under the interpretation of interpretation.py, for the search to guess from.

Each instruction is executed symbolically once, over variables for its registers, and the resulting terms are
compiled to Python. So a trace and a proof share one reading of every instruction. Untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hybridcc.passes.verify.proof import entry, lemmas
from hybridcc.passes.verify.proof.alignment import Visit
from hybridcc.passes.verify.proof.bitvector import divide
from hybridcc.passes.verify.proof.context import Context
from hybridcc.passes.verify.proof.interpretation import Chain, concrete, floating, truth, uninterpreted
from hybridcc.passes.verify.proof.machine import Machine
from hybridcc.passes.verify.proof.program import Program, Unsupported
from hybridcc.passes.verify.proof.state import EXITED, State
from hybridcc.passes.verify.proof.term_algebra import CARRY
from hybridcc.passes.verify.proof.terms import (
    TRUE,
    Argument,
    Atom,
    Condition,
    Memory,
    Polynomial,
    constant,
    equal,
    variable,
)

STEP_LIMIT: Final = 6000
_REGISTER: Final = "register:"

Step: TypeAlias = Callable[[dict[str, int], Mapping[str, int], Chain], tuple[Chain, int]]
"""Registers (changed in place), entry values, memory -> memory, next instruction."""


@dataclass(frozen=True, slots=True)
class Trace:
    """``memory`` identifies everything that was written, in order; ``ending`` how the thread left."""

    visits: list[Visit]
    memory: int
    ending: str


class _Registers(dict[str, int]):
    """A register that was not written holds 0, here: a proof assumes nothing of it."""

    def __missing__(self, name: str) -> int:
        return 0


class _Undecided(Context):
    """Knows nothing, so that every term stays as the instruction makes it."""

    def decide(self, c: Condition) -> bool | None:
        return True if c is TRUE else None


class Tracer:
    """One side, compiled. Raises Unsupported for a program that holds what has no meaning as terms."""

    def __init__(self, program: Program, stops: frozenset[int], *, commuting: bool, ideal: bool = False) -> None:
        self.program, self.stops = program, stops
        self._machine = Machine(program, "base", set(), commuting=commuting, ideal=ideal)
        self._registers = {name: _free(program, name) for name in program.registers}
        self._registers[CARRY] = equal(variable(_REGISTER + CARRY, 1), constant(1, 1))
        self._steps: list[Step | None] = [None] * len(program.instructions)
        self._live = {at: sorted(program.live_before(at)) for at in stops}

    def run(self, values: Mapping[str, int], limit: int = STEP_LIMIT) -> Trace | None:
        """None if the thread takes more than ``limit`` steps. Raises KeyError for an entry value not given."""
        registers = _Registers()
        memory = Chain(0)
        visits: list[Visit] = []
        at = 0
        for _ in range(limit):
            if at >= len(self._steps):
                return Trace(visits, memory.identity, "ret")
            if at in self.stops:
                known = {r: registers[r] for r in self._live[at] if r in registers}
                visits.append(Visit(at, known, memory.identity, memory))
            step = self._steps[at]
            if step is None:
                step = self._steps[at] = self._compile(at)
            memory, at = step(registers, values, memory)
            if at < 0:
                return Trace(visits, memory.identity, "ret" if at == EXITED else "trap")
        return None

    def _compile(self, at: int) -> Step:
        instruction = self.program.instructions[at]
        start = entry.memory()
        state = State("base", dict(self._registers), start, at)
        self._machine._run(state, _Undecided(None), instruction, None)  # type: ignore[arg-type]
        code = _Code()
        guard = "True"
        if instruction.guard is not None:
            term = self._registers[instruction.guard.name]
            guard = code.argument(term)
            guard = f"not ({guard})" if instruction.guard.negated else guard
        changed = [(n, code.argument(v)) for n, v in state.registers.items() if v is not self._registers[n]]
        memory = code.memory(state.memory)
        following = state.at if state.ending != "trap" else EXITED - 1
        names = ", ".join(f"R[{name!r}]" for name, _ in changed)
        assign = f"{names} = {', '.join(value for _, value in changed)}" if changed else "pass"
        text = (
            "def step(R, E, m):\n"
            f"    if not ({guard}):\n        return m, {at + 1}\n"
            f"    after = {memory}\n    {assign}\n    return after, {following}\n"
        )
        scope: dict[str, Any] = dict(_SCOPE)
        exec(compile(text, f"<instruction {at}>", "exec"), scope)
        return scope["step"]


def _free(program: Program, name: str) -> Polynomial | Condition:
    try:
        width = program.width(name)
    except Unsupported:
        width = 32
    value = variable(_REGISTER + name, width)
    return equal(value, constant(1, 1)) if width == 1 else value


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def _divide(operation: str, x: int, y: int, width: int) -> int:
    return divide(operation, x, y, width) if y else uninterpreted(operation, (x, y), width)


_SCOPE: Final[Mapping[str, Any]] = {
    "S": _signed,
    "U": uninterpreted,
    "F": floating,
    "T": truth,
    "D": _divide,
    "C": concrete,
}


class _Code:
    """Terms as Python expressions over R (registers), E (entry values) and m (the memory before)."""

    def argument(self, x: Argument) -> str:
        match x:
            case Polynomial():
                return self.polynomial(x)
            case Condition():
                return self.condition(x)
            case Memory():
                return f"({self.memory(x)}).identity"
            case _:
                return repr(x)

    def polynomial(self, p: Polynomial) -> str:
        pieces = []
        for monomial, coefficient in p.monomials:
            factors = [self.atom(a) for a in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            pieces.append("*".join(factors))
        if not pieces:
            return "0"
        if len(pieces) == 1 and "*" not in pieces[0]:
            return pieces[0]
        return f"(({' + '.join(pieces)}) & {(1 << p.width) - 1})"

    def atom(self, a: Atom) -> str:
        width, mask = a.width, (1 << a.width) - 1
        if a.operation == "variable":
            name = str(a.arguments[0])
            return f"R[{name[len(_REGISTER) :]!r}]" if name.startswith(_REGISTER) else f"E[{name!r}]"
        if a.operation == "load":
            at, space, address = a.arguments
            assert isinstance(at, Memory)
            return f"({self.memory(at)}).load({space!r}, {self.argument(address)}, {width}, 64)"
        x = [self.argument(y) for y in a.arguments]
        inner = a.arguments[0].width if isinstance(a.arguments[0], Polynomial) else width
        match a.operation:
            case "bit":
                return f"int({x[0]})"
            case "and":
                return f"({x[0]} & {x[1]})"
            case "shl":
                return f"(({x[0]} << {x[1]}) & {mask} if {x[1]} < {width} else 0)"
            case "lshr":
                return f"({x[0]} >> {x[1]})"
            case "ashr":
                return f"((S({x[0]}, {width}) >> {x[1]}) & {mask})"
            case "sext":
                return f"(S({x[0]}, {inner}) & {mask})"
            case "zext":
                return x[0]
            case "trunc":
                return f"({x[0]} & {mask})"
            case "popc" | "clz" | "brev":
                return f"C({a.operation!r}, ({x[0]},), {width}, {inner})"
            case "udiv" | "urem" | "sdiv" | "srem":
                return f"D({a.operation!r}, {x[0]}, {x[1]}, {width})"
        if lemmas.covers(a.operation):
            return f"F({a.operation!r}, ({', '.join(x)},), {width})"
        return f"U({a.operation!r}, ({', '.join(x)},), {width})"

    def condition(self, c: Condition) -> str:
        x = [self.argument(y) for y in c.arguments]
        match c.kind:
            case "true":
                return "True"
            case "false":
                return "False"
            case "not":
                return f"(not {x[0]})"
            case "and":
                return f"({x[0]} and {x[1]})"
            case "eq":
                return f"({x[0]} == 0)"
            case "ult":
                return f"({x[0]} < {x[1]})"
            case "slt":
                first = c.arguments[0]
                assert isinstance(first, Polynomial)
                return f"(S({x[0]}, {first.width}) < S({x[1]}, {first.width}))"
        return f"T({x[0]}, ({', '.join(x[1:])},))"

    def memory(self, m: Memory) -> str:
        if m.kind == "initial":
            return "m"
        before, name = m.arguments[:2]
        assert isinstance(before, Memory)
        rest = [self.argument(x) for x in m.arguments[2:]]
        if m.kind == "effect":
            return f"({self.memory(before)}).effect({name!r}, ({', '.join(rest)}{',' if rest else ''}))"
        value = m.arguments[3]
        assert isinstance(value, Polynomial)
        return f"({self.memory(before)}).store({name!r}, {rest[0]}, {rest[1]}, {value.width})"
