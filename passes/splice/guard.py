"""Guards: conditions that a rewrite asks for, tested in the kernel at the region's entry.

A rewrite asks with comment lines ahead of its text, one condition each, all of which must hold::

    // guard: %in2 >= 0
    // guard: %in4 < 1073741824
    // guard: %in0 + 4 * %in2 multiple of 16
    // guard: %in3 == 4
    // guard: %in5 == 0f3F800000
    // guard: %in1 <= %in6
    // guard: %ntid.x multiple of 32
    // guard: %ntid.x * %nctaid.x < 2147483648
    // guard: %in0[4 * %in4] disjoint from %in1[4 * %in4]

A side is a sum of products of integers, live-ins and ``%tid %ntid %ctaid %nctaid``, modulo 2^64: narrower live-ins
are taken with their sign, special registers without. Comparisons are signed. A floating-point live-in can be
compared for equality with a constant, bit for bit. ``p[n]`` is the n bytes from address p upwards, n unsigned;
two such ranges are disjoint if neither holds the first byte of the other, so nothing is said of empty ones but
that they do not begin inside the other. Where a condition fails, the original region runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from hybridcc.errors import SpliceRefused
from hybridcc.passes.facts import Relation
from hybridcc.passes.regions.region import Region
from hybridcc.ptx.nodes import Comment
from hybridcc.ptx.source import Source

LINE: Final = re.compile(r"//\s*guard:\s*(.*?)\s*\Z", re.IGNORECASE)
WIDTHS: Final = {".b32": 32, ".u32": 32, ".s32": 32, ".b64": 64, ".u64": 64, ".s64": 64}
FLOATS: Final = {".f32": 32, ".f64": 64}
UNIFORM: Final = frozenset({"%ntid", "%ctaid", "%nctaid"})
"""Special registers that all threads of a block agree on."""

_TOKEN = re.compile(
    r"\s*(?:(?P<port>%in\d+)|(?P<special>%(?:tid|ntid|ctaid|nctaid)\.[xyz])"
    r"|(?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b)|(?P<number>0x[0-9a-fA-F]+|\d+)|(?P<relation>>=|<=|<|==|multiple\s+of\b|disjoint\s+from\b)|(?P<sign>[-+*\[\]]))\s*"
)
_MOST_OPERATIONS: Final = 12


@dataclass(frozen=True, slots=True)
class Product:
    """``factor`` times every live-in (``%in2``) and special register (``%ntid.x``) of ``names``."""

    factor: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.names and abs(self.factor) == 1:
            return ("-" if self.factor < 0 else "") + " * ".join(self.names)
        return " * ".join([str(self.factor), *self.names])


Sum: TypeAlias = tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``width`` is that of the only live-in on the left where the right is a number, else 64."""

    left: Sum
    relation: Relation
    right: Sum
    width: int = 64

    def __str__(self) -> str:
        return f"{_shown(self.left)} {self.relation.value} {_shown(self.right)}"


@dataclass(frozen=True, slots=True)
class SameBits:
    """A floating-point live-in holds exactly the bits of the constant ``text``."""

    name: str
    text: str
    width: int

    def __str__(self) -> str:
        return f"{self.name} == {self.text}"


@dataclass(frozen=True, slots=True)
class Apart:
    """Two ranges of bytes: address and length of each."""

    left: Sum
    left_bytes: Sum
    right: Sum
    right_bytes: Sum

    def __str__(self) -> str:
        first, second = _shown(self.left), _shown(self.right)
        return f"{first}[{_shown(self.left_bytes)}] {Relation.DISJOINT.value} {second}[{_shown(self.right_bytes)}]"


Condition: TypeAlias = Comparison | SameBits | Apart


def _shown(side: Sum) -> str:
    return " + ".join(map(str, side)).replace("+ -", "- ")


def read_guard(source: Source, comment: Comment, region: Region) -> tuple[Condition, ...]:
    """The condition that a comment asks for; empty for any other comment.

    Raises SpliceRefused: GUARD, UNKNOWN_PORT, GUARD_NOT_UNIFORM.
    """
    asked = LINE.match(comment.text)
    if asked is None:
        return ()
    line, column = source.position(comment.span[0])
    return (_Reader(asked[1], region, f"rewrite:{line}:{column}").condition(),)


