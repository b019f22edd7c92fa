"""What is known on one path: conditions, and what follows from them.

``holds`` and ``decide`` answer only what the solver showed to be unsatisfiable otherwise; everything else is
"not known". Conditions unconnected with a question are left out of its query, which can only weaken it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hybridcc.passes.verify.proof.bitvector import COMMUTING
from hybridcc.passes.verify.proof.division import divides, instances
from hybridcc.passes.verify.proof.memory import Separate
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.solver import Model, Solver, Symbol, symbols
from hybridcc.passes.verify.proof.terms import (
    FALSE,
    TRUE,
    Argument,
    Atom,
    Condition,
    Memory,
    Polynomial,
    conjunction,
    constant,
    equal,
    from_monomials,
    mul,
    negation,
    of_atom,
    sub,
)

_MODELS_KEPT: Final = 6
_COMMUTATIVE_DEPTH: Final = 200


@dataclass(frozen=True, slots=True)
class _Seen:
    """An assignment under which what is known about these symbols holds: enough to see that a claim does not follow.

    ``whole`` where every condition of the context was asked about.
    """

    model: Model
    about: frozenset[Symbol]
    whole: bool


class Context:
    """A path condition. Immutable but for its caches; ``extended`` makes a stronger one."""

    def __init__(
        self,
        solver: Solver,
        conditions: tuple[Condition, ...] = (),
        separate: Separate | None = None,
    ) -> None:
        self.solver = solver
        self.conditions = conditions
        self.separate = separate
        self._known: dict[Condition, bool | None] = {}
        self._open: set[tuple[Condition, bool]] = set()
        """What was asked for in vain: that a condition is true, or that it is false."""
        self._equal: dict[tuple[Argument, Argument], bool] = {}
        self._models: list[_Seen] = []
        self._contradictory: bool | None = None
        self._rewriter: Rewriter | None = None

    def extended(self, new: Iterable[Condition]) -> Context:
        added = tuple(dict.fromkeys(c for c in new if c is not TRUE and c not in self.conditions))
        if not added:
            return self
        child = Context(self.solver, self.conditions + added, self.separate)
        child._known = {c: known for c, known in self._known.items() if known is not None}
        child._equal = {pair: True for pair, known in self._equal.items() if known}
        about = frozenset().union(*map(symbols, added))
        translated = [self.solver.condition(c) for c in added] if self._models else []
        child._models = [m for m in self._models if about <= m.about and all(map(m.model.truth, translated))]
        return child

    # --- questions ---

    def contradictory(self) -> bool:
        """Whether no state can satisfy the conditions: the path cannot happen."""
        if self._contradictory is None:
            # A model that was seen before did not know the lemmas about what was added since.
            seen = any(m.whole and not divides(m.about) for m in self._models)
            self._contradictory = not seen and self._impossible()
        return self._contradictory

    def _impossible(self) -> bool:
        about = frozenset().union(*map(symbols, self.conditions))
        known = [*self.conditions, *instances(about, self.conditions)]
        return self.solver.check(known, sums=divides(about))[0] == "unsat"

    def holds(self, c: Condition) -> bool:
        """Whether the condition follows."""
        if c is TRUE or c is FALSE:
            return c is TRUE or self.contradictory()
        if c.kind == "and":
            return all(self.holds(x) for x in c.arguments if isinstance(x, Condition))
        return self._follows(c) or (c.kind == "eq" and self._factored(c))

    def _follows(self, c: Condition) -> bool:
        """As ``decide(c) is True``, without the question whether the opposite follows."""
        opposite = c.kind == "not"
        inner = c.arguments[0] if opposite else c
        assert isinstance(inner, Condition)
        if inner not in self._known and (inner, not opposite) not in self._open:
            answer = self._ask(inner, (not opposite,))
            if answer is None:
                self._open.add((inner, not opposite))
            else:
                self._known[inner] = answer
        return self._known.get(inner) is (not opposite)

    def decide(self, c: Condition) -> bool | None:
        """True or False where one follows, None where neither does."""
        if c is TRUE or c is FALSE:
            return c is TRUE
        if c.kind == "not":
            inner = c.arguments[0]
            assert isinstance(inner, Condition)
            known = self.decide(inner)
            return None if known is None else not known
        if c not in self._known:
            claims = tuple(claim for claim in (True, False) if (c, claim) not in self._open)
            self._known[c] = self._ask(c, claims)
        return self._known[c]

    def _ask(self, c: Condition, claims: tuple[bool, ...]) -> bool | None:
        relevant, about, whole = self._relevant(c)
        translated = self.solver.condition(c)
        # A model says nothing about what its query did not speak of.
        models = [m.model for m in self._models if about <= m.about]
        if models and divides(about):
            lemmas = [self.solver.condition(lemma) for lemma in instances(about, [c])]
            models = [m for m in models if all(map(m.truth, lemmas))]
        seen = {m.truth(translated) for m in models}
        for claim in claims:
            if (not claim) in seen:
                continue
            opposite = negation(c) if claim else c
            answer, model = self.solver.check([*relevant, opposite], sums=divides(about))
            if answer == "unsat":
                return claim
            if model is not None:
                seen.add(model.truth(translated))
                self._models = [_Seen(model, about, whole), *self._models[: _MODELS_KEPT - 1]]
        return None

    def _relevant(self, c: Condition) -> tuple[list[Condition], frozenset[Symbol], bool]:
        """The conditions that a question is connected with, and the lemmas about what they speak of."""
        reached = set(symbols(c))
        waiting = list(self.conditions)
        found: list[Condition] = []
        lemmas: dict[Condition, None] = {}
        grew = True
        while grew:
            grew, rest = False, []
            for other in waiting:
                about = symbols(other)
                if not about or not reached.isdisjoint(about):
                    found.append(other)
                    reached |= about
                    grew = True
                else:
                    rest.append(other)
            waiting = rest
            for lemma in instances(frozenset(reached), [c]):
                if lemma not in lemmas:
                    lemmas[lemma] = None
                    reached |= symbols(lemma)
                    grew = True
        return [*found, *lemmas], frozenset(reached), not waiting

    def _factored(self, c: Condition) -> bool:
        """``p == 0`` for a nonlinear p: peel ``u * L`` off while the solver shows ``L == 0``."""
        p = c.arguments[0]
        assert isinstance(p, Polynomial)
        start = p
        peeled = True
        while peeled and p.monomials:
            peeled = False
            for u in _common_factors(p):
                linear = _cofactor(p, u)
                if len(linear.monomials) > 1 and self.holds(equal(linear, constant(0, p.width))):
                    p, peeled = sub(p, mul(linear, of_atom(u))), True
                    break
        if p is start:
            return False
        rest = equal(p, constant(0, p.width))
        return rest is TRUE or self._follows(rest)

    # --- terms ---

    @property
    def rewriter(self) -> Rewriter:
        """Replaces every condition inside a term that is decided here, and every variable that has one value here."""
        if self._rewriter is None:
            self._rewriter = Rewriter(self._fixed(), decide=self.decide, separate=self.separate)
        return self._rewriter

    def _fixed(self) -> dict[Atom, Polynomial]:
        """Variables that a condition says the value of: with a stride of 1, an index times a stride is linear."""
        found: dict[Atom, Polynomial] = {}
        for condition in self.conditions:
            p = condition.arguments[0] if condition.kind == "eq" else None
            if not isinstance(p, Polynomial):
                continue
            parts = dict(p.monomials)
            offset = parts.pop((), 0)
            for monomial, coefficient in parts.items() if len(parts) == 1 else ():
                single = len(monomial) == 1 and monomial[0].operation == "variable"
                if single and coefficient in (1, (1 << p.width) - 1):  # a + c == 0, or c - a == 0
                    found[monomial[0]] = constant(-offset if coefficient == 1 else offset, p.width)
        return found

    def simplified(self, p: Polynomial) -> Polynomial:
        return self.rewriter.polynomial(p)

    def same(self, x: Argument, y: Argument) -> bool:
        """Whether two terms are equal wherever the conditions hold."""
        if x is y:
            return True
        key = (x, y)
        if key not in self._equal:
            self._equal[key] = self._same(x, y)
        return self._equal[key]

    def _same(self, x: Argument, y: Argument) -> bool:
        match x, y:
            case Polynomial(), Polynomial():
                return x.width == y.width and self._same_polynomial(x, y)
            case Condition(), Condition():
                return self._same_condition(x, y)
            case Memory(), Memory():
                return x.kind == y.kind and self._same_arguments(x.arguments, y.arguments)
            case _:
                return x == y

    def _same_polynomial(self, x: Polynomial, y: Polynomial) -> bool:
        x, y = self.simplified(x), self.simplified(y)
        difference = sub(x, y)
        for _ in range(_COMMUTATIVE_DEPTH):
            if not difference.monomials:
                return True
            merged = self._merge_once(difference)
            if merged is None:
                break
            difference = merged
        return self.holds(equal(difference, constant(0, difference.width)))

    def _merge_once(self, p: Polynomial) -> Polynomial | None:
        """Replace one uninterpreted atom by another that congruence makes equal to it."""
        opaque: list[Atom] = []
        for monomial, _ in p.monomials:
            opaque += [a for a in monomial if a.operation not in _INTERPRETED and a not in opaque]
        for i, a in enumerate(opaque):
            for b in opaque[:i]:
                if a.operation == b.operation and a.width == b.width and self._congruent(a, b):
                    return Rewriter(atoms={a: of_atom(b)}).polynomial(p)
        return None

    def _congruent(self, a: Atom, b: Atom) -> bool:
        if self._same_arguments(a.arguments, b.arguments):
            return True
        if not a.operation.startswith(COMMUTING):
            return False
        first, second, *rest = b.arguments
        return self._same_arguments(a.arguments, (second, first, *rest))

    def _same_arguments(self, xs: tuple[Argument, ...], ys: tuple[Argument, ...]) -> bool:
        return len(xs) == len(ys) and all(self.same(x, y) for x, y in zip(xs, ys, strict=True))

    def _same_condition(self, x: Condition, y: Condition) -> bool:
        x, y = self.rewriter.condition(x), self.rewriter.condition(y)
        if x is y:
            return True
        if x.kind == y.kind == "not":
            return self.same(x.arguments[0], y.arguments[0])
        if x.kind == y.kind == "predicate" and self._same_arguments(x.arguments, y.arguments):
            return True
        return self.holds(negation(conjunction(x, negation(y)))) and self.holds(negation(conjunction(y, negation(x))))


_INTERPRETED: Final = frozenset(
    ("variable", "bit", "and", "shl", "lshr", "ashr", "udiv", "urem", "sdiv", "srem", "sext", "zext", "trunc")
)


def _common_factors(p: Polynomial) -> list[Atom]:
    """Atoms of nonlinear monomials, those in most monomials first."""
    counts: dict[Atom, int] = {}
    for monomial, _ in p.monomials:
        if len(monomial) > 1:
            for a in dict.fromkeys(monomial):
                counts[a] = counts.get(a, 0) + 1
    return sorted(counts, key=lambda a: (-counts[a], a.index))


def _cofactor(p: Polynomial, u: Atom) -> Polynomial:
    """``L`` of ``p == u * L + rest``, from the monomials in which ``u`` stands once."""
    parts = {
        tuple(a for a in monomial if a is not u): coefficient
        for monomial, coefficient in p.monomials
        if monomial.count(u) == 1
    }
    return from_monomials(p.width, parts)
