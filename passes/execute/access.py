"""Loads, stores and addresses (PTX ISA 9.0, sections 9.7.9.8 to 9.7.9.20)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.passes.execute import memory
from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.numpy_floats import UNSIGNED
from hybridcc.passes.execute.operands import unsupported
from hybridcc.passes.execute.program import Step
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Name, Operand, Vector
from hybridcc.ptx.semantics import modifiers
from hybridcc.ptx.types import is_signed, width

_WINDOWS = {".shared": memory.SHARED_WINDOW, ".local": memory.LOCAL_WINDOW}
_WINDOW_WORDS = {"shared": ".shared", "shared::cta": ".shared", "local": ".local"}


def address_reader(compiler: Any, operand: Operand, node: Any, bits: int = 64) -> Any:
    """(frame, lanes) -> unsigned 64-bit addresses, of the space the instruction names."""
    if not isinstance(operand, Address):
        raise unsupported("this address", compiler.where(node))
    offset = evaluate(operand.offset.text).value if operand.offset else 0
    step = np.uint64(offset & (2**64 - 1))
    if isinstance(operand.base, Immediate):
        value = np.uint64((evaluate(operand.base.text).value + offset) & (2**64 - 1))
        return lambda frame, lanes: value
    have = compiler.widths.get(operand.base.text, 64)
    base = compiler.operands.read(operand.base, have, node)
    if have == 64:
        return base if not offset else lambda frame, lanes: base(frame, lanes) + step

    def narrow(frame: Frame, lanes: Lanes) -> Any:
        # a 32-bit address wraps in 32 bits
        value = base(frame, lanes).astype(np.uint32) + np.uint32(offset & 0xFFFFFFFF)
        return value.astype(np.uint64)

    return narrow


def parameter_of(compiler: Any, operand: Operand) -> tuple[str, int] | None:
    """(name, offset) where an address lies in a .param variable of a call or of a .func."""
    if isinstance(operand, Address) and isinstance(operand.base, Name) and operand.base.text in compiler.params:
        return operand.base.text, evaluate(operand.offset.text).value if operand.offset else 0
    return None


def _parts(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def load(compiler: Any, instruction: Instruction) -> Step:
    m = modifiers(instruction)
    bits = width(m.type)
    size = bits // 8
    if bits == 128:
        raise unsupported("a 128-bit type", compiler.where(instruction))
    targets = _parts(instruction.operands[0])
    writes = [compiler.operands.write(t, bits, instruction, is_signed(m.type)) for t in targets]
    space = isa.memory_space(instruction)
    parameter = parameter_of(compiler, instruction.operands[1])
    if parameter is not None:
        return _load_parameter(parameter, size, writes)
    read = address_reader(compiler, instruction.operands[1], instruction)
    count = len(targets)
    volatile = m.has("volatile") or m.has("relaxed") or m.has("acquire")

    def run(frame: Frame, lanes: Lanes) -> None:
        values = fetch(frame, lanes, space, read(frame, lanes), size, count, atomic=volatile)
        for write, value in zip(writes, values, strict=True):
            if write is not None:
                write(frame, value, lanes)

    return run


def _load_parameter(parameter: tuple[str, int], size: int, writes: list[Any]) -> Step:
    name, offset = parameter

    def run(frame: Frame, lanes: Lanes) -> None:
        rows = frame.parameters.get(name)
        if rows is None:
            raise memory.Fault("UNINITIALISED_MEMORY", f"a read of {name}, which was never written", 0)
        for k, write in enumerate(writes):
            part = np.ascontiguousarray(rows[:, offset + k * size : offset + (k + 1) * size])
            values = part.view(UNSIGNED[8 * size])[:, 0]
            if write is not None:
                write(frame, values if lanes is None else values[lanes], lanes)

    return run


def store(compiler: Any, instruction: Instruction) -> Step:
    m = modifiers(instruction)
    bits = width(m.type)
    size = bits // 8
    if bits == 128:
        raise unsupported("a 128-bit type", compiler.where(instruction))
    sources = _parts(instruction.operands[1])
    reads = [compiler.operands.read(s, bits, instruction) for s in sources]
    parameter = parameter_of(compiler, instruction.operands[0])
    if parameter is not None:
        return _store_parameter(parameter, compiler.params[parameter[0]], size, reads)
    space = isa.memory_space(instruction)
    at = address_reader(compiler, instruction.operands[0], instruction)
    volatile = m.has("volatile") or m.has("relaxed") or m.has("release")

    def run(frame: Frame, lanes: Lanes) -> None:
        put(frame, lanes, space, at(frame, lanes), size, [r(frame, lanes) for r in reads], atomic=volatile)

    return run


def _store_parameter(parameter: tuple[str, int], total: int, size: int, reads: list[Any]) -> Step:
    name, offset = parameter

    def run(frame: Frame, lanes: Lanes) -> None:
        rows = frame.parameters.get(name)
        if rows is None or len(rows) != frame.count:
            rows = np.zeros((frame.count, total), np.uint8)
            frame.parameters[name] = rows
        for k, read in enumerate(reads):
            value = np.broadcast_to(read(frame, lanes), frame.size(lanes)).astype(UNSIGNED[8 * size])
            part = np.ascontiguousarray(value).view(np.uint8).reshape(-1, size)
            if lanes is None:
                rows[:, offset + k * size : offset + (k + 1) * size] = part
            else:
                rows[lanes, offset + k * size : offset + (k + 1) * size] = part

    return run


# --- memory ----------------------------------------------------------------------------------------------


def fetch(
    frame: Frame, lanes: Lanes, space: str | None, address: Any, size: int, count: int, *, atomic: bool = False
) -> list[Any]:
    """``count`` values of ``size`` bytes from each lane's address."""
    memory.check_alignment(address, size * count)
    if space is None:
        return _generic(
            frame, lanes, address, lambda s, sub, a: fetch(frame, sub, s, a, size, count, atomic=atomic), count
        )
    if space in _WINDOWS:
        window, rows = _window(frame, lanes, space)
        offset = window.offsets(address, size * count, rows)
        frame.launch.watch.read(frame, lanes, space, offset, size * count, atomic)
        return memory.read_checked(window, offset, size, count)
    heap = frame.launch.heap
    offset = heap.offsets(address, size * count, False)
    if space != ".param":
        frame.launch.watch.read(frame, lanes, ".global", offset, size * count, atomic)
    values = memory.read(heap.views, offset, size, count)
    return values if np.ndim(address) else [v[0] for v in values]


