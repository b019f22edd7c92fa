"""Arguments of a kernel that comes as PTX alone: which parameters are pointers, and to what.

A parameter is taken for a pointer when its value reaches an address by copies, conversions and additions; where a
kernel converts addresses with ``cvta``, only what passes through one counts. A wrong guess costs evidence, never
soundness: a launch made from it faults in the baseline, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hybridcc.errors import InputError
from hybridcc.passes.arguments import PTX_NUMPY
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.ptx import parse
from hybridcc.ptx.nodes import Address, Block, Function, Instruction, Name, Operand, Statement, Variable

CARRIERS = {"mov": (1,), "cvta": (1,), "add": (1, 2), "sub": (1,), "mad": (3,), "selp": (1, 2), "cvt": (1,)}
"""Through which source operands of an instruction (numbered with the destination as 0) an address stays an address."""


def with_arguments(kernel: Kernel) -> Kernel:
    """The kernel with one argument per PTX parameter; as it is if it has arguments already.

    Raises InputError for a parameter passed as a block of bytes.
    """
    if kernel.arguments:
        return kernel
    function = next(f for f in parse(kernel.ptx, kernel.name).entries if f.name == kernel.entry)
    instructions = tuple(_instructions(function.body.statements if function.body else ()))
    loads = _loads(function, instructions)
    pointers = _pointers(instructions, loads)
    arguments = tuple(
        _argument(number, variable, variable.names[0].name in loads.values(), pointers)
        for number, variable in enumerate(function.parameters)
    )
    return replace(kernel, arguments=arguments)


def _argument(number: int, variable: Variable, used: bool, pointers: dict[str, str]) -> Argument:
    (declared,) = variable.names
    name = f"p{number}"
    if declared.dims or variable.vector or variable.type not in PTX_NUMPY:
        raise InputError(
            f"parameter {number} ({declared.name}) is a block of bytes, for which no inputs can be made",
            next_step="give PTX whose parameters are pointers and numbers",
        )
    pointed = pointers.get(declared.name)
    if pointed is not None or ".ptr" in (*variable.prefix, *variable.suffix):
        return Argument(name, ArrayType(pointed or "uint8", 1), (Field("data", variable.type),))
    dtype = _signed(variable.type)
    # What no instruction reads needs no size of its own: any value will do.
    return Argument(name, ScalarType(dtype if used else "bool"), (Field("value", variable.type),))


def _instructions(statements: Sequence[Statement]) -> Iterator[Instruction]:
    for statement in statements:
        match statement:
            case Instruction():
                yield statement
            case Block(inner):
                yield from _instructions(inner)
            case _:
                pass


def _loads(function: Function, instructions: Sequence[Instruction]) -> dict[str, str]:
    """Register -> the parameter that it was loaded from."""
    names = {declarator.name for variable in function.parameters for declarator in variable.names}
    found: dict[str, str] = {}
    for i in instructions:
        if i.opcode != "ld" or ".param" not in i.modifiers or len(i.operands) < 2:
            continue
        target, source = i.operands[0], i.operands[1]
        match target, source:
            case Name(register), Address(Name(parameter)) if parameter in names:
                found[register] = parameter
            case _:
                pass
    return found


def _pointers(instructions: Sequence[Instruction], loads: dict[str, str]) -> dict[str, str]:
    """Parameter -> NumPy name of the element type of the first access through it."""
    origin = {register: {parameter} for register, parameter in loads.items()}
    converted: set[str] = set()
    for _ in range(len(instructions)):
        before = sum(map(len, origin.values()))
        for i in instructions:
            _carry(i, origin, converted)
        if sum(map(len, origin.values())) == before:
            break
    found: dict[str, str] = {}
    for i in instructions:
        for operand in i.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Name) and ".param" not in i.modifiers:
                for parameter in sorted(origin.get(operand.base.text, ())):
                    if not converted or parameter in converted:
                        found.setdefault(parameter, _element(i))
    return found


def _carry(i: Instruction, origin: dict[str, set[str]], converted: set[str]) -> None:
    if i.opcode not in CARRIERS or not i.operands:
        return
    target = i.operands[0]
    sources = [_origin(i.operands[n], origin) for n in CARRIERS[i.opcode] if n < len(i.operands)]
    carried = set().union(*sources)
    if isinstance(target, Name) and carried:
        origin.setdefault(target.text, set()).update(carried)
    if i.opcode == "cvta":
        converted.update(carried)


def _origin(operand: Operand, origin: dict[str, set[str]]) -> set[str]:
    return origin.get(operand.text, set()) if isinstance(operand, Name) else set()


def _element(i: Instruction) -> str:
    """The type that an access moves."""
    return next((_signed(modifier) for modifier in reversed(i.modifiers) if modifier in PTX_NUMPY), "uint8")


def _signed(ptx_type: str) -> str:
    """A NumPy name; integers come signed, so that the families of values reach below zero."""
    dtype = np.dtype(PTX_NUMPY[ptx_type])
    return f"int{8 * dtype.itemsize}" if dtype.kind in "iu" else dtype.name
