"""What may relate the two sides at a pair of cut points, guessed from rows of concrete values.

Every register becomes an entry value, a polynomial in a few counters and invariants, or a symbol of its own;
inequalities and remainders are read off the rows. Nothing here is trusted: what does not hold is dropped by the
search, and what the search keeps is proved by the checker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hybridcc.passes.verify.proof import bitvector, entry
from hybridcc.passes.verify.proof.alignment import Row
from hybridcc.passes.verify.proof.certificate import SYMBOL_PREFIX, Edge, Node, Symbol
from hybridcc.passes.verify.proof.interpretation import Chain, Evaluation
from hybridcc.passes.verify.proof.memory import load
from hybridcc.passes.verify.proof.rewrite import Rewriter, leaves
from hybridcc.passes.verify.proof.terms import (
    FALSE,
    TRUE,
    Argument,
    Atom,
    Condition,
    Memory,
    Polynomial,
    add,
    as_constant,
    constant,
    equal,
    from_monomials,
    mul,
    negation,
    of_atom,
    scale,
    signed,
    signed_less,
    sub,
    variable,
)
from hybridcc.passes.verify.proof.two_adic import solve

Register: TypeAlias = tuple[str, str]
"""Side and name."""

_SMALL: Final = 1 << 40
_FEWEST_ROWS: Final = 8
_FIRST_COUNTERS: Final = 6
_DERIVED: Final = 3
_LONGEST_REMAINDER: Final = 64
_LARGEST_STEP: Final = 64
"""Bounds beyond it say more about the samples than about the loop."""


@dataclass(slots=True)
class Relations:
    """A node in the making: ``terms`` may still be weakened, ``conditions`` dropped."""

    name: str
    base_at: int
    candidate_at: int
    terms: dict[Register, Polynomial | Condition] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    weaker: dict[Condition, Condition] = field(default_factory=dict)
    """What to fall back on where a condition does not hold: something that it implies."""
    edges: tuple[Edge, ...] = ()
    weakened: int = 0

    def node(self) -> Node:
        return Node(
            self.name,
            self.base_at,
            self.candidate_at,
            tuple(self.symbols.values()),
            {name: term for (side, name), term in self.terms.items() if side == "base"},
            {name: term for (side, name), term in self.terms.items() if side == "candidate"},
            tuple(self.conditions),
            self.edges,
        )

    def fresh(self, register: Register, width: int) -> Polynomial:
        """A new symbol that ``register`` defines."""
        side, name = register
        label = f"{SYMBOL_PREFIX}{self.name}:{side}:{name}:{len(self.symbols)}"
        self.symbols[label] = Symbol(label, width, side, name)
        return variable(label, width)

    def weaken(self, registers: list[Register]) -> None:
        """Give registers that share a value a symbol of their own: nothing else is claimed of them."""
        term = self.terms[registers[0]]
        width = term.width if isinstance(term, Polynomial) else 1
        symbol = self.fresh(registers[0], width)
        new = _as_predicate(symbol) if isinstance(term, Condition) else symbol
        self.terms.update(dict.fromkeys(registers, new))
        self.weakened += 1


def _as_predicate(symbol: Polynomial) -> Condition:
    return equal(symbol, constant(1, 1))


@dataclass(slots=True)
class _Values:
    """A term with its value in every row."""

    term: Polynomial
    values: list[int]

    def signed(self) -> list[int]:
        return [signed(v, self.term.width) for v in self.values]

    def small(self) -> bool:
        return all(abs(v) < _SMALL for v in self.signed())


@dataclass(slots=True, eq=False)
class _Group:
    """Registers of one width that hold the same value in every row."""

    width: int
    is_condition: bool
    values: list[int]
    registers: list[Register]


@dataclass(slots=True)
class _Attempt:
    found: Relations
    bases: list[_Values]
    falling: list[_Values]


class Guesser:
    """Guesses for one node from its rows and from the terms of the first path that arrives there."""

    def __init__(self, rows: Sequence[Row], entries: Sequence[dict[str, int]], opaque: Iterable[Register]) -> None:
        self.rows = rows
        self.opaque = frozenset(opaque)
        self.evaluations = [Evaluation(entries[row.run], {entry.MEMORY: Chain(0)}) for row in rows]
        self.bases: list[_Values] = []
        self.derived: list[_Values] = []
        self.invariants: list[_Values] = []
        self.weaker: dict[Condition, Condition] = {}
        self.starts: dict[Polynomial, list[Polynomial]] = {}
        """What a counter is on arrival, where that is made of entry values."""
        self.falling: list[_Values] = []
        """What is expressed by counters and negative throughout: what counts up to zero."""
        self.divisors: list[Polynomial] = []
        """What entry values are divided by: trip counts, and what is a trip count times a stride, are made of them."""

    def relations(
        self,
        name: str,
        at: tuple[int, int],
        arrived: dict[Register, Polynomial | Condition],
        path: Iterable[Condition],
    ) -> Relations:
        """``arrived`` holds the live registers as terms; ``path`` the conditions of the path that arrived."""
        found = Relations(name, *at)
        groups: dict[tuple[int, bool, tuple[int, ...]], list[Register]] = {}
        for register, term in arrived.items():
            values = tuple(self._value(register, row) for row in self.rows)
            width = term.width if isinstance(term, Polynomial) else 1
            groups.setdefault((width, isinstance(term, Condition), values), []).append(register)
        waiting: list[_Group] = []
        for (width, is_condition, values), registers in groups.items():
            term = self._constant_term(found, arrived, registers, values)
            if term is None:
                waiting.append(_Group(width, is_condition, list(values), registers))
                continue
            found.terms.update(dict.fromkeys(registers, term))
            if isinstance(term, Polynomial) and not self.opaque.issuperset(registers):
                self._remember(term, list(values))
        for part in _about_quotients([*arrived.values(), *path]):
            values = self._evaluate(of_atom(part))
            if values is not None:
                self._remember(of_atom(part), values)
            if part.operation != "bit":
                self.divisors += [a for a in part.arguments[1:] if isinstance(a, Polynomial)]
        waiting.sort(key=self._rank)
        best = self._best_order(found, arrived, waiting)
        self.bases, self.falling = best.bases, best.falling
        found.terms.update(best.found.terms)
        found.symbols.update(best.found.symbols)
        self.weaker = found.weaker
        found.conditions = [c for c in dict.fromkeys(self._conditions(path)) if c not in found.weaker.values()]
        return found

    def about_symbols(self, found: Relations) -> list[Condition]:
        """Conditions on the symbols that the relations have by now."""
        self.bases = [
            _Values(variable(s.name, s.width), [self._value((s.side, s.register), row) for row in self.rows])
            for s in found.symbols.values()
            if (s.side, s.register) not in self.opaque
        ]
        self.falling, self.starts, self.weaker = [], {}, found.weaker
        return [c for c in dict.fromkeys(self._conditions(())) if c not in found.weaker.values()]

    def _best_order(
        self, found: Relations, arrived: dict[Register, Polynomial | Condition], waiting: list[_Group]
    ) -> _Attempt:
        """Which counter the others are expressed by matters: try several first, keep what needs the fewest symbols."""
        firsts = [g for g in waiting if self._counts(g)][:_FIRST_COUNTERS]
        best: _Attempt | None = None
        for first in firsts or [None]:
            order = waiting if first is None else [first, *(g for g in waiting if g is not first)]
            attempt = _Attempt(Relations(found.name, found.base_at, found.candidate_at), [], [])
            self.bases, self.derived, self.falling = attempt.bases, [], attempt.falling
            for group in order:
                self._relate(attempt.found, arrived, group)
            if best is None or len(attempt.bases) < len(best.bases):
                best = attempt
            if len(best.bases) <= 1:
                break
        assert best is not None
        return best

    def _counts(self, group: _Group) -> bool:
        """Whether a group of registers is a counter: small numbers, and no truth value."""
        if group.is_condition or self.opaque.issuperset(group.registers):
            return False
        return all(abs(signed(v, group.width)) < _SMALL for v in group.values)

    def _value(self, register: Register, row: Row) -> int:
        side, name = register
        return (row.base if side == "base" else row.candidate)[name]

    def _constant_term(
        self,
        found: Relations,
        arrived: dict[Register, Polynomial | Condition],
        registers: list[Register],
        values: tuple[int, ...],
    ) -> Polynomial | Condition | None:
        """A term over entry values alone that has the right value in every row."""
        for register in registers:
            term = arrived[register]
            if _over_entry(term) and self._evaluate(term) == list(values):
                return self._still_held(found, term, values) or term
        return None

    def _still_held(
        self, found: Relations, term: Polynomial | Condition, values: tuple[int, ...]
    ) -> Polynomial | Condition | None:
        """What was loaded from the memory at the entry, as a load of the node's memory if that holds the same."""
        if not self.rows or entry.memory() not in leaves(term):
            return None
        memory = found.node().memory
        rewriter = Rewriter(memories={entry.memory(): memory})
        changed = rewriter.polynomial(term) if isinstance(term, Polynomial) else rewriter.condition(term)
        for row, value, known in zip(self.rows, values, self.evaluations, strict=True):
            evaluation = Evaluation(known.variables, {str(memory.arguments[0]): row.chain})
            if int(evaluation.argument(changed)) != value:
                return None
        return changed

    def _evaluate(self, term: Polynomial | Condition) -> list[int] | None:
        try:
            return [int(e.argument(term)) for e in self.evaluations]
        except KeyError:
            return None

    def _remember(self, term: Polynomial, values: list[int]) -> None:
        """An invariant, and the entry values it is made of, can serve as columns."""
        known = {v.term for v in self.invariants}
        for part in (term, *_parts(term)):
            if part in known or as_constant(part) is not None:
                continue
            evaluated = values if part is term else self._evaluate(part)
            if evaluated is not None:
                known.add(part)
                self.invariants.append(_Values(part, evaluated))

    def _rank(self, group: _Group) -> tuple[object, ...]:
        numbers = [signed(v, group.width) if group.width > 1 else v for v in group.values]
        return (
            self.opaque.issuperset(group.registers),
            group.is_condition,
            any(n < 0 for n in numbers),
            max(map(abs, numbers), default=0).bit_length(),
            group.registers,
        )

    def _relate(self, found: Relations, arrived: dict[Register, Polynomial | Condition], group: _Group) -> None:
        width, is_condition, values, registers = group.width, group.is_condition, group.values, group.registers
        numeric = not is_condition and not self.opaque.issuperset(registers)
        term = None
        if numeric and len(self.rows) >= _FEWEST_ROWS:
            monomials = [p for r in registers if isinstance(p := arrived[r], Polynomial)]
            term = self._express(width, values, monomials)
        elif not is_condition:
            term = self._held_in_memory(found, width, values)
        if term is None:
            term = found.fresh(registers[0], width)
            if numeric:
                self.bases.append(_Values(term, values))
                self.starts[term] = [p for r in registers if isinstance(p := arrived[r], Polynomial) and _over_entry(p)]
        elif numeric and width >= 32 and as_constant(term) is None and all(v >> (width - 1) for v in values):
            self.falling.append(_Values(term, values))
        elif len(self.derived) < _DERIVED and as_constant(term) is None and _Values(term, values).small():
            self.derived.append(_Values(term, values))
        resolved: Polynomial | Condition = _as_predicate(term) if is_condition else term
        found.terms.update(dict.fromkeys(registers, resolved))

    def _held_in_memory(self, found: Relations, width: int, values: list[int]) -> Polynomial | None:
        """A load of the node's memory, where every row's value stands at an address that can be expressed.

        This is what a value loaded early, or kept in a register after it was stored, has in common in all rows.
        """
        places = [row.chain.origins.get(value) for row, value in zip(self.rows, values, strict=True)]
        if len(self.rows) < _FEWEST_ROWS or None in places:
            return None
        known = [place for place in places if place is not None]
        spaces = {(space, bits) for space, _, bits in known}
        addresses = [address for _, address, _ in known]
        if len(spaces) != 1 or known[0][2] != width:
            return None
        space = known[0][0]
        held = (row.chain.peek(space, at, width, 64) for row, at in zip(self.rows, addresses, strict=True))
        if any(x != value for x, value in zip(held, values, strict=True)):
            return None
        address = self._express(64, addresses, [])
        return None if address is None else load(found.node().memory, space, address, width)

    def _express(self, width: int, values: list[int], arrived: list[Polynomial]) -> Polynomial | None:
        """The register as a combination of columns, the smallest set of columns first."""
        one = _Values(constant(1, width), [1] * len(self.rows))
        bases = [_converted(b, width) for b in self.bases]
        fixed = [v for v in self.invariants if v.term.width == width]
        for p in arrived:
            for monomial, _ in p.monomials:
                part = from_monomials(width, {monomial: 1})
                if monomial and _over_entry(part) and all(part is not v.term for v in fixed):
                    evaluated = self._evaluate(part)
                    if evaluated is not None:
                        fixed.append(_Values(part, evaluated))
        products, more = (
            [
                _Values(mul(b.term, v.term), [x * y for x, y in zip(b.values, v.values, strict=True)])
                for b in counters
                for v in fixed
            ]
            for counters in (bases, [_converted(d, width) for d in self.derived])
        )
        wider = [one, *bases, *fixed, *products]
        choices = [[one, *bases], [one, *bases, *fixed], wider, [*wider, *more]]
        if self.divisors:
            choices.insert(3, [*wider, *self._multiples(width, fixed)])
        for columns in choices:
            # A fit with about as many unknowns as rows says nothing.
            columns = columns[: max(len(self.rows) - _FEWEST_ROWS, 1)]
            mask = (1 << width) - 1
            coefficients = solve([[x & mask for x in c.values] for c in columns], values, width)
            if coefficients is not None and sum(map(bool, coefficients)) <= max(6, len(self.rows) // 3):
                total = constant(0, width)
                for coefficient, column in zip(coefficients, columns, strict=True):
                    if coefficient:
                        total = add(total, scale(column.term, coefficient))
                return total
        return None

    def _multiples(self, width: int, fixed: list[_Values]) -> list[_Values]:
        """Invariants times what is divided by, if they are no such product already."""
        found: list[_Values] = []
        for b in dict.fromkeys(d for d in self.divisors if d.width == width):
            values = self._evaluate(b) or []
            found += (
                _Values(mul(v.term, b), [x * y for x, y in zip(v.values, values, strict=True)])
                for v in fixed
                if v.small() and v.term is not b and len(v.term.monomials) == 1
            )
        return found

    # --- inequalities and remainders ---

    def _conditions(self, path: Iterable[Condition]) -> Iterable[Condition]:
        for condition in path:
            if condition not in (TRUE, FALSE) and _over_entry(condition):
                yield condition
        invariants = [v for v in self.invariants if v.term.width >= 32 and v.small() and _is_size(v.term)]
        bases = [v for v in self.bases if v.term.width >= 32 and v.small()]
        for v in (*bases, *invariants):
            yield from _bounds(v, self.weaker)
        for v in self.falling:
            yield signed_less(v.term, constant(0, v.term.width))
        for b in bases:
            for start in self.starts.get(b.term, ()):
                values = self._evaluate(start)
                if values is not None and as_constant(start) is None and all(start is not v.term for v in invariants):
                    yield from _order(b, _Values(start, values), self.weaker)
            yield from _remainders(b)
            for v in (*invariants, *(x for x in bases if x is not b)):
                if v.term.width == b.term.width:
                    yield from _order(b, v, self.weaker)
        yield from self._leftovers(bases)

    def _leftovers(self, bases: list[_Values]) -> Iterable[Condition]:
        """About the few trips of a remainder that goes before its main loop, counted down or up to zero: without them
        what is left in all is a multiple; and of three such counts one is the sum of the others but for a few."""
        for r in bases:
            numbers = r.signed()
            falls = all(0 < x < _LONGEST_REMAINDER for x in numbers)
            if not falls and not all(-_LONGEST_REMAINDER < x < 0 for x in numbers):
                continue
            same = [b for b in bases if b is not r and b.term.width == r.term.width]
            combined = _difference if falls else _sum
            for b, left in ((b, combined(b, r)) for b in same):
                yield from _remainders(left)
                yield from _bounds(left, self.weaker)
                for v in same:
                    if v is not b:
                        yield from _narrow(_difference(v, left))


def _sum(a: _Values, b: _Values) -> _Values:
    mask = (1 << a.term.width) - 1
    return _Values(add(a.term, b.term), [(x + y) & mask for x, y in zip(a.values, b.values, strict=True)])


def _difference(a: _Values, b: _Values) -> _Values:
    mask = (1 << a.term.width) - 1
    return _Values(sub(a.term, b.term), [(x - y) & mask for x, y in zip(a.values, b.values, strict=True)])


def _narrow(v: _Values) -> Iterable[Condition]:
    """Both bounds of what varies by a few only, or its value."""
    numbers = v.signed()
    least, greatest, width = min(numbers), max(numbers), v.term.width
    if least == greatest and abs(least) < _LARGEST_STEP:
        yield equal(v.term, constant(least, width))
    elif greatest - least < _LARGEST_STEP and max(-least, greatest) < _LARGEST_STEP:
        yield negation(signed_less(v.term, constant(least, width)))
        yield signed_less(v.term, constant(greatest + 1, width))


def _bounds(v: _Values, weaker: dict[Condition, Condition]) -> Iterable[Condition]:
    numbers = v.signed()
    least, greatest, width = min(numbers), max(numbers), v.term.width
    if least == 0:
        yield negation(signed_less(v.term, constant(0, width)))
    if least > 0:
        strong = negation(signed_less(v.term, constant(min(least, _LARGEST_STEP), width)))
        weaker[strong] = negation(signed_less(v.term, constant(0, width)))
        yield strong
    if greatest < 0:
        yield signed_less(v.term, constant(max(greatest, -_LARGEST_STEP) + 1, width))
    if least == greatest:
        yield equal(v.term, constant(least, width))


def _remainders(v: _Values) -> Iterable[Condition]:
    for modulus in (32, 16, 8, 4, 2):
        found = {x % modulus for x in v.signed()}
        if len(found) == 1:
            low = bitvector.bitwise_and(v.term, constant(modulus - 1, v.term.width))
            yield equal(low, constant(found.pop(), v.term.width))
            return


def _order(b: _Values, v: _Values, weaker: dict[Condition, Condition]) -> Iterable[Condition]:
    difference = _Values(sub(v.term, b.term), [x - y for x, y in zip(v.values, b.values, strict=True)])
    mask = (1 << b.term.width) - 1
    difference.values = [x & mask for x in difference.values]
    numbers = difference.signed()
    least, greatest, width = min(numbers), max(numbers), b.term.width
    if least == 0:
        yield negation(signed_less(v.term, b.term))
    if least > 0:
        weaker[signed_less(b.term, v.term)] = negation(signed_less(v.term, b.term))
        yield signed_less(b.term, v.term)
    if (-64 <= least < 0 or least > 1) and not _of_the_launch(v.term):
        yield negation(signed_less(difference.term, constant(min(least, _LARGEST_STEP), width)))
    if greatest <= 0:
        yield negation(signed_less(b.term, v.term))
    yield from _remainders(difference)


def _is_size(term: Polynomial) -> bool:
    """Whether it can be compared with counters: no truth value and no address."""
    if any("address:" in str(leaf.arguments[0]) for leaf in leaves(term)):
        return False
    return any(a.operation != "bit" for monomial, _ in term.monomials for a in monomial)


def _about_quotients(terms: Iterable[Argument]) -> list[Atom]:
    """Quotients of entry values by unknowns anywhere in the terms, and the 0/1 atoms that ask about one."""
    found: dict[Atom, None] = {}
    done: dict[Argument | Atom, bool] = {}

    def divides(x: Argument | Atom) -> bool:
        if not isinstance(x, (Polynomial, Condition, Atom)):
            return False
        if x in done:
            return done[x]
        done[x] = False
        if isinstance(x, Polynomial):
            inside = [divides(a) for monomial, _ in x.monomials for a in monomial]
        else:
            inside = [divides(y) for y in x.arguments]
        done[x] = any(inside)
        if isinstance(x, Atom) and x.operation == "udiv":
            divisor = x.arguments[1]
            done[x] = isinstance(divisor, Polynomial) and as_constant(divisor) is None
        if isinstance(x, Atom) and done[x] and x.operation in ("udiv", "bit") and _over_entry(of_atom(x)):
            found[x] = None
        return done[x]

    for term in terms:
        divides(term)
    return list(found)


def _of_the_launch(term: Polynomial) -> bool:
    """Made of thread and block numbers alone, of which samples say little."""
    return all(str(leaf.arguments[0]).startswith("special:") for leaf in leaves(term))


def _converted(v: _Values, width: int) -> _Values:
    """A counter seen at another width: sign-extended or cut."""
    own = v.term.width
    if own == width:
        return v
    if own > width:
        return _Values(bitvector.truncate(v.term, width), [x & ((1 << width) - 1) for x in v.values])
    mask = (1 << width) - 1
    return _Values(bitvector.sign_extend(v.term, width), [signed(x, own) & mask for x in v.values])


def _over_entry(term: Polynomial | Condition) -> bool:
    """Whether a term speaks of entry values only, so that it means the same at every node."""
    for leaf in leaves(term):
        match leaf:
            case Memory() if leaf.arguments != (entry.MEMORY,):
                return False
            case Atom() if entry.named(str(leaf.arguments[0]), leaf.width) is None:
                return False
    return True


def _parts(term: Polynomial) -> list[Polynomial]:
    """The entry values of the term's own width that its monomials are products of."""
    found: list[Polynomial] = []
    for monomial, _ in term.monomials:
        for a in monomial:
            if a.operation != "bit":
                found.append(from_monomials(term.width, {(a,): 1}))
    return list(dict.fromkeys(found))
