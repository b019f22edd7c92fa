"""What holds of division by an unknown, and of products of unknowns, said to the solver as linear conditions.

The solver sees a product of unknowns and a quotient by an unknown as free constants. ``instances`` gives it the
conditions below about those that a question is about. Each is true of every value (tests/proof/test_division.py
shows it for all values at 8 bits), so it may be added to any question. For ``q = a udiv b``, unsigned:

* b != 0 gives q*b <= a, a - q*b < b and q <= a: the definition of the quotient, and that q*b does not wrap.
* b != 0 and u <= q give u*b <= q*b, and u >= 1 then gives b <= u*b: none of the products wraps, as q*b does not, and
  without wrapping a product grows with its factors. With u < q also u*b <= u*b + b <= q*b.
* u == 0 gives u*b == 0, u == q gives u*b == q*b and u == q + 1 gives u*b == q*b + b, whatever wraps.

For a product whose factors' bounds show that it does not wrap: if no factor is 0, the product is at least as great
as each factor.

``improved`` brings division under a path's conditions into one form; what each rule needs to know stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hybridcc.passes.verify.proof.bitvector import unsigned_quotient, unsigned_remainder, zero_extend
from hybridcc.passes.verify.proof.solver import Symbol
from hybridcc.passes.verify.proof.terms import (
    TRUE,
    Atom,
    Condition,
    Monomial,
    Polynomial,
    add,
    as_constant,
    conjunction,
    constant,
    equal,
    from_monomials,
    mul,
    negation,
    of_atom,
    signed,
    signed_less,
    sub,
    unsigned_less,
)

Decide = Callable[[Condition], bool | None]


def implies(c: Condition, then: Condition) -> Condition:
    return negation(conjunction(c, negation(then)))


def at_most(a: Polynomial, b: Polynomial) -> Condition:
    return negation(unsigned_less(b, a))


def quotient_lemmas(a: Polynomial, b: Polynomial) -> tuple[Condition, ...]:
    q = unsigned_quotient(a, b)
    whole = mul(q, b)
    nonzero = negation(equal(b, constant(0, b.width)))
    return (
        implies(nonzero, at_most(whole, a)),
        implies(nonzero, unsigned_less(sub(a, whole), b)),
        implies(nonzero, at_most(q, a)),
    )


def multiple_lemmas(a: Polynomial, b: Polynomial, u: Polynomial) -> tuple[Condition, ...]:
    """About ``u * b`` beside the quotient of a and b."""
    q, width = unsigned_quotient(a, b), b.width
    whole, part = mul(q, b), mul(u, b)
    zero, one = constant(0, width), constant(1, width)
    nonzero = negation(equal(b, zero))
    within = conjunction(nonzero, at_most(u, q))
    below = conjunction(nonzero, unsigned_less(u, q))
    return (
        implies(within, at_most(part, whole)),
        implies(conjunction(within, at_most(one, u)), at_most(b, part)),
        implies(below, at_most(add(part, b), whole)),
        implies(below, at_most(part, add(part, b))),
        implies(equal(u, zero), equal(part, zero)),
        implies(equal(u, q), equal(part, whole)),
        implies(equal(u, add(q, one)), equal(part, add(whole, b))),
    )


def product_lemmas(factors: Monomial) -> tuple[Condition, ...]:
    """About a product that cannot wrap; nothing about one that may."""
    width, greatest = factors[0].width, 1
    for a in factors:
        greatest *= a.bound
    if greatest >> width:
        return ()
    product = from_monomials(width, {factors: 1})
    positive = TRUE
    for a in dict.fromkeys(factors):
        positive = conjunction(positive, negation(equal(of_atom(a), constant(0, width))))
    return tuple(implies(positive, at_most(of_atom(a), product)) for a in dict.fromkeys(factors))


def instances(about: frozenset[Symbol], questions: Iterable[Condition] = ()) -> tuple[Condition, ...]:
    """The lemmas about the quotients and products among ``about``, trivial ones left out.

    What a divisor is multiplied with in ``questions`` is compared with its quotient as a whole: of an index
    ``i0 + trips*stride`` that is the number of trips, however it is made up.
    """
    products = [s for s in about if isinstance(s, tuple)]
    found: list[Condition] = []
    for p in products:
        found += product_lemmas(p)
    for q in _quotients(about):
        a, b = q.arguments
        assert isinstance(a, Polynomial)
        assert isinstance(b, Polynomial)
        found += quotient_lemmas(a, b)
        if len(b.monomials) == 1 and b.monomials[0][1] == 1:
            divisor = b.monomials[0][0]
            sums = [from_monomials(q.width, {p: 1}) for p in products if p[0].width == q.width]
            sums += [p for p in _sums(questions) if p.width == q.width]
            cofactors = (_cofactor(p, divisor) for p in sums)
            for u in dict.fromkeys(u for u in cofactors if as_constant(u) is None):
                found += multiple_lemmas(a, b, u)
    return tuple(dict.fromkeys(c for c in found if c is not TRUE))


def _sums(conditions: Iterable[Condition]) -> Iterator[Polynomial]:
    """The terms that conditions compare."""
    for c in conditions:
        inner = c.arguments[0] if c.kind == "not" else c
        assert isinstance(inner, Condition)
        for x in inner.arguments:
            if isinstance(x, Polynomial):
                yield x


def divides(about: frozenset[Symbol]) -> bool:
    """Whether a quotient by an unknown is among the symbols."""
    return bool(_quotients(about))


def _quotients(about: frozenset[Symbol]) -> list[Atom]:
    factors = (a for s in about for a in (s if isinstance(s, tuple) else (s,)))
    return list(dict.fromkeys(a for a in factors if isinstance(a, Atom) and _by_an_unknown(a)))


def _by_an_unknown(a: Atom) -> bool:
    return a.operation == "udiv" and isinstance(a.arguments[1], Polynomial) and as_constant(a.arguments[1]) is None


def _cofactor(p: Polynomial, divisor: Monomial) -> Polynomial:
    """``u`` of ``p == u * divisor + rest``."""
    parts: dict[Monomial, int] = {}
    for monomial, coefficient in p.monomials:
        rest = list(monomial)
        for a in divisor:
            if a not in rest:
                break
            rest.remove(a)
        else:
            parts[tuple(rest)] = coefficient
    return from_monomials(p.width, parts)


# --- rules for terms --------------------------------------------------------------------------------------


def improved(a: Atom, decide: Decide) -> Polynomial | None:
    """Division in its simplest form where ``decide`` knows enough: unsigned, wide, a remainder by its quotient."""
    match a.operation:
        case "sdiv" | "srem" | "urem":
            return _unsigned(a, decide)
        case "zext":
            return _narrow(a, decide)
    return None


def _unsigned(a: Atom, decide: Decide) -> Polynomial | None:
    """For a divisor that is not 0 and operands that are not negative (which ``urem`` need not ask)."""
    x, y = a.arguments
    assert isinstance(x, Polynomial)
    assert isinstance(y, Polynomial)
    zero = constant(0, a.width)
    if decide(equal(y, zero)) is not False:
        return None
    if a.operation != "urem" and not all(decide(signed_less(z, zero)) is False for z in (x, y)):
        return None
    q = unsigned_quotient(x, y)
    if a.operation == "sdiv":
        return q
    return sub(x, mul(q, y)) if as_constant(y) is None else unsigned_remainder(x, y)


def _narrow(a: Atom, decide: Decide) -> Polynomial | None:
    """``zext(p)`` for a p with quotients in it: P, if P is p modulo 2^n for p's n bits and P is below 2^n."""
    p = a.arguments[0]
    assert isinstance(p, Polynomial)
    if not any(_divides(factor) for monomial, _ in p.monomials for factor in monomial):
        return None
    wide = _widened(p, a.width, decide)
    return wide if wide is not None and _below(wide, p.width, decide) else None


