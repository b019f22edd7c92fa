"""Loads and stores over memory terms.

One chain of stores holds every state space, each store with its space, so the order of all writes is kept.
A load looks through stores that provably touch other bytes; otherwise it is an atom over the memory it reads,
which makes two loads equal exactly when they read the same address of the same memory.

Between two effects of a thread a location changes only by that thread's own stores: this is the assumption
that weak accesses race with no other thread, which PTX's memory model (ISA 8.10.1) lets a compiler make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hybridcc.passes.verify.proof.terms import (
    Condition,
    Memory,
    Polynomial,
    add,
    as_constant,
    atom,
    constant,
    equal,
    memory,
    sub,
)

Decide: TypeAlias = Callable[[Condition], bool | None]
"""Whether a condition is known to hold (True), to fail (False), or neither (None)."""

Separate: TypeAlias = Callable[[Polynomial, Polynomial], bool]
"""Whether two addresses belong to allocations that a fact declares disjoint."""

GENERIC = "generic"


def initial(name: str) -> Memory:
    return memory("initial", name)


def store(before: Memory, space: str, address: Polynomial, value: Polynomial) -> Memory:
    """``value`` is a whole number of bytes wide."""
    return memory("store", before, space, address, value)


def effect(before: Memory, name: str, operands: tuple[Polynomial | Condition, ...]) -> Memory:
    return memory("effect", before, name, *operands)


def load(
    before: Memory,
    space: str,
    address: Polynomial,
    width: int,
    decide: Decide | None = None,
    separate: Separate | None = None,
) -> Polynomial:
    """The ``width`` bits at ``address``."""
    at = before
    while at.kind == "store":
        earlier, stored_space, stored_address, value = at.arguments
        assert isinstance(earlier, Memory)
        assert isinstance(stored_space, str)
        assert isinstance(stored_address, Polynomial)
        assert isinstance(value, Polynomial)
        if space == stored_space and address is stored_address and value.width == width:
            return value
        if not _apart(space, address, width, stored_space, stored_address, value.width, decide, separate):
            break
        at = earlier
    return atom("load", (at, space, address), width)


def _apart(
    space: str,
    address: Polynomial,
    width: int,
    stored_space: str,
    stored_address: Polynomial,
    stored_width: int,
    decide: Decide | None,
    separate: Separate | None,
) -> bool:
    """Whether a load and a store certainly touch no common byte."""
    if space != stored_space:
        return GENERIC not in (space, stored_space)
    if address.width != stored_address.width:
        return False
    if separate is not None and separate(address, stored_address):
        return True
    distance = sub(stored_address, address)
    value = as_constant(distance)
    size = 1 << address.width
    if value is not None:
        return value >= width // 8 and size - value >= stored_width // 8
    if decide is None:
        return False
    return all(
        decide(equal(add(distance, constant(k, address.width)), constant(0, address.width))) is False
        for k in sorted(range(1 - width // 8, stored_width // 8), key=abs)
    )
