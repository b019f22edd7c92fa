"""``hybridcc.execute``: arguments into memory, slices of blocks through the machine, memory back into the arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from hybridcc.errors import InputError
from hybridcc.passes.execute.compile import Compiler
from hybridcc.passes.execute.labels import label_counts
from hybridcc.passes.execute.layout import Layout, alignment_of, size_of
from hybridcc.passes.execute.machine import Launch
from hybridcc.passes.execute.memory import Heap
from hybridcc.passes.execute.program import Program
from hybridcc.passes.execute.trace import Trace
from hybridcc.ptx import parse
from hybridcc.ptx.nodes import Function, Module, Variable

MOST_REGISTER_BYTES = 2**30
"""A slice holds as many blocks as keep its registers (all written, none shared) below this many bytes."""
STEP_LIMIT = 20_000_000_000
SCHEDULES = ("lowest", "random", "reversed")


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """``block_counts``: executions of each basic block of the entry, by label (``@N`` for block N without one).

    ``counts_by_index`` has the same by block index. ``variables`` are the module's ``.global`` variables after the
    launch, by name. ``instructions`` counts thread instructions. ``flags`` name
    whatever the result rests on that hardware need not share (approximations, clocks, lost output).
    """

    block_counts: Mapping[str, int]
    counts_by_index: tuple[int, ...]
    instructions: int
    flags: tuple[str, ...]
    schedule: str
    variables: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class _Options:
    schedule: str
    seed: int
    step_limit: int
    detect_races: bool
    trace: Trace | None = None
    flags: set[str] = field(default_factory=set)
    counts: dict[str, Any] = field(default_factory=dict)
    steps: list[int] = field(default_factory=lambda: [0])


def execute(
    ptx: str | Module,
    entry: str | None = None,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    args: Sequence[Any] = (),
    shared_bytes: int = 0,
    *,
    schedule: str = "lowest",
    seed: int = 0,
    step_limit: int = STEP_LIMIT,
    detect_races: bool = True,
    trace: Trace | None = None,
) -> ExecutionResult:
    """Runs one launch of a kernel.

    ``args`` has one value per PTX parameter: a NumPy array for a pointer (changed in place; arrays that share memory
    share it here), a NumPy or Python scalar otherwise. ``grid`` and ``block`` are numbers or (x, y, z). ``schedule``:
    lowest (program counter first), random (warps, from ``seed``) or reversed. ``trace`` is told of blocks and stores.

    Raises ExecutionError for whatever PTX leaves undefined, naming thread, block and line; InputError for arguments
    that do not fit; PtxSyntaxError.
    """
    if schedule not in SCHEDULES:
        raise InputError(f"the schedule {schedule!r} is unknown", next_step=f"take one of {', '.join(SCHEDULES)}")
    module = ptx if isinstance(ptx, Module) else _prepared_text(ptx)
    function = _entry(module, entry)
    shape, threads = _shape(grid, "grid"), _shape(block, "block")
    if threads[0] * threads[1] * threads[2] > 1024:
        raise InputError(f"a block of {threads} has over 1024 threads", next_step="make the block smaller")
    options = _Options(schedule, seed, step_limit, detect_races, trace)
    heap = Heap()
    layout = Layout(module, heap, shared_bytes)
    programs = _programs(_Same(module), function.name)
    for each in module.functions:
        if each.name in programs:
            layout.place_body(each, programs[each.name].cfg.scoped)
    arrays = _Arrays(heap)
    parameters = _parameters(function, args, arrays)
    for declarator, content, alignment in parameters:
        layout.names[function.name, declarator] = heap.allocate(f"parameter {declarator}", content, alignment, False)
    heap.freeze()
    with np.errstate(all="ignore"):
        _run(module, function, programs, layout, heap, shape, threads, options)
    arrays.copy_back()
    return replace(_result(options, programs[function.name]), variables=_variables(module, layout, heap))


def _run(
    module: Module,
    function: Function,
    programs: dict[str, Program],
    layout: Layout,
    heap: Heap,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    options: _Options,
) -> None:
    shared = layout.finish()
    program = programs[function.name]
    total = grid[0] * grid[1] * grid[2]
    size = slice_blocks(program, block, options.schedule)
    for first in range(0, total, size):
        count = min(size, total - first)
        Launch(module, programs, layout, heap, grid, block, first, count, shared, options).run(program)


@lru_cache(maxsize=16)
def _prepared_text(ptx: str) -> Module:
    return parse(ptx, "<ptx>")


@lru_cache(maxsize=32)
def _programs(prepared: _Same, entry: str) -> dict[str, Program]:
    """The entry and every .func, decoded. Kept: checking runs the same few texts on hundreds of launches."""
    module = prepared.module
    wanted = (f for f in module.functions if f.body is not None and (f.kind == ".func" or f.name == entry))
    return {f.name: Compiler(f, module).program() for f in wanted}


@dataclass(frozen=True, eq=False)
class _Same:
    """A module as a key by identity: hashing its content would cost more than decoding it."""

    module: Module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.module is self.module

    def __hash__(self) -> int:
        return id(self.module)


def slice_blocks(program: Program, block: tuple[int, int, int], schedule: str) -> int:
    """How many blocks run at once."""
    per_thread = sum(max(1, bits // 8) for bits in program.widths.values()) + 64
    threads = block[0] * block[1] * block[2]
    return max(1, MOST_REGISTER_BYTES // max(1, per_thread * threads))


def _variables(module: Module, layout: Layout, heap: Heap) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in module.items:
        if isinstance(item, Variable) and item.space == ".global":
            for declarator in item.names:
                address = layout.names.get(("", declarator.name))
                if address is not None:
                    found[declarator.name] = heap.content(address, size_of(item, declarator)).tobytes()
    return found


def _result(options: _Options, program: Program) -> ExecutionResult:
    counts = options.counts.get(program.name, np.zeros(len(program.cfg.blocks), np.int64))
    return ExecutionResult(
        label_counts(program.cfg, counts),
        tuple(int(c) for c in counts),
        options.steps[0],
        tuple(sorted(options.flags)),
        options.schedule,
    )


# --- arguments -------------------------------------------------------------------------------------------


class _Arrays:
    """The memory behind the arrays that were passed, once per buffer, and the way back."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self.places: dict[int, tuple[Any, int]] = {}

    def pointer(self, array: Any, name: str) -> int:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not root.flags.c_contiguous and not root.flags.f_contiguous:
            root = array
        place = root.__array_interface__["data"][0]
        if id(root) not in self.places:
            flat = root.reshape(-1, order="A")
            # keep the address modulo 256: what is aligned here is aligned there
            address = self.heap.allocate(name, flat.tobytes(), 256, root.flags.writeable, skew=0)
            self.places[id(root)] = (root, address)
        _, address = self.places[id(root)]
        return address + array.__array_interface__["data"][0] - place

    def copy_back(self) -> None:
        for root, address in self.places.values():
            if root.flags.writeable and root.nbytes:
                content = self.heap.content(address, root.nbytes)
                flat = root.reshape(-1, order="A")
                flat[...] = content.view(root.dtype) if root.dtype.hasobject is False else flat


