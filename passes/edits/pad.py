"""Rows of a shared variable moved apart, at every access of it.

An address that is computed stays what it was; where it is used, ``offset / old * (new - old)`` is added to it. That
holds for every row and column that a launch may ask for, so no fact about the launch is needed; the assembler shares
what accesses have in common. Costs three to five integer instructions an access, against up to 32 turns of a bank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hybridcc.errors import SpliceRefused
from hybridcc.passes.edits.addresses import Access, Placed
from hybridcc.passes.edits.declared import Pad
from hybridcc.ptx.nodes import Address, Declarator, Immediate, Instruction, Name, Statement, Variable

Fresh = Callable[[str, str], str]
"""A new register: (stem, type) to its name."""


def check(pad: Pad, variable: Placed, found: tuple[Access, ...]) -> None:
    """Raises SpliceRefused(EDIT_LIMIT) where the rows of the variable cannot be moved so."""
    if variable.space != ".shared":
        raise SpliceRefused("EDIT_LIMIT", f"{variable.name} lies in {variable.space}, only shared memory has banks")
    if variable.size % pad.old:
        raise SpliceRefused("EDIT_LIMIT", f"{variable.size} bytes of {variable.name} are no rows of {pad.old}")
    for access in found:
        if variable.alignment % access.size or pad.old % access.size or (pad.new - pad.old) % access.size:
            raise SpliceRefused(
                "EDIT_LIMIT",
                f"{variable.name} is accessed {access.size} bytes at a time, and rows of {pad.old} and {pad.new} bytes "
                f"in a variable aligned to {variable.alignment} would part or misalign such an access",
            )


def grown(pad: Pad, size: int) -> int:
    """Bytes of the variable afterwards."""
    return size // pad.old * pad.new


def resized(variable: Variable, size: int) -> Variable:
    """The declaration as bytes of that number."""
    (declarator,) = variable.names
    return replace(variable, type=".b8", vector="", names=(Declarator(declarator.name, (str(size),)),))


def remapped(
    pad: Pad, variable: Placed, access: Access, instruction: Instruction, kind: str, fresh: Fresh
) -> tuple[list[Statement], Instruction]:
    """The instructions that find the new address, and the access that uses it. ``kind`` is the declared type of the
    address's register, "" where there is none."""
    operands = list(instruction.operands)
    if not access.register:
        place = pad.moved(access.offset)
        operands[access.operand] = Address(Name(variable.name), Immediate(str(place)) if place else None)
        return [], replace(instruction, operands=tuple(operands))
    wide = kind.endswith("64")
    row, base = fresh("row", ".b32"), fresh("base", ".b32")
    made = [
        _make("mov.u32", base, Name(variable.name)),
        _make("cvt.u32.u64" if wide else "mov.b32", row, Name(access.register)),
        _make("sub.u32", row, Name(row), Name(base)),
    ]
    if access.offset:
        made.append(_make("add.s32", row, Name(row), Immediate(str(access.offset))))
    if pad.old & (pad.old - 1):
        made.append(_make("div.u32", row, Name(row), Immediate(str(pad.old))))
    else:
        made.append(_make("shr.u32", row, Name(row), Immediate(str(pad.old.bit_length() - 1))))
    made.append(_make("mul.lo.u32", row, Name(row), Immediate(str(pad.new - pad.old))))
    address = fresh("at", ".b64" if wide else ".b32")
    if wide:
        made.append(_make("cvt.u64.u32", address, Name(row)))
        made.append(_make("add.s64", address, Name(address), Name(access.register)))
    else:
        made.append(_make("add.s32", address, Name(row), Name(access.register)))
    operands[access.operand] = Address(Name(address), Immediate(str(access.offset)) if access.offset else None)
    return list(made), replace(instruction, operands=tuple(operands))


def _make(opcode: str, target: str, *sources: Name | Immediate) -> Instruction:
    name, *modifiers = opcode.split(".")
    return Instruction(name, tuple(f".{m}" for m in modifiers), (Name(target), *sources))
