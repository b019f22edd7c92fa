"""What a proof may take for granted: the hardware's limits and the kernel's facts, as conditions on entry values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hybridcc.passes import facts as f
from hybridcc.passes.verify.proof import bitvector, entry
from hybridcc.passes.verify.proof.memory import Separate
from hybridcc.passes.verify.proof.terms import (
    Condition,
    Polynomial,
    constant,
    disjunction,
    equal,
    negation,
    scale,
    signed_less,
    sub,
    unsigned_less,
)

CARRYING = frozenset({f.Origin.ISA, f.Origin.FRONTEND, f.Origin.DECLARED})


@dataclass(frozen=True, slots=True)
class Premises:
    """``used`` says each fact in words, for the verdict; ``set_aside`` names the facts that were of no use here."""

    conditions: tuple[Condition, ...]
    separate: Separate | None = None
    facts: tuple[f.Fact, ...] = ()
    """Those that the conditions came from: sampling keeps to them."""
    used: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


def premises(facts: Iterable[f.Fact], parameter_widths: tuple[int, ...]) -> Premises:
    """The launch limits and those facts that speak of parameters and special registers.

    A fact about a region's inputs is no premise of a whole kernel, an ``invariant`` is for the prover to find
    itself, and a ``guard`` is on the path where it was tested. Two arrays that are called disjoint without a word
    on where they end give nothing either, since an index may be out of bounds. Each of these is set aside, which
    can only make a proof harder.
    """
    conditions = list(entry.launch_conditions())
    used: list[f.Fact] = []
    aside: list[str] = []
    for fact in facts:
        implied = _conditions(fact, parameter_widths) if fact.origin in CARRYING else ()
        if implied:
            conditions += implied
            used.append(fact)
        else:
            aside.append(str(fact))
    words = tuple(f"{fact} ({fact.origin.value})" for fact in used)
    return Premises(tuple(dict.fromkeys(conditions)), None, tuple(used), words, tuple(aside))


def _conditions(fact: f.Fact, widths: tuple[int, ...]) -> tuple[Condition, ...]:
    """What a fact says of entry values; empty if that is nothing that is understood here."""
    match fact:
        case f.Fact(f.Bytes() as left, f.Relation.DISJOINT, f.Bytes() as right, place=""):
            return _apart(left, right, widths)
        case f.Fact(place=""):
            condition = _condition(fact, widths)
            return () if condition is None else (condition,)
        case _:
            return ()


def _apart(left: f.Bytes, right: f.Bytes, widths: tuple[int, ...]) -> tuple[Condition, ...]:
    """Neither range holds the other's first byte, on the circle of addresses. Nothing is said of empty ranges."""
    ends = [(_value(r.start, widths), _value(r.count, widths), r.size) for r in (left, right)]
    (p, n, size), (q, m, other) = ends
    if p is None or q is None or n is None or m is None or min(size, other) < 1:
        return ()
    nothing = disjunction(equal(scale(n, size), constant(0, 64)), equal(scale(m, other), constant(0, 64)))
    after = negation(unsigned_less(sub(q, p), scale(n, size)))
    before = negation(unsigned_less(sub(p, q), scale(m, other)))
    return disjunction(nothing, after), disjunction(nothing, before)


def _condition(fact: f.Fact, widths: tuple[int, ...]) -> Condition | None:
    left = _value(fact.left, widths)
    right = None if fact.right is None else _value(fact.right, widths)
    if left is None or right is None:
        return None
    match fact.relation:
        case f.Relation.EQ:
            return equal(left, right)
        case f.Relation.GE:
            return negation(signed_less(left, right))
        case f.Relation.LE:
            return negation(signed_less(right, left))
        case f.Relation.LT:
            return signed_less(left, right)
        case f.Relation.MULTIPLE_OF if isinstance(fact.right, int) and fact.right.bit_count() == 1 and fact.right > 0:
            return equal(bitvector.unsigned_remainder(left, right), constant(0, 64))
        case _:
            return None


def _value(term: f.Term, widths: tuple[int, ...]) -> Polynomial | None:
    """64 bits. A narrower parameter has no sign that the fact would tell, so it is left alone."""
    match term:
        case f.Parameter(index, _) if index < len(widths) and widths[index] == 64:
            return entry.parameter(index, 0, 64)
        case f.Special(name):
            try:
                return bitvector.zero_extend(entry.special(name), 64)
            except entry.UnknownSpecialRegister:
                return None
        case int():
            return constant(term, 64)
        case _:
            return None
