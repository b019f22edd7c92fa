"""What is known to hold at a kernel's or a region's entry, and on whose word.

The origin decides what may rest on a fact: ``isa`` and ``frontend`` facts and established ``invariant``s carry a
proof by themselves; a ``guard`` holds only where the kernel itself tests it; a ``declared`` fact is the user's
promise and is named in every verdict that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    ISA = "isa"
    FRONTEND = "frontend"
    INVARIANT = "invariant"
    GUARD = "guard"
    DECLARED = "declared"


class Relation(StrEnum):
    EQ = "=="
    GE = ">="
    LE = "<="
    LT = "<"
    MULTIPLE_OF = "multiple of"
    DISJOINT = "disjoint from"
    READ_ONLY = "not written by this launch"


@dataclass(frozen=True, slots=True)
class Parameter:
    """The kernel's PTX parameter number ``index`` (from 0), with the name a person would use: ``x.shape[0]``."""

    index: int
    label: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register without its percent sign: ``tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class RegionInput:
    """The region's live-in number ``index`` (``%in<index>``)."""

    index: int


Term = Parameter | Special | RegionInput | int


@dataclass(frozen=True, slots=True)
class Fact:
    """``left relation right``, signed 64-bit where it compares; right is None for READ_ONLY."""

    left: Term
    relation: Relation
    right: Term | None
    origin: Origin

    def __str__(self) -> str:
        right = "" if self.right is None else f" {_show(self.right)}"
        return f"{_show(self.left)} {self.relation.value}{right}"


def _show(term: Term) -> str:
    match term:
        case Parameter(_, label):
            return label
        case Special(name):
            return f"%{name}"
        case RegionInput(index):
            return f"%in{index}"
        case int():
            return str(term)
