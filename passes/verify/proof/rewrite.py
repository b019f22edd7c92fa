"""Rebuilding terms: substitution for variables, and replacement of conditions that are decided.

A term is rebuilt through the same functions that made it, so the result is in normal form again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hybridcc.passes.verify.proof import bitvector, division, lemmas
from hybridcc.passes.verify.proof.memory import Decide, Separate, load
from hybridcc.passes.verify.proof.terms import (
    FALSE,
    TRUE,
    Argument,
    Atom,
    Condition,
    Memory,
    Monomial,
    Polynomial,
    Term,
    add,
    as_atom,
    atom,
    bit,
    conjunction,
    constant,
    equal,
    from_monomials,
    memory,
    mul,
    negation,
    signed_less,
    unsigned_less,
)


def _amount(n: Argument) -> Polynomial:
    return constant(n, 32) if isinstance(n, int) else n  # type: ignore[return-value]


_BUILDERS: Mapping[str, Callable[..., Polynomial]] = {
    "and": lambda w, a, b: bitvector.bitwise_and(a, constant(b, w) if isinstance(b, int) else b),
    "shl": lambda _, a, n: bitvector.shift_left(a, _amount(n)),
    "lshr": lambda _, a, n: bitvector.shift_right_logical(a, _amount(n)),
    "ashr": lambda _, a, n: bitvector.shift_right_arithmetic(a, _amount(n)),
    "udiv": lambda _, a, b: bitvector.unsigned_quotient(a, b),
    "urem": lambda _, a, b: bitvector.unsigned_remainder(a, b),
    "sdiv": lambda _, a, b: bitvector.signed_quotient(a, b),
    "srem": lambda _, a, b: bitvector.signed_remainder(a, b),
    "trunc": lambda w, a: bitvector.truncate(a, w),
    "sext": lambda w, a: bitvector.sign_extend(a, w),
    "zext": lambda w, a: bitvector.zero_extend(a, w),
    "bit": lambda w, c: bit(c, w),
}


def build(operation: str, arguments: tuple[Argument, ...], width: int) -> Polynomial:
    """The normal form of an operation, whoever asks: substitution or a certificate that is read back."""
    builder = _BUILDERS.get(operation)
    if builder is not None:
        return builder(width, *arguments)
    if lemmas.covers(operation):
        return lemmas.build(operation, arguments, width)
    return atom(operation, arguments, width)


class Rewriter:
    """``atoms``, ``memories`` and ``decide`` say what to replace; results are memoised per instance.

    ``decide`` is asked about each condition that is no negation or conjunction, after its parts were rewritten.
    """

    def __init__(
        self,
        atoms: Mapping[Atom, Polynomial] | None = None,
        memories: Mapping[Memory, Memory] | None = None,
        decide: Decide | None = None,
        separate: Separate | None = None,
    ) -> None:
        self._atoms = atoms or {}
        self._memories = memories or {}
        self._decide = decide
        self._separate = separate
        self._done: dict[Polynomial | Condition | Memory | Atom, Polynomial | Condition | Memory | None] = {}

    def polynomial(self, p: Polynomial) -> Polynomial:
        found = self._done.get(p)
        if isinstance(found, Polynomial):
            return found
        result = self._rebuild(p)
        self._done[p] = result
        return result

    def _rebuild(self, p: Polynomial) -> Polynomial:
        if all(self._atom(a) is None for m, _ in p.monomials for a in m):
            return p
        kept: dict[Monomial, int] = {}
        changed = constant(0, p.width)
        for monomial, coefficient in p.monomials:
            parts = [(a, self._atom(a)) for a in monomial]
            if all(new is None for _, new in parts):
                kept[monomial] = coefficient
                continue
            product = constant(coefficient, p.width)
            rest = tuple(a for a, new in parts if new is None)
            for _, new in parts:
                if new is not None:
                    product = mul(product, new)
            changed = add(changed, mul(product, from_monomials(p.width, {rest: 1})))
        return add(changed, from_monomials(p.width, kept))

    def _atom(self, a: Atom) -> Polynomial | None:
        """The replacement, or None where the atom stays."""
        if a in self._done:
            found = self._done[a]
            assert found is None or isinstance(found, Polynomial)
            return found
        result = self._atoms.get(a)
        if result is None and a.operation != "variable":
            new = tuple(self.argument(x) for x in a.arguments)
            if a.operation == "load":
                at, space, address = new
                result = load(at, space, address, a.width, self._decide, self._separate)  # type: ignore[arg-type]
                if result.monomials == (((a,), 1),):
                    result = None
            elif new != a.arguments:
                result = build(a.operation, new, a.width)
            if self._decide is not None:
                single = a if result is None else as_atom(result)
                result = (division.improved(single, self._decide) if single is not None else None) or result
        self._done[a] = result
        return result

    def argument(self, x: Argument) -> Argument:
        match x:
            case Polynomial():
                return self.polynomial(x)
            case Condition():
                return self.condition(x)
            case Memory():
                return self.memory(x)
            case _:
                return x

    def condition(self, c: Condition) -> Condition:
        found = self._done.get(c)
        if isinstance(found, Condition):
            return found
        result = self._rebuild_condition(c)
        if self._decide is not None and result.kind not in ("true", "false", "not", "and"):
            known = self._decide(result)
            result = result if known is None else (TRUE if known else FALSE)
        self._done[c] = result
        return result

    def _rebuild_condition(self, c: Condition) -> Condition:
        new = tuple(self.argument(x) for x in c.arguments)
        if new == c.arguments:
            return c
        return build_condition(c.kind, new)

    def memory(self, m: Memory) -> Memory:
        found = self._done.get(m)
        if isinstance(found, Memory):
            return found
        result = self._memories.get(m)
        if result is None:
            chain = [m]  # an explicit walk: a chain may be longer than the recursion limit
            while isinstance(chain[-1].arguments[0], Memory) and chain[-1].arguments[0] not in self._done:
                chain.append(chain[-1].arguments[0])
            for link in reversed(chain):
                self._done[link] = self._link(link)
            result = self._done[m]
        assert isinstance(result, Memory)
        self._done[m] = result
        return result

    def _link(self, m: Memory) -> Memory:
        given = self._memories.get(m)
        if given is not None:
            return given
        new = tuple(self.argument(x) for x in m.arguments)
        return m if new == m.arguments else memory(m.kind, *new)


def build_condition(kind: str, arguments: tuple[Argument, ...]) -> Condition:
    match kind, arguments:
        case "not", (Condition() as inner,):
            return negation(inner)
        case "and", (Condition() as left, Condition() as right):
            return conjunction(left, right)
        case "eq", (Polynomial() as p,):
            return equal(p, constant(0, p.width))
        case "slt", (Polynomial() as a, Polynomial() as b):
            return signed_less(a, b)
        case "ult", (Polynomial() as a, Polynomial() as b):
            return unsigned_less(a, b)
        case "predicate", (str() as name, *rest):
            return lemmas.compared(name, tuple(rest))
        case "true", ():
            return TRUE
        case "false", ():
            return FALSE
    raise ValueError(f"no condition of kind {kind} with {len(arguments)} arguments")


def leaves(term: Term) -> frozenset[Atom | Memory]:
    """The variables and initial memories that a term is made of."""
    found: set[Atom | Memory] = set()
    seen: set[Argument | Atom] = set()
    waiting: list[Argument | Atom] = [term]
    while waiting:
        x = waiting.pop()
        if x in seen or not isinstance(x, (Polynomial, Condition, Memory, Atom)):
            continue
        seen.add(x)
        match x:
            case Polynomial():
                waiting += (a for monomial, _ in x.monomials for a in monomial)
            case Atom() if x.operation == "variable":
                found.add(x)
            case Memory() if x.kind == "initial":
                found.add(x)
            case _:
                waiting += x.arguments
    return frozenset(found)
