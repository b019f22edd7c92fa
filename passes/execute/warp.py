"""What threads of a warp or a block do together (PTX ISA 9.0, sections 9.7.9.6 and 9.7.13).

A warp operation waits for the threads its mask names. Threads run lowest program counter first, so in code that
reconverges they have all arrived; a live thread that is named and elsewhere is an error here, a hang on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.memory import Fault
from hybridcc.passes.execute.operands import unsupported
from hybridcc.passes.execute.program import Step
from hybridcc.ptx.nodes import Instruction, Pair
from hybridcc.ptx.semantics import modifiers
from hybridcc.ptx.types import is_signed, width

FULL = np.uint32(0xFFFFFFFF)


def gathered(frame: Frame, lanes: Lanes, mask: Any) -> tuple[Any, Any]:
    """(warp, lane) of each thread, after the check that everyone the mask names is here. Raises Fault."""
    places = frame.places(lanes)
    warp, lane = places // 32, places % 32
    mask = np.broadcast_to(mask, len(places))
    own = (mask >> lane.astype(np.uint32)) & np.uint32(1)
    if not own.all():
        raise Fault("CONVERGENCE", "the member mask leaves out the thread that executes it", int(np.argmin(own)))
    here = ballots(frame, warp, lane, np.ones(len(places), bool))
    missing = mask & frame.launch.alive_mask(warp) & ~here
    if missing.any():
        which = int(np.flatnonzero(missing)[0])
        raise Fault(
            "CONVERGENCE", f"the member mask names threads that are not here (0x{int(missing[which]):x})", which
        )
    return warp, lane


def ballots(frame: Frame, warp: Any, lane: Any, holds: Any) -> Any:
    """For each thread, the 32-bit mask of its warp's threads (of those given) for which ``holds``."""
    table = np.zeros(frame.launch.warps, np.uint32)
    bits = np.where(holds, np.uint32(1) << lane.astype(np.uint32), np.uint32(0))
    np.bitwise_or.at(table, warp, bits)
    return table[warp]


def _mask(compiler: Any, instruction: Instruction, operand: int) -> Any:
    if ".sync" not in instruction.modifiers:
        raise unsupported(f"{instruction.full_opcode} (without .sync)", compiler.where(instruction))
    return compiler.operands.read(instruction.operands[operand], 32, instruction)


def shuffle(compiler: Any, instruction: Instruction) -> Step:
    """shfl.sync.{up,down,bfly,idx}.b32 d|p, a, b, c, mask"""
    m = modifiers(instruction)
    mode = m.one_of(("up", "down", "bfly", "idx"))
    target = instruction.operands[0]
    value_to = target.first if isinstance(target, Pair) else target
    write = compiler.operands.write(value_to, 32, instruction)
    write_p = compiler.operands.write(target.second, 1, instruction) if isinstance(target, Pair) else None
    a, b, c = (compiler.operands.read(o, 32, instruction) for o in instruction.operands[1:4])
    mask = _mask(compiler, instruction, 4)

    def run(frame: Frame, lanes: Lanes) -> None:
        warp, lane = gathered(frame, lanes, mask(frame, lanes))
        n = len(warp)
        value = np.broadcast_to(a(frame, lanes), n)
        by, control = (np.broadcast_to(r(frame, lanes), n).astype(np.int64) for r in (b, c))
        source, valid = shuffle_source(mode, lane, by & 31, control)
        table = np.zeros((frame.launch.warps, 32), np.uint32)
        present = np.zeros((frame.launch.warps, 32), bool)
        table[warp, lane] = value
        present[warp, lane] = True
        absent = valid & ~present[warp, source]
        if absent.any():
            raise Fault("CONVERGENCE", f"{instruction.full_opcode} reads a thread that is not here",
                        int(np.flatnonzero(absent)[0]))  # fmt: skip
        if write is not None:
            write(frame, np.where(valid, table[warp, source], value), lanes)
        if write_p is not None:
            write_p(frame, valid, lanes)

    return run


def shuffle_source(mode: str, lane: Any, by: Any, control: Any) -> tuple[Any, Any]:
    """(source lane, whether it is in range), by the pseudocode of section 9.7.9.6."""
    clamp = control & 31
    segment = (control >> 8) & 31
    least = lane & segment
    most = least | (clamp & ~segment)
    match mode:
        case "up":
            source = lane - by
            valid = source >= most
        case "down":
            source = lane + by
            valid = source <= most
        case "bfly":
            source = lane ^ by
            valid = source <= most
        case _:
            source = least | (by & ~segment)
            valid = source <= most
    return np.where(valid, source, lane), valid


def vote(compiler: Any, instruction: Instruction) -> Step:
    """vote.sync.{all,any,uni}.pred and vote.sync.ballot.b32"""
    m = modifiers(instruction)
    mode = m.one_of(("all", "any", "uni", "ballot"))
    write = compiler.operands.write(instruction.operands[0], 32 if mode == "ballot" else 1, instruction)
    p = compiler.operands.read(instruction.operands[1], 1, instruction)
    mask = _mask(compiler, instruction, 2)

    def run(frame: Frame, lanes: Lanes) -> None:
        member = mask(frame, lanes)
        warp, lane = gathered(frame, lanes, member)
        holds = np.broadcast_to(p(frame, lanes), len(warp))
        yes = ballots(frame, warp, lane, holds) & member
        here = ballots(frame, warp, lane, np.ones(len(warp), bool)) & member
        result = {"all": yes == here, "any": yes != 0, "uni": (yes == here) | (yes == 0), "ballot": yes}[mode]
        if write is not None:
            write(frame, result, lanes)

    return run


