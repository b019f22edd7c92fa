"""What the racing process has on the device: the caller's values, sets of buffers, and contenders ready to launch."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import DeviceError
from hybridcc.passes.verify.launch import Shape
from hybridcc.runtime import device, race_memory
from hybridcc.runtime.driver import bindings, call
from hybridcc.runtime.launch import LoadedKernel
from hybridcc.runtime.race_job import Job
from hybridcc.runtime.race_memory import POISON, BufferSet, Comparer, Scrubber
from hybridcc.runtime.race_statistics import CONTROL

BASELINE = "baseline"
MOST_SETS = 16
COPIES = 3
"""Of the arguments at a time, besides the caller's values and the sets that are launched on: what the baseline leaves,
what it leaves of poisoned outputs, and what it leaves at another launch shape or left before."""


def tell(event: str, **data: Any) -> None:
    print(json.dumps({"event": event, **data}), flush=True)


class Stop(Exception):
    """Nothing further can be said: ``reason`` and what to do."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.reason, self.next_step = reason, next_step


class Refused(DeviceError):
    """The driver refused a launch at once, and goes on: too many registers for the block, for instance."""


@dataclass(slots=True, eq=False)
class Runner:
    """A contender ready to run: one prepared parameter block per buffer set, one graph of a whole batch."""

    name: str
    loaded: LoadedKernel
    parameters: list[tuple[Any, Any]] = field(default_factory=list)
    """(memory kept alive, array of addresses) per buffer set."""
    launches: int = 1
    graph: Any = None


@dataclass(slots=True)
class Arena:
    """Everything on the device that a race uses."""

    job: Job
    folder: Path
    stream: Any
    pristine: list[int]
    """The caller's values, buffer by buffer."""
    sets: list[BufferSet]
    comparer: Comparer
    scrubber: Scrubber | None
    runners: dict[str, Runner] = field(default_factory=dict)
    loaded: list[Runner] = field(default_factory=list)


def set_up(job: Job, folder: Path, facts: device.Device) -> Arena:
    """Raises Stop when the arguments do not fit in the GPU's memory, or when the comparison does not work."""
    driver = bindings()
    stream = call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    comparer = Comparer(stream)
    if not comparer.works():
        raise Stop("the comparison misses a planted difference", "report this with the GPU's and driver's names")
    count = _how_many_sets(job, facts.l2_bytes)
    pristine = [race_memory.allocate(size) for size in job.sizes]
    for index, address in enumerate(pristine):
        race_memory.upload(address, np.fromfile(folder / f"buffer{index}.bin", np.uint8))
    sets = [race_memory.buffer_set(job.sizes, job.alignments) for _ in range(count)]
    scrubber = Scrubber(stream, facts) if job.scrub else None
    arena = Arena(job, folder, stream, pristine, sets, comparer, scrubber)
    for name, entry in job.contenders:
        tell("begin", contender=name)
        arena.runners[name] = load(arena, name, f"{name}.cubin", entry)
        if name == BASELINE:
            arena.runners[CONTROL] = load(arena, CONTROL, f"{name}.cubin", entry)
    return arena


def tear_down(arena: Arena) -> None:
    """Give everything back, so that the next job in this process finds the device as the first did."""
    driver = bindings()
    call(driver.cuStreamSynchronize, arena.stream)
    while arena.loaded:
        unload(arena, arena.loaded[-1])
    arena.comparer.kernel.unload()
    if arena.scrubber is not None:
        arena.scrubber.kernel.unload()
    race_memory.free_all()
    call(driver.cuStreamDestroy, arena.stream)


def _how_many_sets(job: Job, l2_bytes: int) -> int:
    """Enough that a set has left the L2 cache before it is used again, as far as MOST_SETS and memory allow."""
    total = sum(job.sizes)
    each = sum(race_memory.whole_size(size) for size in job.sizes)
    free, _ = call(bindings().cuMemGetInfo)
    affordable = (int(free * 0.9) - total) // each - COPIES if each else 1
    if affordable < 1:
        raise Stop(
            f"memory: the arguments ({total >> 20} MiB) do not fit {COPIES + 2} times in the {free >> 20} MiB of the "
            "GPU's memory that are free",
            race_memory.SMALLER,
        )
    wanted = 1 if not total or total >= 2 * l2_bytes else min(MOST_SETS, 2 * l2_bytes // total + 1)
    return min(wanted, affordable)


def load(arena: Arena, name: str, file: str, entry: str) -> Runner:
    loaded = LoadedKernel((arena.folder / file).read_bytes(), entry)
    if arena.job.shared_bytes > 48 << 10:  # more than that must be asked for
        loaded.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", arena.job.shared_bytes, device.current().ordinal)
    runner = Runner(name, loaded)
    arena.loaded.append(runner)
    parameters = arena.job.own.get(name, arena.job.parameters)
    for each in arena.sets:
        data = parameters.filled(each.addresses)
        memory = ctypes.create_string_buffer(data, len(data))
        base = ctypes.addressof(memory)
        offsets = parameters.offsets
        pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
        runner.parameters.append((memory, pointers))
    return runner


def unload(arena: Arena, runner: Runner) -> None:
    drop_graph(runner)
    runner.loaded.unload()
    arena.loaded.remove(runner)


def drop_graph(runner: Runner) -> None:
    if runner.graph is not None:
        call(bindings().cuGraphExecDestroy, runner.graph)
        runner.graph = None


def restore(arena: Arena, which: Sequence[int] | None = None, poison: Sequence[int] = ()) -> None:
    """Put the caller's values back into the sets (all of them), on the stream; buffers ``poison`` are poisoned."""
    driver = bindings()
    for index in range(len(arena.sets)) if which is None else which:
        pairs = zip(arena.sets[index].addresses, arena.pristine, arena.job.sizes, strict=True)
        for buffer, (address, source, size) in enumerate(pairs):
            if size and buffer in poison:
                call(driver.cuMemsetD8Async, address, POISON, size, arena.stream)
            elif size:
                call(driver.cuMemcpyDtoDAsync, address, source, size, arena.stream)


def launch(arena: Arena, runner: Runner, index: int, shape: tuple[Shape, Shape] | None = None) -> None:
    """Queue one launch on set ``index``, at the job's shape unless another is given. Raises Refused; what goes wrong
    later shows at the next synchronisation."""
    job = arena.job
    grid, block = shape or (job.grid, job.block)
    pointers = ctypes.addressof(runner.parameters[index][1])
    function = runner.loaded.function
    try:
        call(bindings().cuLaunchKernel, function, *grid, *block, job.shared_bytes, arena.stream, pointers, 0)
    except DeviceError as error:
        raise Refused(error.what, next_step=error.next_step) from error
