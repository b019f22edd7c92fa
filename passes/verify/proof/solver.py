"""Conditions to an SMT solver, and its answers.

Only bit-vector logic over the linear part reaches the solver. What it must not see (products of two
unknowns, division by an unknown, loads, floating point) becomes a free constant, so the solver reasons about
more values than can occur: "unsatisfiable" is then still true of the values that can, and is the only answer
a proof rests on. Products whose factors have known bounds come with the bound of the product.

Queries are counted, and the count is the budget; the time limit per query is a backstop for a slow machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from hybridcc.errors import MissingExtra
from hybridcc.passes.verify.proof.terms import (
    Argument,
    Atom,
    Condition,
    Monomial,
    Polynomial,
    add,
    as_constant,
    constant,
    from_monomials,
    of_atom,
    scale,
    signed,
    sub,
)

Answer: TypeAlias = Literal["sat", "unsat", "unknown"]


ANSWERS_WITH_MODELS: Final = 100
MODELS_KEPT: Final = 12


class OutOfBudget(Exception):
    """A counted budget is spent: the proof ends as unknown, on every machine alike."""


class TimeLimit(Exception):
    """The wall-clock backstop fired: the proof ends as unknown(timeout), which is never cached."""


class Model(Protocol):
    def truth(self, term: Any) -> bool: ...

    def number(self, term: Any) -> int: ...


class Backend(Protocol):
    """What bitwuzla and z3 have in common. ``operation`` takes SMT-LIB names."""

    name: str
    version: str

    def number(self, value: int, width: int) -> Any: ...

    def free(self, name: str, width: int) -> Any: ...

    def free_truth(self, name: str) -> Any: ...

    def operation(self, name: str, *arguments: Any) -> Any: ...

    def extend(self, term: Any, by: int, *, sign: bool) -> Any: ...

    def extract(self, term: Any, high: int, low: int) -> Any: ...

    def check(self, assertions: Sequence[Any], milliseconds: int) -> tuple[Answer, Model | None]: ...


@dataclass(slots=True)
class Statistics:
    queries: int = 0
    unknown: int = 0


class Solver:
    """One backend with its translation cache and its budget of queries."""

    def __init__(self, backend: Backend, *, budget: int = 20_000, milliseconds: int = 10_000) -> None:
        self.backend = backend
        self._answers: dict[frozenset[Condition], tuple[Answer, Model | None]] = {}
        self._with_models: deque[frozenset[Condition]] = deque()
        self.budget = budget
        self.milliseconds = milliseconds
        self.statistics = Statistics()
        self._terms: dict[Any, Any] = {}
        self._lemmas: dict[Any, list[Any]] = {}
        self._arithmetic: _Linear | None = None
        self._asked_for_arithmetic = False
        self._latest: deque[tuple[Model, tuple[Condition, ...]]] = deque(maxlen=MODELS_KEPT)

    def latest_values(self) -> list[dict[str, int]]:
        """What the latest satisfiable questions made of the variables they were about, by name, last question first.

        A proof that fails has failed on one of these: they are worth a replay, and show nothing by themselves.
        """
        return [
            {
                str(a.arguments[0]): model.number(self._terms[a])
                for a in frozenset().union(*(symbols(c) for c in about))
                if isinstance(a, Atom) and a.operation == "variable" and a in self._terms
            }
            for model, about in reversed(self._latest)
        ]

    def again(self) -> Solver:
        """A solver with a budget of its own that remembers what this one was told and has answered."""
        other = Solver(self.backend, budget=self.budget, milliseconds=self.milliseconds)
        other._answers, other._with_models = self._answers, self._with_models
        other._terms, other._lemmas = self._terms, self._lemmas
        other._arithmetic, other._asked_for_arithmetic = self._arithmetic, self._asked_for_arithmetic
        return other

    def check(self, conditions: Iterable[Condition], *, sums: bool = False) -> tuple[Answer, Model | None]:
        """Whether all the conditions can hold at once. Raises OutOfBudget, TimeLimit.

        ``sums`` says that the question is one of sums and their order: linear arithmetic is asked first.
        """
        wanted = list(conditions)
        if self.statistics.queries >= self.budget:
            raise OutOfBudget(f"{self.budget} solver queries")
        self.statistics.queries += 1
        asked = frozenset(wanted)
        if asked not in self._answers:
            self._answers[asked] = self._answer(wanted, sums)
            self._keep(asked)
        answer, model = self._answers[asked]
        self._remember(model, wanted)
        return answer, model

    def _keep(self, asked: frozenset[Condition]) -> None:
        """A model holds a solver's memory, an answer does not: the oldest models are let go."""
        if self._answers[asked][1] is not None:
            self._with_models.append(asked)
        if len(self._with_models) > ANSWERS_WITH_MODELS:
            oldest = self._with_models.popleft()
            self._answers[oldest] = (self._answers[oldest][0], None)

    def _answer(self, wanted: Sequence[Condition], sums: bool) -> tuple[Answer, Model | None]:
        assertions = self._assertions(wanted)
        linear = self._linear() if sums else None
        if linear is not None:
            answer, assigned = linear.sums(wanted)
            if answer == "unsat":
                return "unsat", None
            if answer == "sat":
                # Bits confirm the values; without them nothing follows either way.
                fixed = [
                    self.backend.operation("=", self.backend.free(name, width), self.backend.number(value, width))
                    for name, width, value in assigned
                ]
                exact, model = self.backend.check([*assertions, *fixed], self.milliseconds)
                return "sat", model if exact == "sat" else None
        answer, model = self.backend.check(assertions, self.milliseconds)
        if answer == "unknown":
            self.statistics.unknown += 1
            hint = "" if linear is not None or not sums else "; linear arithmetic needs pip install 'z3-solver>=4.13'"
            raise TimeLimit(f"one solver query took more than {self.milliseconds} ms{hint}")
        return answer, model

    def _remember(self, model: Model | None, wanted: Sequence[Condition]) -> None:
        if model is not None:
            self._latest.append((model, tuple(wanted)))

    def _linear(self) -> _Linear | None:
        """None where z3 is not installed."""
        if not self._asked_for_arithmetic:
            self._asked_for_arithmetic = True
            try:
                self._arithmetic = _Linear()
            except MissingExtra:
                self._arithmetic = None
        return self._arithmetic

    def _assertions(self, wanted: Sequence[Condition]) -> list[Any]:
        """The conditions, translated, after the lemmas about their symbols; the last condition comes last."""
        translated = [self.condition(c) for c in wanted]
        needed = frozenset().union(*(symbols(c) for c in wanted)) if wanted else frozenset()
        lemmas: list[Any] = []
        for symbol in sorted(needed, key=_symbol_order):
            lemmas += self._lemmas.get(symbol, ())
        return [*lemmas, *translated]

    # --- translation ---

    def condition(self, c: Condition) -> Any:
        found = self._terms.get(c)
        if found is None:
            found = self._terms[c] = self._condition(c)
        return found

    def _condition(self, c: Condition) -> Any:
        backend, arguments = self.backend, c.arguments
        match c.kind:
            case "true":
                return backend.operation("=", backend.number(0, 1), backend.number(0, 1))
            case "false":
                return backend.operation("=", backend.number(0, 1), backend.number(1, 1))
            case "not":
                return backend.operation("not", self.argument(arguments[0]))
            case "and":
                return backend.operation("and", self.argument(arguments[0]), self.argument(arguments[1]))
            case "eq":
                p = arguments[0]
                assert isinstance(p, Polynomial)
                return self._equation(p)
            case "slt" | "ult":
                name = "bvslt" if c.kind == "slt" else "bvult"
                return backend.operation(name, self.argument(arguments[0]), self.argument(arguments[1]))
        return backend.free_truth(f"c{c.index}")

    def _equation(self, p: Polynomial) -> Any:
        """``p == 0`` as positive part == negative part, which solvers rewrite better than a sum with negations."""
        folded, rest = self._folded(p)
        if not folded:
            folded, rest = self._folded(scale(p, -1))
        p = rest if folded else p
        half = 1 << (p.width - 1)
        left = [(m, c) for m, c in p.monomials if c < half]
        right = [(m, (1 << p.width) - c) for m, c in p.monomials if c >= half]
        total = self._sum(left, p.width)
        for term in folded:
            total = self.backend.operation("bvadd", total, term) if left or term is not folded[0] else term
        return self.backend.operation("=", total, self._sum(right, p.width))

    def argument(self, x: Argument) -> Any:
        if isinstance(x, Condition):
            return self.condition(x)
        assert isinstance(x, Polynomial)
        return self.polynomial(x)

    def polynomial(self, p: Polynomial) -> Any:
        found = self._terms.get(p)
        if found is None:
            folded, rest = self._folded(p)
            found = self._sum(list(rest.monomials), p.width) if rest.monomials or not folded else None
            for term in folded:
                found = term if found is None else self.backend.operation("bvadd", found, term)
            self._terms[p] = found
        return found

    def _folded(self, p: Polynomial) -> tuple[list[Any], Polynomial]:
        """Parts ``x - (x & m)``, which are ``x & ~m``, and ``x + y - (x & y)``, which are ``x | y``, and what is left.

        The ring has no other way to write them, and a solver is much quicker with bits than with borrows.
        """
        folded: list[Any] = []
        for monomial, coefficient in p.monomials:
            if len(monomial) != 1 or monomial[0].operation != "and" or coefficient != (1 << p.width) - 1:
                continue
            x, y = monomial[0].arguments
            assert isinstance(x, Polynomial)
            if isinstance(y, int):
                x = _as_in(p, x, y.bit_length())
            whole = sub(x if isinstance(y, int) else add(x, y), of_atom(monomial[0]))  # type: ignore[arg-type]
            rest = sub(p, whole)
            if len(rest.monomials) + len(whole.monomials) > len(p.monomials):
                continue
            if isinstance(y, int):
                folded.append(self.backend.operation("bvand", self.polynomial(x), self.backend.number(~y, p.width)))
            else:
                folded.append(self.backend.operation("bvor", self.polynomial(x), self.argument(y)))
            p = rest
        return folded, p

    def _sum(self, monomials: Sequence[tuple[Monomial, int]], width: int) -> Any:
        total = None
        for monomial, coefficient in monomials:
            term = self._product(monomial, coefficient, width)
            total = term if total is None else self.backend.operation("bvadd", total, term)
        return self.backend.number(0, width) if total is None else total

    def _product(self, monomial: Monomial, coefficient: int, width: int) -> Any:
        backend = self.backend
        factors = tuple(a for a in monomial if a.operation != "bit")
        if not factors:
            term = backend.number(coefficient, width)
        else:
            term = self._atom(factors[0]) if len(factors) == 1 else self._abstract(factors)
            if coefficient == (1 << width) - 1:
                term = backend.operation("bvneg", term)
            elif coefficient != 1:
                term = backend.operation("bvmul", backend.number(coefficient, width), term)
        for a in monomial:
            if a.operation == "bit":
                term = backend.operation("ite", self.argument(a.arguments[0]), term, backend.number(0, width))
        return term

    def _abstract(self, factors: Monomial) -> Any:
        """A product of unknowns: free, but no greater than the product of its factors' bounds."""
        found = self._terms.get(factors)
        if found is not None:
            return found
        width = factors[0].width
        term = self.backend.free("m" + "_".join(str(a.index) for a in factors), width)
        greatest = 1
        for a in factors:
            greatest *= a.bound
        if greatest < (1 << width) - 1:
            self._lemmas[factors] = [
                self.backend.operation(
                    "not", self.backend.operation("bvult", self.backend.number(greatest, width), term)
                )
            ]
        self._terms[factors] = term
        return term

    def _atom(self, a: Atom) -> Any:
        found = self._terms.get(a)
        if found is None:
            found = self._translate(a)
            self._terms[a] = found
            if a.bound < (1 << a.width) - 1 and a.operation not in ("and", "zext", "lshr"):
                bound = self.backend.number(a.bound, a.width)
                above = self.backend.operation("bvult", bound, found)
                self._lemmas[a] = [self.backend.operation("not", above)]
        return found

    def _translate(self, a: Atom) -> Any:
        backend, width = self.backend, a.width
        match a.operation:
            case "and":
                left = a.arguments[0]
                assert isinstance(left, Polynomial)
                right = a.arguments[1]
                if isinstance(right, int):
                    left = _signed_low(left, right.bit_length())
                other = constant(right, width) if isinstance(right, int) else right
                return backend.operation("bvand", self.polynomial(left), self.argument(other))
            case "shl" | "lshr" | "ashr":
                return self._shift(a)
            case "udiv" | "urem" | "sdiv" | "srem" if self._nonzero(a.arguments[1]):
                return backend.operation("bv" + a.operation, *(self.argument(x) for x in a.arguments))
            case "sext" | "zext":
                inner = a.arguments[0]
                assert isinstance(inner, Polynomial)
                return backend.extend(self.polynomial(inner), width - inner.width, sign=a.operation == "sext")
            case "trunc":
                return backend.extract(self.argument(a.arguments[0]), width - 1, 0)
        return backend.free(f"a{a.index}", width)

    def _shift(self, a: Atom) -> Any:
        backend, width = self.backend, a.width
        value, amount = a.arguments
        assert isinstance(value, Polynomial)
        if isinstance(amount, int):
            amount = constant(amount, width)
        assert isinstance(amount, Polynomial)
        x, n = self.polynomial(value), self.polynomial(amount)
        common = max(width, amount.width)
        x = backend.extend(x, common - width, sign=a.operation == "ashr")
        n = backend.extend(n, common - amount.width, sign=False)
        shifted = backend.operation("bv" + a.operation, x, n)
        return backend.extract(shifted, width - 1, 0) if common > width else shifted

    @staticmethod
    def _nonzero(x: Argument) -> bool:
        return isinstance(x, Polynomial) and bool(as_constant(x))