def put(
    frame: Frame, lanes: Lanes, space: str | None, address: Any, size: int, values: list[Any], *, atomic: bool = False
) -> None:
    """Stores each lane's values at its address."""
    memory.check_alignment(address, size * len(values))
    if space is None:
        _generic_store(frame, lanes, address, size, values, atomic)
        return
    if space in _WINDOWS:
        window, rows = _window(frame, lanes, space)
        offset = window.offsets(address, size * len(values), rows)
        if frame.launch.trace is not None:
            frame.launch.trace.store(frame, lanes, space, address, size, values)
        frame.launch.watch.write(frame, lanes, space, offset, size * len(values), atomic)
        memory.write_marked(window, offset, size, values)
        return
    heap = frame.launch.heap
    offset = heap.offsets(address, size * len(values), True)
    if frame.launch.trace is not None:
        frame.launch.trace.store(frame, lanes, ".global", address, size, values)
    frame.launch.watch.write(frame, lanes, ".global", offset, size * len(values), atomic)
    if not np.ndim(address):
        values = [v if not np.ndim(v) else v[-1:] for v in values]
    memory.write(heap.views, offset, size, values)


def _window(frame: Frame, lanes: Lanes, space: str) -> tuple[memory.Window, Any]:
    launch = frame.launch
    places = frame.places(lanes)
    if space == ".shared":
        return launch.shared, places // launch.padded
    return launch.local, places


def classify(address: Any) -> Any:
    """0 heap, 1 shared, 2 local for generic addresses."""
    shared = (address >= np.uint64(memory.SHARED_WINDOW)) & (
        address < np.uint64(memory.SHARED_WINDOW + memory.WINDOW_SIZE)
    )
    local = (address >= np.uint64(memory.LOCAL_WINDOW)) & (
        address < np.uint64(memory.LOCAL_WINDOW + memory.WINDOW_SIZE)
    )
    return shared.astype(np.int8) + 2 * local.astype(np.int8)


_SPACES = (".global", ".shared", ".local")


def _generic(frame: Frame, lanes: Lanes, address: Any, access: Any, count: int) -> list[Any]:
    kind = np.atleast_1d(classify(address))
    first = int(kind[0])
    if (kind == first).all():
        return access(_SPACES[first], lanes, within(address, first))
    results: list[Any] = [None] * count
    everyone = np.arange(frame.count) if lanes is None else lanes
    for which in np.unique(kind):
        chosen = np.flatnonzero(kind == which)
        for k, value in enumerate(access(_SPACES[which], everyone[chosen], within(address[chosen], int(which)))):
            if results[k] is None:
                results[k] = np.zeros(len(everyone), np.asarray(value).dtype)
            results[k][chosen] = value
    return results