def _parameters(function: Function, args: Sequence[Any], arrays: _Arrays) -> list[tuple[str, bytes, int]]:
    if len(args) != len(function.parameters):
        raise InputError(
            f"{function.name[:60]} has {len(function.parameters)} parameters and {len(args)} arguments were given",
            next_step="give one value per PTX parameter",
        )
    made = []
    for number, (variable, value) in enumerate(zip(function.parameters, args, strict=True)):
        declarator = variable.names[0]
        size = size_of(variable, declarator)
        if isinstance(value, np.ndarray) and not (value.ndim == 0 and size != 8):
            content = arrays.pointer(value, f"argument {number}").to_bytes(8, "little")
        else:
            content = _scalar(value, variable.type, size, number)
        made.append((declarator.name, content, max(8, alignment_of(variable))))
    return made


def _scalar(value: Any, type_: str, size: int, number: int) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        content = bytes(value)
    elif isinstance(value, (np.generic, np.ndarray)):
        content = value.tobytes()
    elif isinstance(value, float):
        content = np.dtype({8: np.float64, 4: np.float32, 2: np.float16}[size]).type(value).tobytes()
    elif isinstance(value, int):
        content = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    else:
        raise InputError(
            f"argument {number} is a {type(value).__name__}", next_step="give a NumPy array or a NumPy scalar"
        )
    if len(content) != size:
        raise InputError(
            f"argument {number} has {len(content)} bytes where the parameter ({type_}) has {size}",
            next_step="give a NumPy scalar of the parameter's width",
        )
    return content


def _entry(module: Module, name: str | None) -> Function:
    entries = module.entries
    if name is None:
        if len(entries) == 1:
            return entries[0]
        raise InputError(f"the module has {len(entries)} entries", next_step="name one of them")
    for function in entries:
        if function.name == name:
            return function
    known = ", ".join(f.name[:60] for f in entries) or "none"
    raise InputError(f"there is no entry {name[:60]!r}", next_step=f"entries: {known}")


def _shape(value: int | Sequence[int], what: str) -> tuple[int, int, int]:
    sizes = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    sizes = tuple(int(s) for s in sizes) + (1,) * (3 - len(sizes))
    if len(sizes) != 3 or any(s < 1 for s in sizes):
        raise InputError(f"{what} {value} is no launch shape", next_step="give one to three numbers of at least 1")
    return sizes  # type: ignore[return-value]
