"""What is known of polynomials at a region: intervals of live-ins, relations between them, conditions that hold.

Sound under wraparound: every bound is of the signed value of a polynomial modulo 2^width, and a sum that might not
fit is bounded by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from hybridcc.passes.analysis.interval import Interval, whole
from hybridcc.passes.facts import Fact, Parameter, RegionInput, Relation
from hybridcc.passes.rewrite.rules.subject import Subject
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.bitvector import bitwise_and
from hybridcc.passes.verify.proof.program import type_width
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.terms import Atom, Condition, Polynomial


@dataclass(frozen=True)
class Bounds:
    """``variables``: intervals by name; ``polynomials``: the signed value of each lies in its interval;
    ``truths``: conditions that are known."""

    variables: dict[str, Interval] = field(default_factory=dict)
    polynomials: tuple[tuple[Polynomial, Interval], ...] = ()
    truths: dict[Condition, bool] = field(default_factory=dict)

    def range(self, p: Polynomial) -> Interval:
        """Where the signed value lies; the whole of the width where nothing is known."""
        everything = whole(p.width)
        best = everything
        for found in self._ranges(p):
            if everything.low <= found.low and found.high <= everything.high:
                best = best.meet(found)
        return best

    def fits(self, p: Polynomial) -> bool:
        """Whether some sum bounds it, so that it is known not to wrap."""
        return any(_inside(found, p.width) for found in self._ranges(p))

    def _ranges(self, p: Polynomial) -> Iterable[Interval]:
        yield self._plain(p)
        yield from self._joined(p)
        for known, interval in self.polynomials:
            if known.width != p.width:
                continue
            for factor in (1, -1):
                rest = self._plain(t.sub(p, t.scale(known, factor)))
                scaled = interval if factor == 1 else Interval(-interval.high, -interval.low)
                yield Interval(rest.low + scaled.low, rest.high + scaled.high)

    def _joined(self, p: Polynomial) -> Iterator[Interval]:
        """``x | y`` is ``x + y - (x & y)``: of numbers that are not negative it has no bit above both their highest."""
        for monomial, coefficient in p.monomials:
            if len(monomial) != 1 or monomial[0].operation != "and" or t.signed(coefficient, p.width) != -1:
                continue
            x, y = monomial[0].arguments
            if isinstance(x, Polynomial) and isinstance(y, Polynomial) and x.width == p.width:
                a, b = self.range(x), self.range(y)
                rest = self._plain(t.sub(p, t.sub(t.add(x, y), t.of_atom(monomial[0]))))
                if a.low >= 0 and b.low >= 0:
                    most = (1 << max(a.high.bit_length(), b.high.bit_length())) - 1
                    yield Interval(rest.low, rest.high + most)

    def _plain(self, p: Polynomial) -> Interval:
        """The exact sum of the monomials' intervals, beyond the width where they may reach."""
        low = high = 0
        for monomial, coefficient in p.monomials:
            product = Interval(1, 1)
            for each in monomial:
                product = _times(product, self._atom(each))
            product = _times(product, _single(t.signed(coefficient, p.width)))
            low, high = low + product.low, high + product.high
        return Interval(low, high)

    def _atom(self, a: Atom) -> Interval:
        everything = whole(a.width)
        match a.operation, a.arguments:
            case "variable", (str() as name,):
                return self.variables.get(name) or (Interval(0, a.bound) if a.bound <= everything.high else everything)
            case "sext", (Polynomial() as inner,):
                return self.range(inner)
            case "zext", (Polynomial() as inner,):
                known = self.range(inner)
                return known if known.low >= 0 else Interval(0, (1 << inner.width) - 1)
            case _:
                return Interval(0, a.bound) if a.bound <= everything.high else everything

    def decide(self, c: Condition) -> bool | None:
        """Whether it holds; None where that is not known."""
        if c in self.truths:
            return self.truths[c]
        match c.kind, c.arguments:
            case "true" | "false", _:
                return c.kind == "true"
            case "not", (Condition() as inner,):
                known = self.decide(inner)
                return None if known is None else not known
            case "slt", (Polynomial() as a, Polynomial() as b):
                return self._less(a, b)
            case "ult", (Polynomial() as a, Polynomial() as b):
                if self.range(a).low >= 0 and self.range(b).low >= 0:
                    return self._less(a, b)
                return None
            case "eq", (Polynomial() as p,):
                value = self.range(p)
                if 0 not in value:
                    return False
                nothing = value.low == value.high == 0
                return True if nothing or any(self._low_bits_only(t.scale(p, f)) for f in (1, -1)) else None
            case _:
                return None

    def _low_bits_only(self, p: Polynomial) -> bool:
        """Whether it is ``q - (q & mask)`` and q is known to have no other bits."""
        for monomial, coefficient in p.monomials:
            if len(monomial) != 1 or t.signed(coefficient, p.width) != -1:
                continue
            low = t.of_atom(monomial[0])
            q = t.add(p, low)
            mask = monomial[0].bound
            found = self.range(q)
            if mask & (mask + 1) == 0 and found.low >= 0 and found.high <= mask:
                return bitwise_and(q, t.constant(mask, p.width)) is low
        return False

    def _less(self, a: Polynomial, b: Polynomial) -> bool | None:
        x, y = self.range(a), self.range(b)
        if x.high < y.low:
            return True
        if x.low >= y.high:
            return False
        if not (_fits_difference(x, y, a.width)):
            return None
        difference = self.range(t.sub(b, a))
        return True if difference.low > 0 else False if difference.high <= 0 else None

    def simplify(self, p: Polynomial) -> Polynomial:
        """The polynomial with every condition that is decided put in its place."""
        return Rewriter(decide=self.decide).polynomial(p)

    def simplify_condition(self, c: Condition) -> Condition:
        return Rewriter(decide=self.decide).condition(c)

    def with_variable(self, name: str, interval: Interval) -> Bounds:
        return replace(self, variables=self.variables | {name: interval})

    def with_polynomial(self, p: Polynomial, interval: Interval) -> Bounds:
        return replace(self, polynomials=(*self.polynomials, (p, interval)))

    def assuming(self, c: Condition, holds: bool) -> Bounds:
        """With a condition that is known to hold, or not to."""
        while c.kind == "not":
            inner = c.arguments[0]
            assert isinstance(inner, Condition)
            c, holds = inner, not holds
        if c.kind == "and" and holds:
            left, right = c.arguments
            assert isinstance(left, Condition)
            assert isinstance(right, Condition)
            return self.assuming(left, True).assuming(right, True)
        made = replace(self, truths=self.truths | {c: holds})
        if c.kind == "slt":
            a, b = c.arguments
            assert isinstance(a, Polynomial)
            assert isinstance(b, Polynomial)
            return made._compared(a, b, strict=True) if holds else made._compared(b, a, strict=False)
        return made

    def _compared(self, a: Polynomial, b: Polynomial, *, strict: bool) -> Bounds:
        """With ``a < b`` or ``a <= b``: bounds of either by the other's, and of the difference where it fits."""
        x, y = self.range(a), self.range(b)
        step = 1 if strict else 0
        made = self
        if t.as_constant(a) is None:
            made = made.with_polynomial(a, Interval(x.low, min(x.high, y.high - step)))
        if t.as_constant(b) is None:
            made = made.with_polynomial(b, Interval(max(y.low, x.low + step), y.high))
        if t.as_constant(a) is None and t.as_constant(b) is None and _fits_difference(x, y, a.width):
            made = made.with_polynomial(t.sub(b, a), Interval(step, y.high - x.low))
        return made


