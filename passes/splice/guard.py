"""Guards: conditions on live-ins that a rewrite asks for, tested in the kernel at the region's entry.

A rewrite asks with comment lines ahead of its text, one condition each, all of which must hold::

    // guard: %in2 >= 0
    // guard: %in4 < 1073741824
    // guard: %in0 multiple of 16
    // guard: %in3 == 4

Comparisons are signed, at the width of the live-in. Where a condition fails, the original region runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hybridcc.errors import SpliceRefused
from hybridcc.passes.facts import Relation
from hybridcc.passes.regions.region import Region
from hybridcc.ptx.nodes import Comment, Guard, Immediate, Instruction, Name
from hybridcc.ptx.source import Source

LINE = re.compile(r"//\s*guard:\s*(.*?)\s*\Z", re.IGNORECASE)
CONDITION = re.compile(r"%in(\d+)\s*(>=|<=|<|==|multiple of)\s*(-?(?:0x[0-9a-fA-F]+|\d+))\Z")
WIDTHS = {".b32": 32, ".u32": 32, ".s32": 32, ".b64": 64, ".u64": 64, ".s64": 64}


@dataclass(frozen=True, slots=True)
class Condition:
    """Live-in number ``port`` stands in ``relation`` to ``value``."""

    port: int
    relation: Relation
    value: int
    width: int

    def __str__(self) -> str:
        return f"%in{self.port} {self.relation.value} {self.value}"


def read_guard(source: Source, comment: Comment, region: Region) -> tuple[Condition, ...]:
    """The condition that a comment asks for; empty for any other comment. Raises SpliceRefused(GUARD)."""
    asked = LINE.match(comment.text)
    if asked is None:
        return ()
    line, column = source.position(comment.span[0])
    where = f"rewrite:{line}:{column}"
    found = CONDITION.match(asked[1])
    if found is None:
        raise SpliceRefused("GUARD", f"this guard cannot be tested: {asked[1]}", where=where)
    port, relation, value = int(found[1]), Relation(found[2]), int(found[3], 0)
    if port >= len(region.live_in):
        raise SpliceRefused("UNKNOWN_PORT", f"the region has no %in{port}", where=where)
    width = WIDTHS.get(region.live_in[port].type)
    if width is None:
        raise SpliceRefused(
            "GUARD", f"%in{port} is {region.live_in[port].type}: only integers can be guarded", where=where
        )
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise SpliceRefused("GUARD", f"{value} does not fit the {width} bits of %in{port}", where=where)
    if relation is Relation.MULTIPLE_OF and (value <= 0 or value & (value - 1)):
        raise SpliceRefused("GUARD", f"{value} is no power of two", where=where)
    if (region.effects.convergent or region.effects.barriers) and not region.live_in[port].uniform:
        raise SpliceRefused(
            "GUARD_NOT_UNIFORM",
            f"the region holds convergent operations, and %in{port} may differ between threads of a block",
            where=where,
        )
    return (Condition(port, relation, value, width),)


FAILS = {Relation.GE: "lt", Relation.LE: "gt", Relation.LT: "ge", Relation.EQ: "ne"}


def test(condition: Condition, register: str, fallback: str, predicate: str, scratch: str) -> list[Instruction]:
    """Instructions that branch to ``fallback`` where the condition fails; ``scratch`` has the live-in's width."""
    if condition.relation is Relation.MULTIPLE_OF:
        masked = Instruction(
            "and", (f".b{condition.width}",), (Name(scratch), Name(register), Immediate(str(condition.value - 1)))
        )
        compare = Instruction("setp", (".ne", f".s{condition.width}"), (Name(predicate), Name(scratch), Immediate("0")))
        before = [masked, compare]
    else:
        before = [
            Instruction(
                "setp",
                (f".{FAILS[condition.relation]}", f".s{condition.width}"),
                (Name(predicate), Name(register), Immediate(str(condition.value))),
            )
        ]
    return [*before, Instruction("bra", (), (Name(fallback),), guard=Guard(predicate))]