def _signed_low(x: Polynomial, bits: int) -> Polynomial:
    """``x``, of which only the low ``bits`` matter, with coefficients near zero."""
    return from_monomials(x.width, {m: signed(c % (1 << bits), bits) for m, c in x.monomials})


def _as_in(p: Polynomial, x: Polynomial, bits: int) -> Polynomial:
    """``x``, of which only the low ``bits`` matter, with the coefficients that ``p`` has."""
    known = dict(p.monomials)
    size = 1 << bits
    chosen = {m: known[m] if m in known and (known[m] - c) % size == 0 else c for m, c in x.monomials}
    return from_monomials(p.width, chosen)


class _Linear:
    """The same translation for linear arithmetic over the integers (integers.py)."""

    def __init__(self) -> None:
        from hybridcc.passes.verify.proof.integers import Integers

        self._integers = Integers()
        self._solver = Solver(self._integers)

    def sums(self, wanted: Sequence[Condition]) -> tuple[Answer, list[tuple[str, int, int]]]:
        """With values of free symbols under which the conditions seem to hold."""
        return self._integers.ask(self._solver._assertions(wanted))


# --- which symbols a condition is about -----------------------------------------------------------------

Symbol: TypeAlias = "Atom | Condition | Monomial"
_symbols: dict[Any, frozenset[Any]] = {}