def _inside(found: Interval, width: int) -> bool:
    everything = whole(width)
    return everything.low <= found.low and found.high <= everything.high


def _fits_difference(x: Interval, y: Interval, width: int) -> bool:
    return _inside(Interval(y.low - x.high, y.high - x.low), width)


def _single(value: int) -> Interval:
    return Interval(value, value)


def _times(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def known(subject: Subject) -> Bounds:
    """What the facts of a region say of its live-ins, and those of its kernel of parameters that it loads."""
    ports = {f"%in{k}": type_width(port.type) for k, port in enumerate(subject.region.live_in)}
    made = of_facts(subject.region.facts, {name: width for name, width in ports.items() if width > 1})
    for fact in subject.facts:
        if isinstance(fact.left, Parameter) and isinstance(fact.right, int) and not fact.place:
            name = f"param{fact.left.index}"
            before = made.variables.get(name, whole(64))
            made = made.with_variable(name, _bounded(before, fact.relation, fact.right))
    return made


def of_facts(facts: Iterable[Fact], widths: dict[str, int]) -> Bounds:
    """The bounds that a region's facts give its live-ins, of ``widths`` in bits by name."""
    made = Bounds({name: whole(width) for name, width in widths.items()})
    relations: list[tuple[str, Relation, str]] = []
    for fact in facts:
        if not isinstance(fact.left, RegionInput) or fact.place:
            continue
        left = f"%in{fact.left.index}"
        if isinstance(fact.right, int) and left in widths:
            interval = _bounded(made.variables[left], fact.relation, fact.right)
            made = made.with_variable(left, interval)
        elif isinstance(fact.right, RegionInput):
            relations.append((left, fact.relation, f"%in{fact.right.index}"))
    for left, relation, right in relations:
        if left not in widths or widths.get(right) != widths[left]:
            continue
        a, b = t.variable(left, widths[left]), t.variable(right, widths[left])
        match relation:
            case Relation.LT:
                made = made.assuming(t.signed_less(a, b), True)
            case Relation.LE:
                made = made.assuming(t.signed_less(b, a), False)
            case Relation.GE:
                made = made.assuming(t.signed_less(a, b), False)
            case _:
                pass
    return made


def _bounded(interval: Interval, relation: Relation, value: int) -> Interval:
    match relation:
        case Relation.GE:
            return interval.meet(Interval(value, interval.high)) if value <= interval.high else interval
        case Relation.LE:
            return interval.meet(Interval(interval.low, value)) if value >= interval.low else interval
        case Relation.LT:
            return interval.meet(Interval(interval.low, value - 1)) if value > interval.low else interval
        case Relation.EQ:
            return Interval(value, value) if value in interval else interval
        case _:
            return interval