class _Reader:
    """One condition, read from left to right."""

    def __init__(self, text: str, region: Region, where: str) -> None:
        self.text, self.region, self.where = text, region, where
        self.tokens = self._tokens()
        self.at = 0

    def condition(self) -> Condition:
        found = self._condition()
        if self.at < len(self.tokens):
            raise self._untestable()
        return found

    def _condition(self) -> Condition:
        left = self._sum()
        if self._take("["):
            return self._apart(left)
        relation = self._relation()
        if relation is Relation.EQ and self._kind() == "float":
            return self._same_bits(left)
        right = self._sum()
        self._only_integers(left, right)
        number = right[0].factor if len(right) == 1 and not right[0].names else None
        if relation is Relation.MULTIPLE_OF:
            if number is None or number <= 0 or number & (number - 1):
                raise self._refused(f"{_shown(right)} is no power of two")
        elif relation is Relation.DISJOINT:
            raise self._untestable()
        alone = left[0].names[0] if len(left) == 1 and left[0].factor == 1 and len(left[0].names) == 1 else ""
        width = (width_of(alone, self.region) or 64) if alone.startswith("%in") and number is not None else 64
        if number is not None and not -(1 << (width - 1)) <= number < 1 << (width - 1):
            raise self._refused(f"{number} does not fit the {width} bits of {alone or 'the sum'}")
        return Comparison(left, relation, right, width)

    def _apart(self, left: Sum) -> Apart:
        left_bytes = self._sum()
        if not self._take("]") or self._relation() is not Relation.DISJOINT:
            raise self._untestable()
        right = self._sum()
        if not self._take("["):
            raise self._untestable()
        right_bytes = self._sum()
        if not self._take("]"):
            raise self._untestable()
        self._only_integers(left, left_bytes, right, right_bytes)
        return Apart(left, left_bytes, right, right_bytes)

    def _same_bits(self, left: Sum) -> SameBits:
        name = left[0].names[0] if len(left) == 1 and len(left[0].names) == 1 else ""
        if left != (Product(1, (name,)),) or not name.startswith("%in"):
            raise self._untestable()
        text = self._next()
        width = 32 if text[1] in "fF" else 64
        if FLOATS.get(self.region.live_in[int(name[3:])].type) != width:
            raise self._refused(f"{name} has not the type of {text}")
        return SameBits(name, text, width)

    def _sum(self) -> Sum:
        found = [self._product(-1 if self._take("-") else 1)]
        while self.at < len(self.tokens) and self.tokens[self.at][1] in ("+", "-"):
            found.append(self._product(-1 if self._next() == "-" else 1))
        for product in found:
            if not -(1 << 63) <= product.factor < 1 << 63:
                raise self._refused(f"{product.factor} does not fit 64 bits")
        if sum(1 + len(p.names) for p in found) > _MOST_OPERATIONS:
            raise self._refused(f"it takes more than {_MOST_OPERATIONS} operations")
        return tuple(found)

    def _product(self, factor: int) -> Product:
        names: list[str] = []
        while True:
            kind = self._kind()
            if kind == "number":
                factor *= int(self._next(), 0)
            elif kind in ("port", "special"):
                names.append(self._name())
            else:
                raise self._untestable()
            if not self._take("*"):
                return Product(factor, tuple(names))

    def _name(self) -> str:
        name = self._next()
        convergent = self.region.effects.convergent or self.region.effects.barriers
        if name.startswith("%in"):
            number = int(name[3:])
            if number >= len(self.region.live_in):
                raise SpliceRefused("UNKNOWN_PORT", f"the region has no {name}", where=self.where)
            name, uniform = f"%in{number}", self.region.live_in[number].uniform
        else:
            uniform = name.split(".")[0] in UNIFORM
        if convergent and not uniform:
            raise SpliceRefused(
                "GUARD_NOT_UNIFORM",
                f"the region holds convergent operations, and {name} may differ between threads of a block",
                where=self.where,
            )
        return name

    def _only_integers(self, *sides: Sum) -> None:
        for name in (name for side in sides for product in side for name in product.names):
            if width_of(name, self.region) is None:
                kind = self.region.live_in[int(name[3:])].type
                raise self._refused(f"{name} is {kind}: only integers can be computed with and compared by size")

    # --- tokens ---

    def _tokens(self) -> list[tuple[str, str]]:
        return list(self._scan())

    def _scan(self) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None or found.lastgroup is None:
                raise self._untestable()
            yield found.lastgroup, " ".join(found[found.lastgroup].split())
            at = found.end()

    def _kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def _take(self, sign: str) -> bool:
        taken = self.at < len(self.tokens) and self.tokens[self.at][1] == sign
        self.at += taken
        return taken

    def _relation(self) -> Relation:
        if self._kind() != "relation":
            raise self._untestable()
        return Relation(self._next())

    def _untestable(self) -> SpliceRefused:
        return self._refused(f"this guard cannot be tested: {self.text}")

    def _refused(self, sentence: str) -> SpliceRefused:
        return SpliceRefused("GUARD", sentence, where=self.where)


def width_of(name: str, region: Region) -> int | None:
    """Bits of a live-in or special register; None for a live-in that is no integer."""
    return WIDTHS.get(region.live_in[int(name[3:])].type) if name.startswith("%in") else 32
