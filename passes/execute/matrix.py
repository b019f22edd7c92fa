"""Matrix instructions of a warp: mma.sync, ldmatrix, stmatrix, movmatrix (PTX ISA 9.0, section 9.7.14).

Integer and single-bit products are exact. How the hardware accumulates floating-point ones is undocumented, so they
are flagged as not bit-exact: f64 is a chain of fma (as an H200 does it), the others are summed in f64 and rounded once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridcc.passes.execute import numpy_floats
from hybridcc.passes.execute.access import address_reader, fetch, put
from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.memory import Fault
from hybridcc.passes.execute.operands import unsupported
from hybridcc.passes.execute.program import Step
from hybridcc.passes.execute.warp import FULL, gathered
from hybridcc.ptx import isa
from hybridcc.ptx.algebra import FloatOperation
from hybridcc.ptx.nodes import Instruction, Operand, Vector

_BITS = {"u8": 8, "s8": 8, "u4": 4, "s4": 4, "b1": 1, "f16": 16, "bf16": 16, "tf32": 32, "f64": 64}
"""Element widths of the multiplicands."""


@dataclass(frozen=True, slots=True)
class Shape:
    """D[m, n] = A[m, k] B[k, n] + C, with the element types of d, a, b and c."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str


def _parts(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _shape(instruction: Instruction) -> Shape | None:
    """None where the instruction is none that is executed here."""
    words = [m[1:] for m in instruction.modifiers]
    sizes = [found for w in words if (found := re.fullmatch(r"m([0-9]+)n([0-9]+)k([0-9]+)", w))]
    types = [w for w in words if w in _BITS or w in ("s32", "f32")]
    known = {"sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc", *types}
    if len(sizes) != 1 or len(types) != 4 or set(words) - known - {sizes[0].group()}:
        return None
    m, n, k = (int(g) for g in sizes[0].groups())
    shape = Shape(m, n, k, *types)
    if n != 8 or m not in (8, 16) or shape.a not in _BITS or _BITS[shape.a] != _BITS.get(shape.b):
        return None
    return None if (m, k, shape.a) == (8, 4, "f16") else shape  # Volta's own layout


def multiply(compiler: Any, instruction: Instruction) -> Step:
    """mma.sync.aligned of every shape with n = 8, but Volta's m8n8k4."""
    shape = _shape(instruction)
    if shape is None:
        raise unsupported(instruction.full_opcode, compiler.where(instruction))
    register = 64 if shape.a == "f64" else 32
    accumulator = 64 if shape.c == "f64" else 32
    groups = [_parts(o) for o in instruction.operands[:4]]
    writes = [compiler.operands.write(o, accumulator, instruction) for o in groups[0]]
    reads = [
        [compiler.operands.read(o, w, instruction) for o in group]
        for group, w in zip(groups[1:], (register, register, accumulator), strict=True)
    ]
    modifiers = frozenset(instruction.modifiers)
    if len(groups[1]) * register * 32 != shape.m * shape.k * _BITS[shape.a]:
        raise unsupported(f"{instruction.full_opcode} with {len(groups[1])} registers", compiler.where(instruction))

    def run(frame: Frame, lanes: Lanes) -> None:
        row, lane, count = _warps(frame, lanes)
        a, b, c = ([np.broadcast_to(r(frame, lanes), len(lane)) for r in group] for group in reads)
        left = _gather_a(a, row, lane, count, shape)
        right = _gather_b(b, row, lane, count, shape)
        add = _gather_c(c, row, lane, count, shape)
        product = _product(left, right, add, shape, modifiers)
        if shape.c != "s32":
            frame.launch.flag(f"not bit-exact: {instruction.full_opcode}")
        for write, value in zip(writes, _scatter(product, row, lane, shape, len(writes)), strict=True):
            if write is not None:
                write(frame, value, lanes)

    return run


def _warps(frame: Frame, lanes: Lanes) -> tuple[Any, Any, int]:
    """(number of the warp among those here, lane, warps). Raises Fault unless whole warps execute."""
    warp, lane = gathered(frame, lanes, FULL)
    present, row = np.unique(warp, return_inverse=True)
    if len(lane) != 32 * len(present):
        short = int(np.flatnonzero(np.bincount(row)[row] != 32)[0])
        raise Fault("CONVERGENCE", "an .aligned instruction of a warp that has not all its 32 threads", short)
    return row, lane, len(present)


# --- fragments: which element of a matrix lies where (figures of section 9.7.14.5) ----------------------------


def _elements(registers: list[Any], type_: str) -> list[list[Any]]:
    """Per register its elements, lowest first, as f64 numbers: every multiplicand is exact in f64."""
    bits = _BITS[type_]
    if bits == 64:
        return [[numpy_floats.to_f64(r, "f64")] for r in registers]
    if bits == 32:  # of a tf32 operand only the upper 19 bits are read
        return [[numpy_floats.to_f64(r & np.uint32(0xFFFFE000), "tf32")] for r in registers]
    mask = np.uint32((1 << bits) - 1)
    fields = [[(r >> np.uint32(bits * i)) & mask for i in range(32 // bits)] for r in registers]
    if bits == 16:
        return [[numpy_floats.to_f64(f.astype(np.uint16), type_) for f in row] for row in fields]
    if type_[0] == "s":
        return [[f.astype(np.float64) - (f >> np.uint32(bits - 1)) * float(1 << bits) for f in row] for row in fields]
    return [[f.astype(np.float64) for f in row] for row in fields]


def _gather_a(registers: list[Any], row: Any, lane: Any, count: int, shape: Shape) -> Any:
    matrix = np.zeros((count, shape.m, shape.k))
    group, member = lane >> 2, lane & 3
    for r, elements in enumerate(_elements(registers, shape.a)):
        halves, step = (r % 2, r // 2) if shape.m == 16 else (0, r)
        for i, value in enumerate(elements):
            n = len(elements)
            matrix[row, group + 8 * halves, member * n + i + 4 * n * step] = value
    return matrix


def _gather_b(registers: list[Any], row: Any, lane: Any, count: int, shape: Shape) -> Any:
    matrix = np.zeros((count, shape.k, shape.n))
    group, member = lane >> 2, lane & 3
    for r, elements in enumerate(_elements(registers, shape.b)):
        n = len(elements)
        for i, value in enumerate(elements):
            matrix[row, member * n + i + 4 * n * r, group] = value
    return matrix


def _accumulators(registers: list[Any], type_: str) -> list[Any]:
    """The accumulator's elements in order: c0, c1 of the upper rows, c2, c3 of the lower."""
    match type_:
        case "s32":
            return [r.view(np.int32).astype(np.float64) for r in registers]
        case "f16":
            halves = [(r >> np.uint32(16 * i)).astype(np.uint16) for r in registers for i in range(2)]
            return [numpy_floats.to_f64(h, "f16") for h in halves]
        case _:
            return [numpy_floats.to_f64(r, type_) for r in registers]


def _gather_c(registers: list[Any], row: Any, lane: Any, count: int, shape: Shape) -> Any:
    matrix = np.zeros((count, shape.m, shape.n))
    for i, value in enumerate(_accumulators([np.ascontiguousarray(r) for r in registers], shape.c)):
        matrix[row, (lane >> 2) + 8 * (i // 2), (lane & 3) * 2 + i % 2] = value
    return matrix


def _scatter(matrix: Any, row: Any, lane: Any, shape: Shape, count: int) -> list[Any]:
    """A bit matrix as each thread's registers."""
    per_register = 2 if shape.d == "f16" else 1
    elements = [matrix[row, (lane >> 2) + 8 * (i // 2), (lane & 3) * 2 + i % 2] for i in range(count * per_register)]
    if per_register == 1:
        return elements
    low, high = (x.astype(np.uint32) for x in (np.stack(elements[::2]), np.stack(elements[1::2])))
    return list(low | high << np.uint32(16))


# --- arithmetic -----------------------------------------------------------------------------------------------


def _product(left: Any, right: Any, add: Any, shape: Shape, modifiers: frozenset[str]) -> Any:
    """The bits of D."""
    if shape.d == "f64":
        return _chain(left, right, add)
    if ".xor" in modifiers:
        ones = left.sum(axis=2)[:, :, None] + right.sum(axis=1)[:, None, :]
        total = ones - 2 * (left @ right) + add
    else:
        total = left @ right + add
    if shape.d != "s32":
        return numpy_floats.from_f64(total, shape.d, "rn")
    if ".satfinite" in modifiers:
        total = np.clip(total, -(2.0**31), 2.0**31 - 1)
    # sums stay far below 2**53: f64 holds them exactly
    return total.astype(np.int64).astype(np.uint32)


def _chain(left: Any, right: Any, add: Any) -> Any:
    step = FloatOperation("fma", "f64", "rn")
    total = add.view(np.uint64)
    for k in range(left.shape[2]):
        factors = np.broadcast_arrays(left[:, :, k, None], right[:, None, k, :])
        total = numpy_floats.operation(step, (*(np.ascontiguousarray(f).view(np.uint64) for f in factors), total))
    return total


# --- rows of eight 16-bit elements ----------------------------------------------------------------------------


def _space(instruction: Instruction) -> str | None:
    """Generic addresses unless a space is spelled."""
    spelled = any(m.startswith(".shared") for m in instruction.modifiers)
    return isa.memory_space(instruction) if spelled else None


def _matrices(instruction: Instruction, compiler: Any) -> int:
    """How many 8 by 8 matrices of 16-bit elements are moved."""
    words = set(instruction.modifiers)
    if words & {".m8n16", ".m16n16", ".m16n8", ".b8"} or ".b16" not in words:
        raise unsupported(instruction.full_opcode, compiler.where(instruction))
    return int(next(w for w in (".x1", ".x2", ".x4") if w in words)[2])


def load(compiler: Any, instruction: Instruction) -> Step:
    """ldmatrix.sync.aligned.m8n8.{x1,x2,x4}[.trans].b16: row i of matrix j comes from the address of lane 8j + i."""
    count = _matrices(instruction, compiler)
    transposed = ".trans" in instruction.modifiers
    writes = [compiler.operands.write(o, 32, instruction) for o in _parts(instruction.operands[0])]
    space = _space(instruction)
    at = address_reader(compiler, instruction.operands[1], instruction)

    def run(frame: Frame, lanes: Lanes) -> None:
        row, lane, warps = _warps(frame, lanes)
        giving = np.flatnonzero(lane < 8 * count)
        address = np.broadcast_to(at(frame, lanes), len(lane))[giving]
        words = fetch(frame, giving if lanes is None else lanes[giving], space, address, 4, 4)
        table = np.zeros((warps, count, 8, 4), np.uint32)
        table[row[giving], lane[giving] >> 3, lane[giving] & 7] = np.stack(words, axis=-1)
        for j, write in enumerate(writes):
            if write is not None:
                write(frame, _read_matrix(table[:, j].view(np.uint16), row, lane, transposed), lanes)

    return run


def store(compiler: Any, instruction: Instruction) -> Step:
    """stmatrix, the reverse of ldmatrix."""
    count = _matrices(instruction, compiler)
    transposed = ".trans" in instruction.modifiers
    reads = [compiler.operands.read(o, 32, instruction) for o in _parts(instruction.operands[1])]
    space = _space(instruction)
    at = address_reader(compiler, instruction.operands[0], instruction)

    def run(frame: Frame, lanes: Lanes) -> None:
        row, lane, warps = _warps(frame, lanes)
        table = np.zeros((warps, count, 8, 8), np.uint16)
        for j, read in enumerate(reads):
            _write_matrix(table[:, j], read(frame, lanes), row, lane, transposed)
        giving = np.flatnonzero(lane < 8 * count)
        address = np.broadcast_to(at(frame, lanes), len(lane))[giving]
        words = table.view(np.uint32)[row[giving], lane[giving] >> 3, lane[giving] & 7]
        values = [np.ascontiguousarray(words[:, k]) for k in range(4)]
        put(frame, giving if lanes is None else lanes[giving], space, address, 4, values)

    return run


def transpose(compiler: Any, instruction: Instruction) -> Step:
    """movmatrix.sync.aligned.m8n8.trans.b16"""
    write = compiler.operands.write(instruction.operands[0], 32, instruction)
    read = compiler.operands.read(instruction.operands[1], 32, instruction)

    def run(frame: Frame, lanes: Lanes) -> None:
        row, lane, warps = _warps(frame, lanes)
        table = np.zeros((warps, 8, 8), np.uint16)
        _write_matrix(table, read(frame, lanes), row, lane, False)
        if write is not None:
            write(frame, _read_matrix(table, row, lane, True), lanes)

    return run


def _read_matrix(matrix: Any, row: Any, lane: Any, transposed: bool) -> Any:
    """A thread's two elements of 8 by 8: row lane/4, columns 2(lane%4) and the next; packed, first one lowest."""
    first, second = _places(lane, transposed)
    low, high = (matrix[row, i, j].astype(np.uint32) for i, j in (first, second))
    return low | high << np.uint32(16)


def _write_matrix(matrix: Any, value: Any, row: Any, lane: Any, transposed: bool) -> None:
    value = np.broadcast_to(value, len(lane))
    for shift, (i, j) in zip((0, 16), _places(lane, transposed), strict=True):
        matrix[row, i, j] = (value >> np.uint32(shift)).astype(np.uint16)


def _places(lane: Any, transposed: bool) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    at, column = lane >> 2, (lane & 3) * 2
    if transposed:
        return (column, at), (column + 1, at)
    return (at, column), (at, column + 1)
