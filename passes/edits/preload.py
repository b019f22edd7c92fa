"""An array in constant memory, copied to shared memory at the kernel's entry and read there.

Constant memory serves one address of a warp at a time; shared memory serves 32 that lie in different banks. The copy
and one barrier stand at the very entry, where all threads of the block still are together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hybridcc.errors import SpliceRefused
from hybridcc.passes.edits.addresses import Placed
from hybridcc.ptx.nodes import (
    Address,
    Block,
    Declarator,
    Guard,
    Immediate,
    Instruction,
    Label,
    Member,
    Name,
    Operand,
    RegisterDeclaration,
    Statement,
    Variable,
)
from hybridcc.ptx.rename import rename_statement

LEAST_ALIGNMENT = 16


def check(variable: Placed) -> None:
    """Raises SpliceRefused(EDIT_LIMIT) for a variable that is no constant of the module."""
    if variable.space != ".const" or not variable.of_module:
        raise SpliceRefused("EDIT_LIMIT", f"{variable.name} lies in {variable.space}, and is no constant to copy")


def shared_copy(name: str, variable: Placed) -> Variable:
    """The declaration of the copy."""
    alignment = max(variable.alignment, LEAST_ALIGNMENT)
    return Variable(".shared", ".b8", (Declarator(name, (str(variable.size),)),), prefix=(f".align {alignment}",))


def redirected(instruction: Instruction, access: bool, variable: Placed, copy: str) -> Instruction:
    """The instruction with the copy's name, and reading shared memory if it is an access."""

    def rename(name: str) -> str:
        return copy if name == variable.name else name

    renamed = rename_statement(instruction, rename)
    assert isinstance(renamed, Instruction)
    if not access:
        return renamed
    spaces = tuple(".shared" if m == ".const" else m for m in renamed.modifiers)
    return replace(renamed, modifiers=spaces)


def copying(variable: Placed, copy: str, claim: Callable[[str], str]) -> Block:
    """A scope that copies the array, each thread its share, and waits for all of them; ``claim`` makes names."""
    word = 4 if variable.size % 4 == 0 and variable.alignment % 4 == 0 else 1
    value_type, kind = (".b32", ".u32") if word == 4 else (".b16", ".u8")
    names = ("thread", "threads", "extent", "place", "step", "from", "to", "offset", "value", "done")
    r = {stem: claim(f"%{stem}") for stem in names}
    loop, end = claim("$loop"), claim("$end")

    def make(opcode: str, *operands: Operand, guard: Guard | None = None) -> Instruction:
        name, *modifiers = opcode.split(".")
        return Instruction(name, tuple(f".{m}" for m in modifiers), operands, guard)

    def reg(stem: str) -> Name:
        return Name(r[stem])

    thread, threads, extent, place, step = (reg(s) for s in ("thread", "threads", "extent", "place", "step"))
    statements: list[Statement] = [
        RegisterDeclaration(".pred", ((r["done"], None),)),
        RegisterDeclaration(".b32", tuple((r[s], None) for s in ("thread", "threads", "extent", "place", "step"))),
        RegisterDeclaration(".b64", ((r["from"], None), (r["to"], None), (r["offset"], None))),
        RegisterDeclaration(value_type, ((r["value"], None),)),
        # the number of the thread within its block, and how many there are: x fastest, then y, then z
        make("mov.u32", thread, Member("%tid", "z")),
        make("mov.u32", threads, Member("%ntid", "z")),
    ]
    for axis in "yx":
        statements += [
            make("mov.u32", extent, Member("%ntid", axis)),
            make("mov.u32", place, Member("%tid", axis)),
            make("mad.lo.u32", thread, thread, extent, place),
            make("mul.lo.u32", threads, threads, extent),
        ]
    statements += [
        make("mul.lo.u32", place, thread, Immediate(str(word))),
        make("mul.lo.u32", step, threads, Immediate(str(word))),
        Label(loop),
        make("setp.ge.u32", reg("done"), place, Immediate(str(variable.size))),
        make("bra", Name(end), guard=Guard(r["done"])),
        make("cvt.u64.u32", reg("offset"), place),
        make("mov.u64", reg("from"), Name(variable.name)),
        make("mov.u64", reg("to"), Name(copy)),
        make("add.s64", reg("from"), reg("from"), reg("offset")),
        make("add.s64", reg("to"), reg("to"), reg("offset")),
        make(f"ld.const{kind}", reg("value"), Address(reg("from"))),
        make(f"st.shared{kind}", Address(reg("to")), reg("value")),
        make("add.u32", place, place, step),
        make("bra", Name(loop)),
        Label(end),
        make("bar.sync", Immediate("0")),
    ]
    return Block(tuple(statements))
