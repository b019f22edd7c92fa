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
    equal,
    negation,
    signed_less,
)


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
    itself, and disjointness is not used yet: each is set aside, which can only make a proof harder.
    """
    conditions = list(entry.launch_conditions())
    used: list[f.Fact] = []
    aside: list[str] = []
    for fact in facts:
        condition = None
        if fact.origin in (f.Origin.ISA, f.Origin.FRONTEND, f.Origin.DECLARED):
            condition = _condition(fact, parameter_widths)
        if condition is None:
            aside.append(str(fact))
        else:
            conditions.append(condition)
            used.append(fact)
    words = tuple(f"{fact} ({fact.origin.value})" for fact in used)
    return Premises(tuple(dict.fromkeys(conditions)), None, tuple(used), words, tuple(aside))


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
