"""Entry values to trace with: sizes around the multiples of unroll factors, few threads, now and then extremes."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hybridcc.passes.facts import Parameter, Relation, Special
from hybridcc.passes.verify.proof.premises import Premises
from hybridcc.passes.verify.proof.program import Program
from hybridcc.ptx.nodes import Address, Instruction, Name

_WRAPS = 0.1
_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 20, 23, 24, 31, 32, 33, 39, 48, 50, 64, 67)

_MISALIGNED = 0.15
_OVERLAPPING = 0.2
"""Parts of the launches."""


def entry_values(program: Program, premises: Premises, rng: random.Random) -> dict[str, int]:
    """One thread of one launch. Equalities among the facts are kept; another premise it may break: see satisfies."""
    pointers = _pointers(program)
    numbers: dict[int, int] = {}
    for index in range(len(program.parameters)):
        wide = index in pointers or rng.random() < 0.08
        numbers[index] = rng.getrandbits(60) & ~255 if wide else rng.choice(_SIZES)
    _disturb(numbers, sorted(pointers))
    values = _launch(premises, rng)
    for fact in premises.facts:
        if fact.relation is Relation.EQ and isinstance(fact.left, Parameter):
            match fact.right:
                case int():
                    numbers[fact.left.index] = fact.right
                case Parameter(index, _) if index in numbers:
                    numbers[fact.left.index] = numbers[index]
                case Special(name) if f"special:{name}" in values:
                    numbers[fact.left.index] = values[f"special:{name}"]
    for index, (_, width) in enumerate(program.parameters):
        for bits in (8, 16, 32, 64):
            values[f"parameter:{index}:0:{bits}"] = numbers[index] & ((1 << bits) - 1)
        for offset in range(1, width // 8 if width <= 64 else 0):
            for bits in (8, 16, 32):
                values[f"parameter:{index}:{offset}:{bits}"] = numbers[index] >> 8 * offset & ((1 << bits) - 1)
        for offset in range(0, min(width, 4096) // 8 if width > 64 else 0, 4):
            values[f"parameter:{index}:{offset}:32"] = rng.getrandbits(32)
            values[f"parameter:{index}:{offset}:64"] = rng.getrandbits(64)
    for name, space in program.variables.items():
        values[f"address:{space}:{name}"] = 4096 + 65536 * (sum(map(ord, name)) % 97)
    return values


def varied(values: Mapping[str, int], program: Program, premises: Premises, rng: random.Random) -> dict[str, int]:
    """Another launch much like one that is known: one size of it anew, or another thread."""
    sizes = sorted(set(_loaded(program).values()) - _pointers(program))
    if not sizes or rng.random() < 0.3:
        return dict(values) | _launch(premises, rng)
    index, number = rng.choice(sizes), rng.choice(_SIZES if rng.random() < 0.5 else _SIZES[:8])
    return dict(values) | {f"parameter:{index}:0:{bits}": number & ((1 << bits) - 1) for bits in (8, 16, 32, 64)}


def _disturb(numbers: dict[int, int], pointers: list[int]) -> None:
    """Now and then let an array begin off its alignment, or near another one: what guards and aliasing turn on."""
    rng = random.Random(repr(sorted(numbers.items())))
    if pointers and rng.random() < _MISALIGNED:
        numbers[rng.choice(pointers)] += rng.choice((4, 8, 12))
    if len(pointers) > 1 and rng.random() < _OVERLAPPING:
        moved, other = rng.sample(pointers, 2)
        row = rng.choice([n for n in numbers.values() if n < _SIZES[-1]] or [1])
        elements = rng.choice((0, row * rng.randrange(8))) + rng.randrange(-4, 12)
        numbers[moved] = max(numbers[other] + 4 * elements, 0)


def _launch(premises: Premises, rng: random.Random) -> dict[str, int]:
    values: dict[str, int] = {}
    fixed = {
        fact.left.name: fact.right
        for fact in premises.facts
        if fact.relation is Relation.EQ and isinstance(fact.left, Special) and isinstance(fact.right, int)
    }
    for axis in "xyz":
        ntid = rng.choice((1, 2, 3, 4, 8, 32)) if axis == "x" else rng.choice((1, 1, 2, 4))
        nctaid = rng.choice((1, 2, 3))
        ntid, nctaid = fixed.get(f"ntid.{axis}", ntid), fixed.get(f"nctaid.{axis}", nctaid)
        values[f"special:ntid.{axis}"], values[f"special:nctaid.{axis}"] = ntid, nctaid
        values[f"special:tid.{axis}"] = rng.randrange(min(ntid, 4) if rng.random() < 0.7 else ntid)
        values[f"special:ctaid.{axis}"] = rng.randrange(nctaid)
    if not fixed and rng.random() < _WRAPS:
        _wrap(values, rng)
    values["special:laneid"] = values["special:tid.x"] % 32
    return values


def _wrap(values: dict[str, int], rng: random.Random) -> None:
    """A thread whose number wraps round in 32 bits, to just below zero or to the least."""
    number = rng.choice(((1 << 32) - rng.randrange(1, 8), 1 << 31))
    ntid = rng.choice((4, 32, 256))
    values["special:ntid.x"], values["special:tid.x"] = ntid, number % ntid
    values["special:ctaid.x"] = number // ntid
    values["special:nctaid.x"] = number // ntid + 1


def _loaded(program: Program) -> dict[str, int]:
    """Registers that a parameter is loaded into, with its number."""
    loaded: dict[str, int] = {}
    for instruction in program.instructions:
        if instruction.opcode == "ld" and ".param" in instruction.modifiers:
            target, source = instruction.operands[:2]
            if isinstance(target, Name) and isinstance(source, Address) and isinstance(source.base, Name):
                loaded[target.text] = program.parameter_index(source.base.text)
    return loaded


def _pointers(program: Program) -> frozenset[int]:
    """Parameters that reach an address without being scaled: as a base of an access or through cvta."""
    loaded = _loaded(program)
    found: set[int] = set()
    for instruction in program.instructions:
        found.update(loaded[name] for name in _address_names(instruction) if name in loaded)
    return frozenset(found)


def _address_names(instruction: Instruction) -> list[str]:
    if instruction.opcode == "cvta":
        return [o.text for o in instruction.operands[1:] if isinstance(o, Name)]
    if ".param" in instruction.modifiers:
        return []
    return [o.base.text for o in instruction.operands if isinstance(o, Address) and isinstance(o.base, Name)]


def satisfies(values: Mapping[str, int], premises: Premises) -> bool:
    """Whether entry values obey the premises."""
    from hybridcc.passes.verify.proof.interpretation import Evaluation

    evaluation = Evaluation(values, {})
    for condition in premises.conditions:
        try:
            if not evaluation.condition(condition):
                return False
        except KeyError:
            continue
    return True
