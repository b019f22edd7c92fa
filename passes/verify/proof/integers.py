"""Bit-vector conditions as linear arithmetic over the integers, for chains of inequalities between sums.

Bits are the wrong tool for ``i0 + q*s - m*s < n``: a solver that works on them needs minutes where linear arithmetic
needs milliseconds. Here a bit-vector of w bits is an integer expression that is right modulo 2^w. Where its value
is asked for, the multiple of 2^w between the two is an unknown integer, unless the expression's range shows that
there is none. What linear arithmetic cannot say (bitwise operations but for low masks, shifts by unknowns) is any
number of its range, so "unsatisfiable" stays true, and is the only answer that anyone takes from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hybridcc.errors import MissingExtra
from hybridcc.passes.verify.proof.solver import Answer, Model

EFFORT: Final = 2_000_000
"""z3's own count of steps for one question: the same on every machine."""


@dataclass(frozen=True, slots=True)
class _Number:
    """``expression`` lies in [low, high] and is the value modulo 2^width."""

    expression: Any
    width: int
    low: int
    high: int


class Integers:
    """z3's linear arithmetic behind the interface of a bit-vector solver (solver.py, ``Backend``)."""

    name = "z3 integers"

    def __init__(self) -> None:
        try:
            import z3
        except ImportError as error:
            raise MissingExtra("z3-solver is not installed", next_step="pip install 'z3-solver>=4.13'") from error
        self._library = z3
        self.version = ".".join(map(str, z3.get_version()[:3]))
        self._context = z3.Context()
        self._true = z3.BoolVal(True, self._context)
        self._fresh = 0
        self._definitions: dict[int, list[Any]] = {}
        self._below: dict[int, frozenset[int]] = {}
        self._values: dict[tuple[int, int, bool], _Number] = {}
        self._kept: list[Any] = []
        self._solver: Any = None
        self._standing: dict[int, Any] = {-1: None}
        """What the solver holds besides the question; at first, what no question needs."""

    # --- terms ---

    def number(self, value: int, width: int) -> _Number:
        value &= (1 << width) - 1
        value -= (value >> (width - 1)) << width  # near zero, so that sums stay in range
        return _Number(self._library.IntVal(value, self._context), width, value, value)

    def free(self, name: str, width: int) -> _Number:
        return self._unknown(f"{name}.{width}", width, 0, (1 << width) - 1)

    def free_truth(self, name: str) -> Any:
        return self._library.Bool(name, self._context)

    def _unknown(self, name: str, width: int, low: int, high: int) -> _Number:
        variable = self._library.Int(name, self._context)
        if variable.get_id() not in self._definitions:
            self._definitions[variable.get_id()] = [variable >= low, variable <= high]
            self._kept.append(variable)
        return _Number(variable, width, low, high)

    def _new(self, width: int, low: int, high: int, *more: Any) -> _Number:
        self._fresh += 1
        found = self._unknown(f"!{self._fresh}", width, low, high)
        self._definitions[found.expression.get_id()] += [m(found.expression) for m in more]
        return found

    def _value(self, x: _Number, *, sign: bool = False) -> _Number:
        """The number itself, unsigned or signed, in place of one that is right modulo 2^width."""
        size = 1 << x.width
        low, high = (-(size >> 1), (size >> 1) - 1) if sign else (0, size - 1)
        if low <= x.low and x.high <= high:
            return x
        key = (x.expression.get_id(), x.width, sign)
        found = self._values.get(key)
        if found is None:
            first, last = (x.low - low) // size, (x.high - low) // size
            if first == last:
                found = _Number(x.expression - first * size, x.width, x.low - first * size, x.high - first * size)
            else:
                wraps = self._new(x.width, first, last).expression
                found = self._new(x.width, low, high, lambda v: x.expression == v + size * wraps)
            self._values[key] = found
            self._kept.append(x.expression)
        return found

    def _floor(self, x: _Number, divisor: int, width: int) -> _Number:
        """``x`` in its range divided by a number, rounded down."""
        e = x.expression
        return self._new(
            width, x.low // divisor, x.high // divisor, lambda v: divisor * v <= e, lambda v: e < divisor * v + divisor
        )

    def extend(self, term: _Number, by: int, *, sign: bool) -> _Number:
        value = self._value(term, sign=sign)
        return _Number(value.expression, term.width + by, value.low, value.high)

    def extract(self, term: _Number, high: int, low: int) -> _Number:
        whole = term if low == 0 else self._floor(self._value(term), 1 << low, term.width)
        return _Number(whole.expression, high - low + 1, whole.low, whole.high)

    def operation(self, name: str, *arguments: Any) -> Any:
        z3, (x, *rest) = self._library, arguments
        match name:
            case "not":
                return z3.Not(x)
            case "and":
                return z3.And(x, *rest)
            case "ite":
                return self._choice(x, *rest)
            case "=":
                return self._same(x, rest[0])
            case "bvult":
                return self._value(x).expression < self._value(rest[0]).expression
            case "bvslt":
                return self._value(x, sign=True).expression < self._value(rest[0], sign=True).expression
            case "bvadd":
                y = rest[0]
                return _Number(x.expression + y.expression, x.width, x.low + y.low, x.high + y.high)
            case "bvneg":
                return _Number(-x.expression, x.width, -x.high, -x.low)
            case "bvmul" if x.low == x.high:
                return self._scaled(rest[0], x.low)
            case "bvand" | "bvor":
                return self._bitwise(name, x, rest[0])
            case "bvshl" | "bvlshr" | "bvashr" if rest[0].low == rest[0].high:
                return self._shifted(name, x, rest[0].low % (1 << x.width))
        return self._new(x.width, 0, (1 << x.width) - 1)

    def _choice(self, condition: Any, x: _Number, y: _Number) -> _Number:
        chosen = self._library.If(condition, x.expression, y.expression)
        return _Number(chosen, x.width, min(x.low, y.low), max(x.high, y.high))

    def _same(self, x: Any, y: Any) -> Any:
        """The difference is a multiple of 2^width, of which its range may leave one or none."""
        if not isinstance(x, _Number):
            return x == y
        size = 1 << x.width
        first, last = -((y.high - x.low) // size), (x.high - y.low) // size
        if first == last:
            return x.expression == y.expression + first * size
        if first > last:
            return self._library.Not(self._true)
        return self._value(x).expression == self._value(y).expression

    def _scaled(self, x: _Number, factor: int) -> _Number:
        ends = (x.low * factor, x.high * factor)
        return _Number(x.expression * factor, x.width, min(ends), max(ends))

    def _bitwise(self, name: str, x: _Number, y: _Number) -> _Number:
        size = 1 << x.width
        for a, b in ((x, y), (y, x)):
            mask = b.low % size
            if name != "bvand" or b.low != b.high:
                continue
            if mask & (mask + 1) == 0:
                return self._low(a, mask.bit_length())
            if (size - mask) & (size - mask - 1) == 0:
                value, low = self._value(a), self._low(a, (size - mask).bit_length() - 1)
                return _Number(value.expression - low.expression, x.width, 0, size - 1)
        a, b = self._value(x), self._value(y)
        p, q = a.expression, b.expression
        if name == "bvor":
            return self._new(x.width, 0, size - 1, lambda v: v >= p, lambda v: v >= q, lambda v: v <= p + q)
        return self._new(x.width, 0, size - 1, lambda v: v <= p, lambda v: v <= q)

    def _low(self, x: _Number, bits: int) -> _Number:
        if bits == 0:
            return self.number(0, x.width)
        low = self._value(_Number(x.expression, bits, x.low, x.high))
        return _Number(low.expression, x.width, low.low, low.high)

    def _shifted(self, name: str, x: _Number, amount: int) -> _Number:
        if name == "bvshl":
            return self._scaled(x, 1 << amount) if amount < x.width else self.number(0, x.width)
        return self._floor(self._value(x, sign=name == "bvashr"), 1 << amount, x.width)

    # --- questions ---

    def check(self, assertions: Sequence[Any], milliseconds: int) -> tuple[Answer, Model | None]:
        """Never with a model. "sat" may be wrong, where bits would have decided."""
        return self.ask(assertions)[0], None

    def ask(self, assertions: Sequence[Any]) -> tuple[Answer, list[tuple[str, int, int]]]:
        """With "sat", which may be wrong, (name, width, value) of the free symbols.

        Questions come in rows that differ in the last assertion alone, so what came before stays with the solver.
        """
        *known, question = assertions
        needed = self._closed(known)
        if not self._standing.keys() <= needed.keys():
            self._solver = self._library.SolverFor("QF_LIA", self._context)
            self._solver.set("rlimit", EFFORT)
            self._standing = {}
        self._assert(term for i, term in needed.items() if i not in self._standing)
        self._standing = needed
        self._solver.push()
        self._assert(term for i, term in self._closed([question]).items() if i not in needed)
        result = str(self._solver.check())
        found = self._assigned() if result == "sat" else []
        self._solver.pop()
        return ("sat" if result == "sat" else "unsat" if result == "unsat" else "unknown"), found

    def _assert(self, terms: Iterable[Any]) -> None:
        for term in terms:
            self._library.Z3_solver_assert(self._context.ref(), self._solver.solver, term.as_ast())

    def _closed(self, assertions: Iterable[Any]) -> dict[int, Any]:
        """Assertions by identity, with the definitions of the unknowns that they speak of."""
        found: dict[int, Any] = {}
        waiting = list(assertions)
        while waiting:
            assertion = waiting.pop()
            if assertion.get_id() in found:
                continue
            found[assertion.get_id()] = assertion
            for variable in self._variables(assertion):
                waiting += self._definitions.get(variable, ())
        return found

    def _assigned(self) -> list[tuple[str, int, int]]:
        model = self._solver.model()
        found: list[tuple[str, int, int]] = []
        for symbol in model.decls():
            name, _, width = symbol.name().rpartition(".")
            if name and width.isdigit():
                found.append((name, int(width), model[symbol].as_long()))
        return found

    def _variables(self, term: Any) -> frozenset[int]:
        """The unknowns below a term, by identity."""
        found = self._below.get(term.get_id())
        if found is None:
            inner = term.children()
            found = frozenset().union(*map(self._variables, inner)) if inner else frozenset((term.get_id(),))
            self._below[term.get_id()] = found
            self._kept.append(term)
        return found
