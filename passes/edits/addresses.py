"""Where a kernel accesses a variable: every access whose address is made from the variable's, or a refusal.

The analysis asks nothing about order: a register holds an address of the variable if every write to it is one, made by
copying such an address, by adding what is none, or by choosing between two. Comparing two and subtracting one from
another give plain values. Whatever else is done with an address (storing it, converting it to a generic one, passing
it to a function, other arithmetic) lets it escape: an access could then be made that is not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hybridcc.errors import SpliceRefused
from hybridcc.passes.execute.layout import alignment_of, size_of
from hybridcc.ptx import isa, scopes
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import (
    Address,
    Function,
    Indexed,
    Instruction,
    Module,
    Name,
    Operand,
    SymbolOffset,
    Variable,
    Vector,
)
from hybridcc.ptx.printer import print_statement
from hybridcc.ptx.rename import names_in

ADDENDS = {"add": (1, 2), "mad": (3,), "mad24": (3,)}
"""Operands that may hold an address, where the result is then one, by opcode; of ``add`` one of the two."""

PLAIN = frozenset({"ld", "st", "atom", "red"})
"""Accesses whose bytes are those of their type. A matrix load reads a row of 16 bytes at each address, whatever its
type says."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A variable that is edited: ``name`` as the module spells it, its size and alignment in bytes, and whether it is
    one of the module's (else of the kernel's body)."""

    name: str
    space: str
    size: int
    alignment: int
    of_module: bool


@dataclass(frozen=True, slots=True)
class Access:
    """One access: the flattened statement, which operand is the address, its offset in bytes from the register or the
    variable itself (``register`` is "" there), and how many bytes it moves."""

    statement: int
    operand: int
    register: str
    offset: int
    size: int


def find_variable(module: Module, function: Function, name: str) -> Placed:
    """Raises SpliceRefused(EDIT_UNKNOWN) where the kernel has no such variable of known size."""
    assert function.body is not None
    places = [(item, True) for item in module.items] + [(s, False) for s in scopes.flatten(function.body)]
    for item, of_module in places:
        if not isinstance(item, Variable):
            continue
        for declarator in item.names:
            if declarator.name == name:
                size = size_of(item, declarator)
                if ".extern" in item.linkage or size == 0:
                    raise SpliceRefused("EDIT_UNKNOWN", f"{name} has no size of its own: the launch gives it one")
                if len(item.names) > 1:
                    raise SpliceRefused("EDIT_UNKNOWN", f"{name} is declared together with others")
                return Placed(name, item.space, size, alignment_of(item), of_module)
    raise SpliceRefused("EDIT_UNKNOWN", f"the kernel has no variable {name}")


def uses_dynamic_shared(module: Module) -> bool:
    """Whether a variable in shared memory has the size that a launch gives it."""
    inside = (s for f in module.functions if f.body is not None for s in scopes.flatten(f.body))
    variables = (v for v in (*module.items, *inside) if isinstance(v, Variable) and v.space == ".shared")
    return any(".extern" in v.linkage or size_of(v, d) == 0 for v in variables for d in v.names)


def accesses(module: Module, function: Function, variable: Placed) -> tuple[Access, ...]:
    """Every access of the variable. Raises SpliceRefused(EDIT_ESCAPES) where there may be others."""
    for other in module.functions:
        if other is not function and any(variable.name in names_in(s) for s in _statements(other)):
            raise SpliceRefused("EDIT_ESCAPES", f"{variable.name} is used by the function {other.name} as well")
    for item in module.items:
        if isinstance(item, Variable) and any(variable.name in d.initializer for d in item.names):
            raise SpliceRefused("EDIT_ESCAPES", f"the initial value of {item.names[0].name} holds its address")
    scoped = scopes.resolve(function, module)
    instructions = [(n, s) for n, s in enumerate(scoped.statements) if isinstance(s, Instruction)]
    holders = _holders(instructions, variable.name)
    found: list[Access] = []
    for number, instruction in instructions:
        if holders.intersection(isa.defs(instruction)) and not _makes_address(instruction, holders, variable.name):
            raise _escapes(instruction, variable)
        if not any(_is_address(o, holders, variable.name) for o in _every_operand(instruction)):
            continue
        access = _access(number, instruction, holders, variable)
        if access is not None:
            found.append(access)
        elif not _keeps(instruction, holders, variable.name):
            raise _escapes(instruction, variable)
    return tuple(found)


def _statements(function: Function) -> Iterator[Instruction]:
    if function.body is not None:
        yield from (s for s in scopes.flatten(function.body) if isinstance(s, Instruction))


def _holders(instructions: Sequence[tuple[int, Instruction]], name: str) -> frozenset[str]:
    """Registers that some write makes an address of the variable."""
    holders: set[str] = set()
    grown = True
    while grown:
        grown = False
        for _, instruction in instructions:
            if _makes_address(instruction, holders, name):
                new = set(isa.defs(instruction)) - holders
                holders |= new
                grown = grown or bool(new)
    return frozenset(holders)


def _makes_address(instruction: Instruction, holders: set[str] | frozenset[str], name: str) -> bool:
    """Whether the result is an address of the variable, by the rules above."""
    operands = instruction.operands
    at = [k for k, operand in enumerate(operands) if k and _is_address(operand, holders, name)]
    if not at or isinstance(operands[0], Vector):
        return False
    match instruction.opcode:
        case "mov":
            return at == [1] and len(operands) == 2
        case "cvt":
            return at == [1] and _between_words(instruction)
        case "add" | "mad" | "mad24":
            wide = any(m in (".cc", ".hi", ".sat") for m in instruction.modifiers)
            return not wide and len(at) == 1 and at[0] in ADDENDS[instruction.opcode]
        case "sub":
            return at == [1]
        case "selp":
            return at == [1, 2]
        case _:
            return False


def _keeps(instruction: Instruction, holders: frozenset[str], name: str) -> bool:
    """Whether the instruction does nothing with an address but make another, or a plain value."""
    if _makes_address(instruction, holders, name):
        return True
    operands = instruction.operands
    both = all(_is_address(o, holders, name) for o in operands[1:3])
    written = any(_is_address(o, holders, name) for o in operands[:1])
    if instruction.opcode == "sub" and both:
        return not written
    return instruction.opcode == "setp" and not written


def _access(number: int, instruction: Instruction, holders: frozenset[str], variable: Placed) -> Access | None:
    """The access that the instruction makes, where its address is the only thing that it does with one."""
    if instruction.opcode not in PLAIN or Effect.ASYNC in isa.effects(instruction):
        return None
    if isa.memory_spaces(instruction) != (variable.space,):
        return None
    at = [k for k, o in enumerate(instruction.operands) if _is_address(o, holders, variable.name)]
    given = isa.types(instruction)
    if len(at) != 1 or not given:
        return None
    operand = instruction.operands[at[0]]
    count = next((len(o.items) for o in instruction.operands if isinstance(o, Vector)), 1)
    size = isa.bits(given[-1]) // 8 * count
    match operand:
        case Address(base=Name(text=base), offset=offset):
            register = "" if base == variable.name else base
            return Access(number, at[0], register, 0 if offset is None else evaluate(offset.text).value, size)
        case Indexed(index=index):
            return Access(number, at[0], "", evaluate(index).value, size)
        case _:
            return None


def _is_address(operand: Operand, holders: set[str] | frozenset[str], name: str) -> bool:
    match operand:
        case Name(text=text):
            return text == name or text in holders
        case SymbolOffset() | Indexed():
            return operand.name == name or operand.name in holders
        case Address(base=Name(text=text)):
            return text == name or text in holders
        case Vector(items=items):
            return any(_is_address(item, holders, name) for item in items)
        case _:
            return False


def _every_operand(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands; of those that no rule here reads into (brackets, pairs, calls), the names as operands."""
    named = tuple(Name(name) for name in names_in(instruction))
    return (*instruction.operands, *named)


def _between_words(instruction: Instruction) -> bool:
    """A conversion that keeps an address: shared memory lies below 2^32. (An address of constants that is cut off
    shows on the executor.)"""
    return all(isa.bits(t) in (32, 64) and t[1] in "us" for t in isa.types(instruction)) and not any(
        m in (".sat", ".rn") for m in instruction.modifiers
    )


def _escapes(instruction: Instruction, variable: Placed) -> SpliceRefused:
    line = print_statement(instruction).strip()
    return SpliceRefused(
        "EDIT_ESCAPES",
        f"an address of {variable.name} goes where it cannot be followed: {line}",
        next_step="edit a variable whose addresses are only computed and accessed",
    )
