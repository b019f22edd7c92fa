"""One concrete meaning for every term: integers for bit-vectors, hashes for what is uninterpreted.

The tracer (trace.py) runs PTX under this meaning and ``Evaluation`` evaluates terms under it, so a guess can
be compared with a trace. Nothing here is trusted: it finds candidates for the checker and nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from hybridcc.passes.verify.proof import lemmas
from hybridcc.passes.verify.proof.bitvector import COMMUTING, divide
from hybridcc.passes.verify.proof.terms import Argument, Atom, Condition, Memory, Polynomial, signed

_MIX = 0x9E3779B97F4A7C15
_M64 = (1 << 64) - 1


@lru_cache(maxsize=4096)
def _name(text: str) -> int:
    return zlib.crc32(text.encode())


def uninterpreted(name: str, arguments: tuple[Any, ...], width: int) -> int:
    """A pseudo-random function of name and arguments, the same in every process."""
    if name.startswith(COMMUTING):
        arguments = (*sorted(arguments[:2]), *arguments[2:])
    value = hash((_name(name), *(_name(a) if isinstance(a, str) else a for a in arguments)))
    value = ((value & _M64) * _MIX) & _M64
    value ^= value >> 29
    value = (value * 0xBF58476D1CE4E5B9) & _M64
    value ^= value >> 32
    if width > 64:
        value |= uninterpreted(name + "'", arguments, width - 64) << 64
    return value & ((1 << width) - 1)


# --- floating point: hashes that keep to the rules of lemmas.py --------------------------------------------

_WIDENED: Final = 0x40AC0DE1 << 32
"""The f64 of an f32, which stands in the low half; likewise of an s32, of a u32, and of an operation on two f32."""
_FROM = {"s32": 0x40AC0DE2 << 32, "u32": 0x40AC0DE3 << 32}
_OPERATED: Final = 0x40AC0DE4 << 32
_LOW: Final = 0xFFFFFFFF


def floating(name: str, x: tuple[Any, ...], width: int) -> int:
    """An operation or conversion by its name in terms. An f32 with its NaN canonical is that f32, here."""
    if name == lemmas.CANONICAL:
        return x[0]
    ideal = name.startswith(lemmas.IDEAL)
    name = lemmas.plain(name.removeprefix(lemmas.IDEAL).removeprefix(COMMUTING))
    match name.split("."):
        case ["convert", "f64", "f32", ""]:
            return _WIDENED | x[0]
        case ["convert", "f64", "s32" | "u32" as kind, "rn"]:
            return _FROM[kind] | x[0]
        case ["convert", "f32", "f64", "rn"]:
            return _narrowed(name, x[0], ideal)
        case ["convert", "s32" | "u32" as kind, "f64", "rni" | "rzi" | "rmi" | "rpi"]:
            if x[0] & ~_LOW == _FROM[kind]:
                return x[0] & _LOW
        case ["float", "add" | "sub" | "mul" | "div" | "sqrt" as operation, "f64", "rn"]:
            narrow = [_narrow(y) for y in x]
            if None not in narrow:
                return _OPERATED | floating(f"float.{operation}.f32.rn", tuple(narrow), 32)
        case ["float", "add" | "mul" | "fma" | "min" | "max", "f32", "rn" | ""]:
            return _operated(name, x, width)
    return uninterpreted(name, x, width)


def _narrowed(name: str, x: int, ideal: bool) -> int:
    for kind, tag in _FROM.items():
        if x & ~_LOW == tag:
            return floating(f"convert.f32.{kind}.rn", (x & _LOW,), 32)
    if ideal and x & ~_LOW == _OPERATED:
        return x & _LOW
    narrow = _narrow(x) if ideal else None
    return uninterpreted(name, (x,), 32) if narrow is None else narrow


def _operated(name: str, x: tuple[Any, ...], width: int) -> int:
    if name == "float.add.f32.rn" and x[0] == x[1]:
        return uninterpreted("float.div.f32.rn", (x[0], 0x3F000000), width)
    for y, factor in (x, x[::-1]) if name == "float.mul.f32.rn" else ():
        divisor = lemmas.inverse(factor)
        if divisor is not None:
            return uninterpreted("float.div.f32.rn", (y, divisor), width)
    return uninterpreted(COMMUTING + name, x, width)


def _narrow(x: int) -> int | None:
    return x & _LOW if x & ~_LOW == _WIDENED else lemmas.narrow_constant(x)


def loaded(memory: int, space: str, address: int, width: int) -> int:
    """What an unwritten location holds."""
    return uninterpreted("load", (memory, space, address), width)


Origins: TypeAlias = dict[int, tuple[str, int, int]]
"""For a value that was loaded or stored: the space, address and width of where it last was."""


class Chain:
    """A concrete memory: a linked list of stores and effects with a hash of everything before."""

    __slots__ = ("address", "before", "identity", "origins", "space", "value", "width")

    def __init__(self, identity: int, origins: Origins | None = None) -> None:
        self.identity = identity
        self.origins: Origins = {} if origins is None else origins
        self.before: Chain | None = None
        self.space, self.address, self.value, self.width = "", 0, 0, 0

    def store(self, space: str, address: int, value: int, width: int) -> Chain:
        after = Chain(uninterpreted("store", (self.identity, space, address, value, width), 64), self.origins)
        after.before = self
        after.space, after.address, after.value, after.width = space, address, value, width
        self.origins[value] = (space, address, width)
        return after

    def effect(self, name: str, operands: tuple[int, ...]) -> Chain:
        return Chain(uninterpreted("effect " + name, (self.identity, *operands), 64), self.origins)

    def load(self, space: str, address: int, width: int, address_width: int) -> int:
        value = self.peek(space, address, width, address_width)
        self.origins[value] = (space, address, width)
        return value

    def peek(self, space: str, address: int, width: int, address_width: int) -> int:
        at, size = self, 1 << address_width
        while at.before is not None:
            if at.space == space and at.address == address and at.width == width:
                return at.value
            distance = (at.address - address) % size
            apart = distance >= width // 8 and size - distance >= at.width // 8
            if at.space != space:
                apart = "generic" not in (space, at.space)
            if not apart:
                break
            at = at.before
        return loaded(at.identity, space, address, width)


class Evaluation:
    """Terms under an assignment of the variables, by name. Raises KeyError for a variable that has no value."""

    def __init__(self, variables: Mapping[str, int], memories: Mapping[str, Chain]) -> None:
        self.variables, self.memories = variables, memories
        self._done: dict[Any, Any] = {}

    def polynomial(self, p: Polynomial) -> int:
        found = self._done.get(p)
        if found is not None:
            return found
        total = 0
        for monomial, coefficient in p.monomials:
            for a in monomial:
                coefficient *= self.atom(a)
            total += coefficient
        total &= (1 << p.width) - 1
        self._done[p] = total
        return total

    def atom(self, a: Atom) -> int:
        found = self._done.get(a)
        if found is None:
            found = self._done[a] = self._atom(a)
        return found

    def _atom(self, a: Atom) -> int:
        width = a.width
        if a.operation == "variable":
            return self.variables[str(a.arguments[0])] & ((1 << width) - 1)
        x = tuple(self.argument(y) for y in a.arguments)
        if a.operation == "load":
            address = a.arguments[2]
            assert isinstance(address, Polynomial)
            return x[0].load(x[1], x[2], width, address.width)
        inner = a.arguments[0].width if isinstance(a.arguments[0], Polynomial) else width
        return concrete(a.operation, x, width, inner)

    def argument(self, x: Argument) -> Any:
        match x:
            case Polynomial():
                return self.polynomial(x)
            case Condition():
                return self.condition(x)
            case Memory():
                return self.memory(x)
            case _:
                return x

    def condition(self, c: Condition) -> bool:
        found = self._done.get(c)
        if found is None:
            found = self._done[c] = self._condition(c)
        return found

    def _condition(self, c: Condition) -> bool:
        x = tuple(self.argument(y) for y in c.arguments)
        match c.kind:
            case "true":
                return True
            case "false":
                return False
            case "not":
                return not x[0]
            case "and":
                return x[0] and x[1]
            case "eq":
                return x[0] == 0
            case "ult":
                return x[0] < x[1]
            case "slt":
                first = c.arguments[0]
                assert isinstance(first, Polynomial)
                return signed(x[0], first.width) < signed(x[1], first.width)
            case _:
                return truth(x[0], x[1:])

    def memory(self, m: Memory) -> Chain:
        if m.kind == "initial":
            return self.memories[str(m.arguments[0])]
        before, name, *rest = (self.argument(x) for x in m.arguments)
        if m.kind == "effect":
            return before.effect(name, tuple(int(x) for x in rest))
        value = m.arguments[3]
        assert isinstance(value, Polynomial)
        return before.store(name, rest[0], rest[1], value.width)


def truth(name: str, arguments: tuple[Any, ...]) -> bool:
    if name in ("less.f64", "equal.f64", "nan.f64"):
        narrow = [_narrow(x) for x in arguments]
        if None not in narrow:
            name, arguments = name.replace("64", "32"), tuple(narrow)
    return bool(uninterpreted(name, arguments, 8) & 1)


def concrete(operation: str, x: tuple[Any, ...], width: int, inner: int) -> int:
    """An operation on bit patterns; ``inner`` is the width of the first operand."""
    mask = (1 << width) - 1
    match operation:
        case "and":
            return x[0] & x[1]
        case "shl":
            return (x[0] << x[1]) & mask if x[1] < width else 0
        case "lshr":
            return x[0] >> x[1] if x[1] < width else 0
        case "ashr":
            return (signed(x[0], width) >> min(x[1], width - 1)) & mask
        case "udiv" | "urem" | "sdiv" | "srem" if x[1]:
            return divide(operation, x[0], x[1], width)
        case "sext":
            return signed(x[0], inner) & mask
        case "zext" | "trunc":
            return x[0] & mask
        case "bit":
            return int(x[0])
        case "popc":
            return x[0].bit_count()
        case "clz":
            return inner - x[0].bit_length()
        case "brev":
            return int(f"{x[0]:0{inner}b}"[::-1], 2)
    if lemmas.covers(operation):
        return floating(operation, x, width)
    return uninterpreted(operation, x, width)
