"""Instructions that compute a polynomial once, before a loop."""

from __future__ import annotations

from collections.abc import Mapping
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
    prefix: str = "%m"
    made: list[Instruction] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)

    def operand(self, p: Polynomial) -> Operand:
        """A register, or a number, that holds it. Raises Unmade, having made nothing that is needed."""
        value = t.as_constant(p)
        if value is not None:
            return Immediate(str(t.signed(value, p.width)))
        return Name(self.register(p))

    def register(self, p: Polynomial) -> str:
        found = self.held.get(p)
        if found is not None:
            return found
        parts: dict[int, list[Monomial]] = {}
        offset = 0
        rest = self._without_known(p)
        for monomial, coefficient in rest[1].monomials:
            if not monomial:
                offset = t.signed(coefficient, p.width)
            else:
                parts.setdefault(t.signed(coefficient, p.width), []).append(monomial)
        total: str | None = rest[0]
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
        return self._new("mov", (".b64",), (Name(register),), 64)

    def _without_known(self, p: Polynomial) -> tuple[str | None, Polynomial]:
        """A register that holds the awkward part of it, and the rest."""
        if not any(self._awkward(m) for m, _ in p.monomials):
            return None, p
        for value, register in self.held.items():
            if not isinstance(value, Polynomial) or value.width != p.width or t.as_constant(value) is not None:
                continue
            rest = t.sub(p, value)
            if len(rest.monomials) < len(p.monomials) and not any(self._awkward(m) for m, _ in rest.monomials):
                return register, rest
        return None, p

    def _awkward(self, monomial: Monomial) -> bool:
        return any(t.of_atom(a) not in self.held for a in monomial)

    def _plus(self, width: int, total: str | None, coefficient: int, monomials: list[Monomial]) -> str:
        size, negative = abs(coefficient), coefficient < 0 and total is not None
        if size == 1 or len(monomials) > 1:
            sum_: str | None = None
            for monomial in monomials:
                one = self._product(monomial, width)
                sum_ = one if sum_ is None else self._new("add", (f".s{width}",), (Name(sum_), Name(one)), width)
            assert sum_ is not None
        else:
            sum_ = self._product(monomials[0], width)
        scaled = self._scaled(sum_, size if negative else coefficient, width)
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
