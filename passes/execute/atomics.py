"""atom and red (PTX ISA 9.0, sections 9.7.13.6 and 9.7.13.7): lanes take their turn in lane order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridcc.passes.execute import access, memory, nans
from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.numpy_algebra import ALGEBRA
from hybridcc.passes.execute.operands import unsupported
from hybridcc.passes.execute.program import Step
from hybridcc.ptx import isa
from hybridcc.ptx.algebra import FloatOperation
from hybridcc.ptx.nodes import Instruction, Vector
from hybridcc.ptx.semantics import modifiers
from hybridcc.ptx.types import PACKED, is_float, is_signed, width

_OPERATIONS = ("add", "exch", "cas", "min", "max", "inc", "dec", "and", "or", "xor")
Combine = Callable[[Any, list[Any]], Any]


def atom(compiler: Any, instruction: Instruction) -> Step:
    return _access(compiler, instruction, returns=True)


def red(compiler: Any, instruction: Instruction) -> Step:
    return _access(compiler, instruction, returns=False)


def _access(compiler: Any, instruction: Instruction, returns: bool) -> Step:
    m = modifiers(instruction)
    bits = width(m.type)
    operation = m.one_of(_OPERATIONS)
    operands = instruction.operands[1:] if returns else instruction.operands
    if not operation or bits == 128 or isinstance(operands[-1], Vector) or m.has("async"):
        raise unsupported(instruction.full_opcode, compiler.where(instruction))
    combines = {s: combination(operation, m.type, s) for s in (".global", ".shared")}
    space = isa.memory_space(instruction)
    at = access.address_reader(compiler, operands[0], instruction)
    count = 2 if operation == "cas" else 1
    reads = [compiler.operands.read(o, bits, instruction) for o in operands[1 : 1 + count]]
    write = None
    if returns:
        write = compiler.operands.write(instruction.operands[0], bits, instruction, is_signed(m.type))

    def run(frame: Frame, lanes: Lanes) -> None:
        size = frame.size(lanes)
        address = np.broadcast_to(at(frame, lanes), size)
        values = [np.broadcast_to(r(frame, lanes), size) for r in reads]
        old = update(frame, lanes, space, address, bits // 8, values, combines)
        if write is not None:
            write(frame, old, lanes)

    return run


def combination(operation: str, type_: str, space: str) -> Combine:
    """(old, operands) -> new, on bit patterns."""
    bits = width(type_)
    signed = is_signed(type_)
    match operation:
        case "exch":
            return lambda old, v: v[0]
        case "cas":
            return lambda old, v: np.where(old == v[0], v[1], old)
        case "inc":
            return lambda old, v: np.where(old >= v[0], old.dtype.type(0), old + old.dtype.type(1))
        case "dec":
            return lambda old, v: np.where((old == 0) | (old > v[0]), v[0], old - old.dtype.type(1))
        case "and":
            return lambda old, v: old & v[0]
        case "or":
            return lambda old, v: old | v[0]
        case "xor":
            return lambda old, v: old ^ v[0]
    if type_ in PACKED:
        return _packed(operation, type_, space)
    if is_float(type_):
        return _floating(operation, type_, space)
    if operation == "add":
        return lambda old, v: old + v[0]

    def extreme(old: Any, v: list[Any]) -> Any:
        less = ALGEBRA.less(v[0], old, bits, signed)
        return np.where(less if operation == "min" else ~less, v[0], old)

    return extreme


def _floating(operation: str, type_: str, space: str) -> Combine:
    """f32 sums flush subnormals on global memory and not on shared (PTX ISA 9.7.13.6); f64 NaNs as measured."""
    flushes = type_ == "f32" and space == ".global"
    described = FloatOperation(operation, type_, "rn" if operation == "add" else "", ftz=flushes)
    if type_ != "f64":
        return lambda old, v: ALGEBRA.float_operation(described, (old, v[0]))
    if space == ".shared":  # a loop round cas, which adds the old value last
        return lambda old, v: ALGEBRA.float_operation(described, (v[0], old))

    def unquiet(old: Any, v: list[Any]) -> Any:
        result = ALGEBRA.float_operation(described, (old, v[0]))
        return np.where(nans.is_nan64(v[0]), v[0], np.where(nans.is_nan64(old), old, result))

    return unquiet


def _packed(operation: str, type_: str, space: str) -> Combine:
    element, count = PACKED[type_]
    bits = width(element)
    inner = combination(operation, element, space)

    def run(old: Any, v: list[Any]) -> Any:
        total = bits * count
        parts = [
            inner(ALGEBRA.extract(old, total, bits * i, bits), [ALGEBRA.extract(x, total, bits * i, bits) for x in v])
            for i in range(count)
        ]
        return ALGEBRA.concatenate(tuple(parts), bits)

    return run


def update(
    frame: Frame,
    lanes: Lanes,
    space: str | None,
    address: Any,
    size: int,
    values: list[Any],
    combines: dict[str, Combine],
) -> Any:
    """Reads, combines (by the space) and writes, one lane after another where addresses meet; the old values."""
    memory.check_alignment(address, size)
    everyone = np.arange(frame.count) if lanes is None else lanes
    if space is None:
        kinds = access.classify(address)
        old = np.zeros(len(everyone), values[0].dtype)
        for which in np.unique(kinds):
            chosen = np.flatnonzero(kinds == which)
            inner = access.within(address[chosen], int(which))
            old[chosen] = update(
                frame, everyone[chosen], (".global", ".shared", ".local")[which], inner, size,
                [v[chosen] for v in values], combines,
            )  # fmt: skip
        return old
    views, offset, written = _place(frame, everyone, space, address, size)
    return _in_turn(views[size], offset // size, values, combines[space], written and written[size])


def _place(frame: Frame, lanes: Any, space: str, address: Any, size: int) -> tuple[Any, Any, Any]:
    launch = frame.launch
    if space == ".shared":
        places = frame.slots[lanes] // launch.padded
        offset = launch.shared.offsets(address, size, places)
        launch.watch.atomic(frame, lanes, space, offset, size)
        memory.read_checked(launch.shared, offset, size, 1)
        return launch.shared.views, offset, launch.shared.written_views
    if space != ".global":
        raise memory.Fault("UNSUPPORTED", f"an atomic on {space} memory", 0)
    offset = launch.heap.offsets(address, size, True)
    launch.watch.atomic(frame, lanes, ".global", offset, size)
    return launch.heap.views, offset, None


def _in_turn(view: Any, index: Any, values: list[Any], combine: Combine, written: Any) -> Any:
    """Rounds: in each, the first waiting lane of every address."""
    old = np.zeros(len(index), view.dtype)
    waiting = np.arange(len(index))
    while len(waiting):
        _, first = np.unique(index[waiting], return_index=True)
        turn = waiting[first]
        at = index[turn]
        before = view[at]
        old[turn] = before
        view[at] = combine(before, [v[turn] for v in values])
        if len(first) == len(waiting):
            break
        rest = np.ones(len(waiting), bool)
        rest[first] = False
        waiting = waiting[rest]
    return old
