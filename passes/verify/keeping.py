"""Whether a launch keeps the facts that a verdict may rest on: one that breaks them shows nothing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np

from hybridcc.passes.arguments import flatten
from hybridcc.passes.facts import Fact, Parameter, Relation, Special, Term
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, buffer_of


def keeps(launch: Launch, kernel: Kernel, facts: Iterable[Fact]) -> bool:
    """False where a fact does not hold for some thread, and where nobody can say."""
    flat = flatten(kernel.arguments, launch.values)
    return all(_holds(fact, launch, flat) for fact in facts)


def _holds(fact: Fact, launch: Launch, flat: list[object]) -> bool:
    if fact.relation is Relation.DISJOINT:
        return _disjoint(fact.left, fact.right, flat)
    if fact.right is None:
        return False
    pairs = product(_values(fact.left, launch, flat), _values(fact.right, launch, flat))
    found = [_compare(left, fact.relation, right) for left, right in pairs]
    return bool(found) and all(found)


def _compare(left: int, relation: Relation, right: int) -> bool:
    match relation:
        case Relation.EQ:
            return left == right
        case Relation.GE:
            return left >= right
        case Relation.LE:
            return left <= right
        case Relation.LT:
            return left < right
        case Relation.MULTIPLE_OF:
            return right != 0 and left % right == 0
        case _:
            return False


def _values(term: Term, launch: Launch, flat: list[object]) -> tuple[int, ...]:
    """Signed; for a thread's or a block's index the first and the last. None at all for what has no number here."""
    match term:
        case int():
            return (term,)
        case Special(name):
            register, _, axis = name.partition(".")
            if axis not in ("x", "y", "z"):
                return ()
            sizes = launch.block if register in ("tid", "ntid") else launch.grid
            size = sizes["xyz".index(axis)]
            return {"tid": (0, size - 1), "ctaid": (0, size - 1), "ntid": (size,), "nctaid": (size,)}.get(register, ())
        case Parameter(index, _) if index < len(flat):
            value = flat[index]
            if isinstance(value, np.ndarray):
                return (value.__array_interface__["data"][0],)
            if isinstance(value, np.integer):
                bits = 8 * value.itemsize
                number = int(value) & ((1 << bits) - 1)
                return (number - (1 << bits) if number >> (bits - 1) else number,)
            return ()
        case _:
            return ()


def _disjoint(left: Term, right: Term | None, flat: list[object]) -> bool:
    match left, right:
        case Parameter(i, _), Parameter(j, _) if max(i, j) < len(flat):
            one, two = flat[i], flat[j]
            return isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and buffer_of(one) is not buffer_of(two)
        case _:
            return False
