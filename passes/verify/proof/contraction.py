"""Which kernels let the assembler fuse a multiplication with an addition.

ptxas contracts ``mul`` and ``add``/``sub`` to a fused multiply-add when neither states its rounding
(ISA 9.7.3.3, 9.7.3.5: "An add instruction with no rounding modifier ... may be optimized aggressively"). Which
pair it fuses depends on operand order and on other uses of the product, so in a kernel that holds such a pair an
edit elsewhere can change bits, and no proof about PTX alone says what the machine code computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hybridcc.passes.verify.proof.program import Program
from hybridcc.ptx.nodes import Address, Instruction, Member, Name, Not, Operand, Pair, Vector

_ROUNDINGS = frozenset((".rn", ".rz", ".rm", ".rp", ".rna"))
_COPIES = frozenset(("mov", "selp", "slct", "neg", "abs", "copysign"))
"""Instructions through which an assembler may see a product: it moves negations and selections about."""


@dataclass(frozen=True, slots=True)
class ContractiblePair:
    """The multiplication and the addition."""

    product: Instruction
    sum: Instruction


def contractible_pairs(program: Program) -> tuple[ContractiblePair, ...]:
    """Every ``add``/``sub`` that a product may reach along the control flow.

    A register that once held a product is taken to hold it from there on, and a product that is written to memory
    is taken to reach every later load from thread-private memory, or from any other.
    """
    products: dict[str, Instruction] = {}
    carrying = _carrying(program, products)
    return tuple(
        ContractiblePair(products[name], instruction)
        for instruction, held in zip(program.instructions, carrying, strict=True)
        if instruction.opcode in ("add", "sub") and _unrounded_float(instruction)
        for name in dict.fromkeys(_names(instruction.operands[1:]))
        if name in held
    )


def _carrying(program: Program, products: dict[str, Instruction]) -> list[frozenset[str]]:
    """The names that may hold a product before each instruction; ``products`` gets an origin for each."""
    body = program.instructions
    before: list[frozenset[str]] = [frozenset()] * len(body)
    waiting = list(range(len(body)))
    while waiting:
        at = waiting.pop()
        after = before[at] | _made(body[at], before[at], products)
        for following in program.successors(at):
            if not after <= before[following]:
                before[following] |= after
                waiting.append(following)
    return before


def _made(instruction: Instruction, held: frozenset[str], products: dict[str, Instruction]) -> frozenset[str]:
    """The names that hold a product once the instruction has run, given those that did before."""
    made: set[str] = set()
    if instruction.opcode == "mul" and _unrounded_float(instruction):
        made.update(_names(instruction.operands[:1]))
        for name in made:
            products.setdefault(name, instruction)
    for target, sources in _copies(instruction):
        carried = next((s for s in sources if s in held), None)
        if carried is not None:
            made.add(target)
            products.setdefault(target, products[carried])
    return frozenset(made)


def _unrounded_float(instruction: Instruction) -> bool:
    return any(_is_float(m) for m in instruction.modifiers) and _ROUNDINGS.isdisjoint(instruction.modifiers)


def _is_float(modifier: str) -> bool:
    return modifier.startswith((".f16", ".f32", ".f64", ".bf16"))


def _copies(instruction: Instruction) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(written, read) names between which a value may travel unchanged."""
    operands = instruction.operands
    same_type = instruction.opcode == "cvt" and instruction.modifiers[-1:] == instruction.modifiers[-2:-1]
    if instruction.opcode in _COPIES or same_type:
        for target in _names(operands[:1]):
            yield target, tuple(_names(operands[1:]))
    elif instruction.opcode == "st":
        yield _memory(instruction), tuple(_names(operands[1:]))
    elif instruction.opcode == "ld":
        for target in _names(operands[:1]):
            yield target, (_memory(instruction),)


def _memory(instruction: Instruction) -> str:
    """One name for all that a state space holds; only thread-private memory is ever forwarded by an assembler."""
    return "[local]" if ".local" in instruction.modifiers or ".param" in instruction.modifiers else "[other]"


def _names(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Name(text):
                yield text
            case Member(name, _):
                yield name
            case Vector(items):
                yield from _names(items)
            case Pair(first, second):
                yield from _names((first, second))
            case Not(inner):
                yield inner.text
            case Address():
                pass
            case _:
                pass
