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


@dataclass(frozen=True, slots=True)
class RegionValue:
    """A register as the region's canonical text names it: ``%t3``, ``%out0``."""

    name: str


@dataclass(frozen=True, slots=True)
class Bytes:
    """The ``count * size`` bytes from the address ``start`` upwards; ``count`` is unsigned."""

    start: Parameter
    count: Parameter | int
    size: int = 1


@dataclass(frozen=True, slots=True)
class Sum:
    """``constant`` plus each part times its factor, modulo 2^64."""

    parts: tuple[tuple[int, Parameter | Special | RegionInput | RegionValue], ...]
    constant: int = 0


Term = Parameter | Special | RegionInput | RegionValue | Bytes | Sum | int


@dataclass(frozen=True, slots=True)
class Fact:
    """``left relation right``, signed 64-bit where it compares; right is None for READ_ONLY.

    ``place`` is "" for the kernel's or the region's entry, else the label of the region's canonical text at which
    the fact holds whenever control passes it.
    """

    left: Term
    relation: Relation
    right: Term | None
    origin: Origin
    place: str = ""

    def __str__(self) -> str:
        right = "" if self.right is None else f" {_show(self.right)}"
        where = f"at {self.place}: " if self.place else ""
        return f"{where}{_show(self.left)} {self.relation.value}{right}"


def _show(term: Term) -> str:
    match term:
        case Parameter(_, label):
            return label
        case Special(name):
            return f"%{name}"
        case RegionInput(index):
            return f"%in{index}"
        case RegionValue(name):
            return name
        case Bytes(start, count, size):
            return f"{_show(start)}[{_show(count)}{'' if size == 1 else f' * {size}'}]"
        case Sum(parts, constant):
            shown = [_scaled(factor, _show(part)) for factor, part in parts]
            shown += [str(constant)] if constant or not parts else []
            return " + ".join(shown).replace("+ -", "- ")
        case int():
            return str(term)


def _scaled(factor: int, name: str) -> str:
    return {1: name, -1: f"-{name}"}.get(factor, f"{factor} * {name}")