def symbols(term: Argument) -> frozenset[Symbol]:
    """Atoms, products and predicates below a term, as far as the translation looks into them."""
    if not isinstance(term, (Polynomial, Condition)):
        return frozenset()
    found = _symbols.get(term)
    if found is not None:
        return found
    collected: set[Symbol] = set()
    if isinstance(term, Condition):
        if term.kind == "predicate":
            collected.add(term)
        else:
            for x in term.arguments:
                collected |= symbols(x)
    else:
        for monomial, _ in term.monomials:
            factors = tuple(a for a in monomial if a.operation != "bit")
            if len(factors) > 1:
                collected.add(factors)
            for a in monomial:
                if len(factors) <= 1 or a.operation == "bit":
                    collected |= _below(a)
    result = frozenset(collected)
    _symbols[term] = result
    return result


def _below(a: Atom) -> frozenset[Symbol]:
    found = _symbols.get(a)
    if found is None:
        found = frozenset((a,))
        if a.operation in _INTERPRETED:
            found = found.union(*(symbols(x) for x in a.arguments))
        _symbols[a] = found
    return found


_INTERPRETED = frozenset(("and", "shl", "lshr", "ashr", "udiv", "urem", "sdiv", "srem", "sext", "zext", "trunc", "bit"))


def forget_symbols() -> None:
    """With terms.forget: the cache is keyed by interned terms."""
    _symbols.clear()


def _symbol_order(symbol: Symbol) -> tuple[int, ...]:
    match symbol:
        case Atom():
            return (0, symbol.index)
        case Condition():
            return (1, symbol.index)
        case _:
            return (2, *(a.index for a in symbol))