def match(compiler: Any, instruction: Instruction) -> Step:
    """match.any.sync and match.all.sync"""
    m = modifiers(instruction)
    bits = width(m.type)
    every = m.has("all")
    target = instruction.operands[0]
    first = target.first if isinstance(target, Pair) else target
    write = compiler.operands.write(first, 32, instruction)
    write_p = compiler.operands.write(target.second, 1, instruction) if isinstance(target, Pair) else None
    a = compiler.operands.read(instruction.operands[1], bits, instruction)
    mask = _mask(compiler, instruction, 2)

    def run(frame: Frame, lanes: Lanes) -> None:
        warp, lane = gathered(frame, lanes, mask(frame, lanes))
        value = np.broadcast_to(a(frame, lanes), len(warp))
        keys = np.stack([warp.astype(np.uint64), value.astype(np.uint64)], axis=1)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        table = np.zeros(int(group.max()) + 1, np.uint32)
        np.bitwise_or.at(table, group, np.uint32(1) << lane.astype(np.uint32))
        same = table[group]
        if every:
            whole = same == ballots(frame, warp, lane, np.ones(len(warp), bool))
            same = np.where(whole, same, np.uint32(0))
            if write_p is not None:
                write_p(frame, whole, lanes)
        if write is not None:
            write(frame, same, lanes)

    return run


def redux(compiler: Any, instruction: Instruction) -> Step:
    """redux.sync.{add,min,max,and,or,xor} of 32-bit integers"""
    m = modifiers(instruction)
    operation = m.one_of(("add", "min", "max", "and", "or", "xor"))
    if m.type[:1] == "f" or not operation:
        raise unsupported(instruction.full_opcode, compiler.where(instruction))
    signed = is_signed(m.type)
    write = compiler.operands.write(instruction.operands[0], 32, instruction)
    a = compiler.operands.read(instruction.operands[1], 32, instruction)
    mask = _mask(compiler, instruction, 2)
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
             "xor": np.bitwise_xor}[operation]  # fmt: skip

    def run(frame: Frame, lanes: Lanes) -> None:
        warp, _ = gathered(frame, lanes, mask(frame, lanes))
        value = np.array(np.broadcast_to(a(frame, lanes), len(warp)))
        if signed:
            value = value.view(np.int32)
        order = np.argsort(warp, kind="stable")
        starts = np.flatnonzero(np.diff(warp[order], prepend=-1))
        totals = ufunc.reduceat(value[order], starts, dtype=value.dtype)
        table = np.zeros(frame.launch.warps, value.dtype)
        table[warp[order][starts]] = totals
        if write is not None:
            write(frame, table[warp].view(np.uint32), lanes)

    return run


def active_mask(compiler: Any, instruction: Instruction) -> Step:
    write = compiler.operands.write(instruction.operands[0], 32, instruction)

    def run(frame: Frame, lanes: Lanes) -> None:
        places = frame.places(lanes)
        frame.launch.flag("depends on which threads run together: activemask")
        if write is not None:
            write(frame, ballots(frame, places // 32, places % 32, np.ones(len(places), bool)), lanes)

    return run


def elect(compiler: Any, instruction: Instruction) -> Step:
    """elect.sync d|p, mask: the lowest lane of the mask, as hardware does (any would be allowed)."""
    target = instruction.operands[0]
    pair = isinstance(target, Pair)
    write = compiler.operands.write(target.first, 32, instruction) if pair else None
    write_p = compiler.operands.write(target.second if pair else target, 1, instruction)
    mask = _mask(compiler, instruction, 1)

    def run(frame: Frame, lanes: Lanes) -> None:
        member = mask(frame, lanes)
        warp, lane = gathered(frame, lanes, member)
        member = np.broadcast_to(member, len(warp)) & ballots(frame, warp, lane, np.ones(len(warp), bool))
        leader = np.bitwise_count((member & (~member + np.uint32(1))) - np.uint32(1)).astype(np.uint32)
        if write is not None:
            write(frame, leader, lanes)
        if write_p is not None:
            write_p(frame, leader == lane, lanes)

    return run


def warp_barrier(compiler: Any, instruction: Instruction) -> Step:
    """bar.warp.sync mask: of the warp operations the only one that orders memory."""
    mask = compiler.operands.read(instruction.operands[0], 32, instruction)

    def run(frame: Frame, lanes: Lanes) -> None:
        warp, _ = gathered(frame, lanes, mask(frame, lanes))
        frame.launch.watch.warp_sync(warp)

    return run


def barrier(compiler: Any, instruction: Instruction) -> Any:
    """bar and barrier of a block: what the scheduler needs to let threads wait and go on.

    A function of (frame, lanes) giving (identifiers, counts or None, waits, reduction): ``waits`` is False for
    .arrive; ``reduction`` is (mode, predicate values, write) for .red.
    """
    m = modifiers(instruction)
    operands = list(instruction.operands)
    reduction = m.one_of(("popc", "and", "or")) if m.has("red") else ""
    write = None
    if reduction:
        bits = 32 if reduction == "popc" else 1
        write = compiler.operands.write(operands.pop(0), bits, instruction)
    p = compiler.operands.read(operands.pop(), 1, instruction) if reduction else None
    number = compiler.operands.read(operands[0], 32, instruction)
    count = compiler.operands.read(operands[1], 32, instruction) if len(operands) > 1 else None
    waits = not m.has("arrive")

    def describe(frame: Frame, lanes: Lanes) -> tuple[Any, Any, bool, Any]:
        n = frame.size(lanes)
        identifiers = np.broadcast_to(number(frame, lanes), n)
        counts = np.broadcast_to(count(frame, lanes), n) if count else None
        reduce = (reduction, np.broadcast_to(p(frame, lanes), n), write) if p else None
        return identifiers, counts, waits, reduce

    return describe
