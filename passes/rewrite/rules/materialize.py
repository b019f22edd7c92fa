"""Instructions that compute a polynomial once, before a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hybridcc.passes.rewrite.rules.evaluate import Value
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.terms import Atom, Monomial, Polynomial
from hybridcc.ptx.nodes import Immediate, Instruction, Name, Operand


class Unmade(Exception):
    """Some part of a polynomial is in no register."""


@dataclass(slots=True)
class Materializer:
    """``held`` gives the register of each value that is there already; ``made`` are the instructions so far, into
    registers called ``prefix`` and a number, all of 64 bits unless ``types`` says otherwise."""

    held: dict[Value, str]
    widths: Mapping[str, int] = field(default_factory=dict)
    """Of registers that are not of 64 bits."""
    prefix: str = "%m"
    made: list[Instruction] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)

    def operand(self, p: Polynomial) -> Operand:
        """A register, or a number, that holds it. Raises Unmade."""
        value = t.as_constant(p)
        if value is not None:
            return Immediate(str(t.signed(value, p.width)))
        return Name(self.register(p))

    def register(self, p: Polynomial) -> str:
        found = self.held.get(p)
        if found is not None:
            return found
        parts: dict[int, list[Monomial]] = {}
        offset, total = 0, None
        known, rest = self._without_known(p)
        for register, factor in known:
            total = self._and(p.width, total, factor, register)
        for monomial, coefficient in rest.monomials:
            if not monomial:
                offset = t.signed(coefficient, p.width)
            else:
                parts.setdefault(t.signed(coefficient, p.width), []).append(monomial)
        for coefficient in sorted(parts, key=lambda c: (c < 0, abs(c) == 1, c)):
            total = self._plus(p.width, total, coefficient, parts[coefficient])
        if total is None:
            total = self._new("mov", (f".b{p.width}",), (Immediate(str(offset)),), p.width)
        elif offset:
            total = self._new("add", (f".s{p.width}",), (Name(total), Immediate(str(offset))), p.width)
        self.held[p] = total
        return total

    def copied(self, register: str) -> str:
        """A register of its own, which may be changed."""
        width = self.widths.get(register, 64)
        return self._new("mov", (f".b{width}",), (Name(register),), width)

    def _without_known(self, p: Polynomial) -> tuple[list[tuple[str, int]], Polynomial]:
        """Registers that hold the awkward parts of it, each with its factor, and the rest."""
        used: list[tuple[str, int]] = []
        while (worst := self._awkwardness(p)) > 0:
            found = min(self._parts(p), key=lambda part: self._awkwardness(part[2]), default=None)
            if found is None or self._awkwardness(found[2]) >= worst:
                raise Unmade(f"nothing holds a part of {p}")
            used.append((found[0], found[1]))
            p = found[2]
        return used, p

    def _awkwardness(self, p: Polynomial) -> int:
        return sum(self._awkward(m) for m, _ in p.monomials)

    def _parts(self, p: Polynomial) -> Iterator[tuple[str, int, Polynomial]]:
        """Registers, factors, and what is left of the polynomial without them."""
        own = dict(p.monomials)
        for value, register in self.held.items():
            if not isinstance(value, Polynomial) or value.width != p.width:
                continue
            for monomial, coefficient in value.monomials:
                if monomial in own and self._awkward(monomial):
                    factor, odd = divmod(t.signed(own[monomial], p.width), t.signed(coefficient, p.width))
                    if not odd:
                        yield register, factor, t.sub(p, t.scale(value, factor))
                    break

    def _awkward(self, monomial: Monomial) -> bool:
        return any(t.of_atom(a) not in self.held for a in monomial)

    def _plus(self, width: int, total: str | None, coefficient: int, monomials: list[Monomial]) -> str:
        sum_ = self._product(monomials[0], width)
        for monomial in monomials[1:]:
            sum_ = self._new("add", (f".s{width}",), (Name(sum_), Name(self._product(monomial, width))), width)
        return self._and(width, total, coefficient, sum_)

    def _and(self, width: int, total: str | None, coefficient: int, register: str) -> str:
        """``total`` and so many times a register."""
        negative = coefficient < 0 and total is not None
        scaled = self._scaled(register, abs(coefficient) if negative else coefficient, width)
        if total is None:
            return scaled
        return self._new("sub" if negative else "add", (f".s{width}",), (Name(total), Name(scaled)), width)

    def _scaled(self, register: str, factor: int, width: int) -> str:
        if factor == 1:
            return register
        if factor > 0 and factor & (factor - 1) == 0:
            amount = Immediate(str(factor.bit_length() - 1))
            return self._new("shl", (f".b{width}",), (Name(register), amount), width)
        return self._new("mul", (".lo", f".s{width}"), (Name(register), Immediate(str(factor))), width)

    def _product(self, monomial: Monomial, width: int) -> str:
        found = self.held.get(t.from_monomials(width, {monomial: 1}))
        if found is not None:
            return found
        total: str | None = None
        for single in monomial:
            one = self._atom(single)
            total = one if total is None else self._new("mul", (".lo", f".s{width}"), (Name(total), Name(one)), width)
        assert total is not None
        self.held[t.from_monomials(width, {monomial: 1})] = total
        return total

    def _atom(self, single: Atom) -> str:
        found = self.held.get(t.of_atom(single))
        if found is None:
            raise Unmade(f"nothing holds {single}")
        return found

    def _new(self, opcode: str, modifiers: tuple[str, ...], sources: tuple[Operand, ...], width: int) -> str:
        name = f"{self.prefix}{len(self.types)}"
        self.types[name] = f".b{width}"
        self.made.append(Instruction(opcode, modifiers, (Name(name), *sources)))
        return name


def held_by(environment: Mapping[str, Value], types: Mapping[str, str]) -> dict[Value, str]:
    """The integer registers by what they hold: ports, and what cannot be made of ports by sums and products. What can
    is made anew, without the wraparounds on the way to it."""
    found: dict[Value, str] = {}
    for register in sorted(environment, key=lambda r: not r.startswith("%in")):
        value = environment[register]
        if not types[register].startswith((".b", ".u", ".s")) or not isinstance(value, Polynomial):
            continue
        plain = all(t.of_atom(a) in found for m, _ in value.monomials for a in m)
        if register.startswith("%in") or not plain:
            found.setdefault(value, register)
    return found