def _generic_store(frame: Frame, lanes: Lanes, address: Any, size: int, values: list[Any], atomic: bool) -> None:
    kind = np.atleast_1d(classify(address))
    first = int(kind[0])
    if (kind == first).all():
        put(frame, lanes, _SPACES[first], within(address, first), size, values, atomic=atomic)
        return
    everyone = np.arange(frame.count) if lanes is None else lanes
    for which in np.unique(kind):
        chosen = np.flatnonzero(kind == which)
        part = [v[chosen] if np.ndim(v) else v for v in values]
        put(frame, everyone[chosen], _SPACES[which], within(address[chosen], int(which)), size, part, atomic=atomic)


def within(address: Any, kind: int) -> Any:
    """A generic address as one of its space."""
    base = (0, memory.SHARED_WINDOW, memory.LOCAL_WINDOW)[kind]
    return address - np.uint64(base) if base else address


def convert_address(compiler: Any, instruction: Instruction) -> Step:
    """cvta[.to].space"""
    m = modifiers(instruction)
    bits = width(m.type)
    base = next((_WINDOWS[space] for word, space in _WINDOW_WORDS.items() if m.has(word)), 0)
    read = compiler.operands.read(instruction.operands[1], bits, instruction)
    write = compiler.operands.write(instruction.operands[0], bits, instruction)
    if bits == 32 and base:
        raise unsupported("cvta to a 32-bit generic address", compiler.where(instruction))
    step = UNSIGNED[bits](base) if bits == 64 else UNSIGNED[bits](0)
    if m.has("to"):
        return lambda frame, lanes: write and write(frame, read(frame, lanes) - step, lanes)
    return lambda frame, lanes: write and write(frame, read(frame, lanes) + step, lanes)


def is_space(compiler: Any, instruction: Instruction) -> Step:
    m = modifiers(instruction)
    kind = next((k for w, k in (("global", 0), ("shared", 1), ("shared::cta", 1), ("local", 2)) if m.has(w)), None)
    if kind is None:
        raise unsupported(instruction.full_opcode, compiler.where(instruction))
    read = compiler.operands.read(instruction.operands[1], 64, instruction)
    write = compiler.operands.write(instruction.operands[0], 1, instruction)
    return lambda frame, lanes: write and write(frame, classify(read(frame, lanes)) == kind, lanes)


def nothing(compiler: Any, instruction: Instruction) -> Step:
    """Prefetches and sleeps."""
    return lambda frame, lanes: None


def fence(compiler: Any, instruction: Instruction) -> Step:
    """In this order of execution every access is already visible; only the watch for races takes note."""
    return lambda frame, lanes: frame.launch.watch.fence(frame, lanes)


def copy_async(compiler: Any, instruction: Instruction) -> Step:
    """cp.async of 4, 8 or 16 bytes from global to shared; it completes at once, which no wait can observe."""
    m = modifiers(instruction)
    if m.words & {"commit_group", "wait_group", "wait_all"}:
        return nothing(compiler, instruction)
    if "bulk" in m.words or "mbarrier" in m.words or len(instruction.operands) < 3:
        raise unsupported(instruction.full_opcode, compiler.where(instruction))
    size = evaluate(instruction.operands[2].text).value  # type: ignore[union-attr]
    target = address_reader(compiler, instruction.operands[0], instruction)
    source = address_reader(compiler, instruction.operands[1], instruction)
    given = None
    if len(instruction.operands) == 4:
        given = compiler.operands.read(instruction.operands[3], 32, instruction)
    words = max(1, size // 4)

    def run(frame: Frame, lanes: Lanes) -> None:
        memory.check_alignment(target(frame, lanes), size)
        read = source(frame, lanes)
        count = np.broadcast_to(given(frame, lanes) if given else np.uint32(size), frame.size(lanes))
        values = _copied(frame, lanes, read, words, count)
        put(frame, lanes, ".shared", target(frame, lanes), 4, values)

    return run


def _copied(frame: Frame, lanes: Lanes, address: Any, words: int, count: Any) -> list[Any]:
    """32-bit words from global memory; those beyond a lane's byte count are zero and not read."""
    values = []
    everyone = np.arange(frame.count) if lanes is None else lanes
    address = np.broadcast_to(address, len(everyone))
    for k in range(words):
        wanted = np.flatnonzero(count >= 4 * (k + 1))
        value = np.zeros(len(everyone), np.uint32)
        if len(wanted):
            value[wanted] = fetch(frame, everyone[wanted], ".global", address[wanted] + np.uint64(4 * k), 4, 1)[0]
        values.append(value)
    return values