def _divides(a: Atom) -> bool:
    return a.operation == "udiv"


def _below(p: Polynomial, bits: int, decide: Decide) -> bool:
    return decide(unsigned_less(p, constant(1 << bits, p.width))) is True


def _widened(p: Polynomial, width: int, decide: Decide) -> Polynomial | None:
    """A polynomial of ``width`` bits that is p modulo 2^(p's width): sums and products go through."""
    total = constant(0, width)
    for monomial, coefficient in p.monomials:
        product = constant(signed(coefficient, p.width), width)
        for factor in monomial:
            wide = _widened_atom(factor, width, decide)
            if wide is None:
                return None
            product = mul(product, wide)
        total = add(total, product)
    return total


def _widened_atom(a: Atom, width: int, decide: Decide) -> Polynomial | None:
    inner = a.arguments[0]
    if a.operation == "trunc" and isinstance(inner, Polynomial) and inner.width == width:
        return inner
    if not _divides(a):
        return zero_extend(of_atom(a), width)
    operands = [_widened(x, width, decide) for x in a.arguments if isinstance(x, Polynomial)]
    if len(operands) != 2 or any(x is None or not _below(x, a.width, decide) for x in operands):
        return None
    x, y = (z for z in operands if z is not None)
    if decide(equal(y, constant(0, width))) is not False:
        return None
    return unsigned_quotient(x, y)
