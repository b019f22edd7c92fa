"""The child process of a race: owns its context, compares and times, and tells every raw sample as it comes.

Run as ``python -m hybridcc.runtime.race_worker FOLDER``; each line on stdout is one JSON object with an ``event``:

    device    facts of the GPU, the L2 policy, the batch sizes
    begin     a contender is about to run: if nothing follows, it was the one that killed the process
    check     a contender's memory against the baseline's, bit for bit: phase, equal, where it first differs
    sample    one timed batch (race_statistics.Sample)
    stop      nothing further can be said, and why
    done      all blocks were run

It decides nothing about speed: the parent computes from the samples.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import DeviceError
from hybridcc.runtime import clocks, device, race_memory
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.launch import LoadedKernel
from hybridcc.runtime.race_job import Job, read
from hybridcc.runtime.race_memory import POISON, BufferSet, Comparer
from hybridcc.runtime.race_statistics import CONTROL, Sample, blocks_for, schedule

BASELINE = "baseline"
BATCH_US = 2000.0
"""A sample lasts about this long, so that event resolution and queueing are below its noise."""

MOST_LAUNCHES = 512
MOST_SETS = 16
CHECKS_DURING = 4


def tell(event: str, **data: Any) -> None:
    print(json.dumps({"event": event, **data}), flush=True)


class Stop(Exception):
    """Nothing further can be said: ``reason`` and what to do."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.reason, self.next_step = reason, next_step


@dataclass(slots=True)
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
    stream: Any
    pristine: list[int]
    """The caller's values, buffer by buffer."""
    sets: list[BufferSet]
    comparer: Comparer
    runners: dict[str, Runner] = field(default_factory=dict)


def main(folder: Path) -> None:
    job = read(folder)
    try:
        _race(job, folder)
    except Stop as stop:
        tell("stop", reason=stop.reason, next_step=stop.next_step)


def _race(job: Job, folder: Path) -> None:
    facts = _take_device(job.device_uuid)
    arena = _set_up(job, folder, facts.l2_bytes)
    reader = clocks.open_clocks(facts.uuid)
    expected = _expected(arena)
    _check_all(arena, expected, "before")
    if not job.timed:
        tell("done")
        return
    if BASELINE not in arena.runners or CONTROL not in arena.runners:
        return  # the baseline deviates from itself, and that has been told
    for runner in arena.runners.values():
        tell("begin", contender=runner.name)
        _prepare_batch(arena, runner)
    rivals = [name for name in arena.runners if name != BASELINE]
    tell(
        "device",
        **asdict(facts),
        driver_version=reader.driver_version() if reader else "",
        l2=_policy(arena),
        launches={name: runner.launches for name, runner in arena.runners.items()},
    )
    blocks = job.blocks or blocks_for(job.budget_s, _block_seconds(arena, rivals))
    if blocks == 0:
        raise Stop("the budget affords too few blocks", "give a larger budget_s, or smaller inputs")
    _time(arena, rivals, blocks, reader, expected)
    _check_all(arena, expected, "after")
    tell("done", blocks=blocks)


def _take_device(uuid: str) -> device.Device:
    driver = bindings()
    for ordinal in range(call(driver.cuDeviceGetCount)):
        facts = device.device(ordinal)
        if uuid in ("", facts.uuid):
            use_primary_context(ordinal)
            return facts
    raise Stop(f"no GPU {uuid} in the racing process", "check CUDA_VISIBLE_DEVICES")


# --- memory ---


def _set_up(job: Job, folder: Path, l2_bytes: int) -> Arena:
    driver = bindings()
    stream = call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    comparer = Comparer(stream)
    if not comparer.works():
        raise Stop("the comparison misses a planted difference", "report this with the GPU's and driver's names")
    count = _how_many_sets(job, l2_bytes)
    pristine = [race_memory.allocate(size) for size in job.sizes]
    for index, address in enumerate(pristine):
        race_memory.upload(address, np.fromfile(folder / f"buffer{index}.bin", np.uint8))
    sets = [race_memory.buffer_set(job.sizes, job.alignments) for _ in range(count)]
    arena = Arena(job, stream, pristine, sets, comparer)
    for name, entry in job.contenders:
        tell("begin", contender=name)
        code = (folder / f"{name}.cubin").read_bytes()
        arena.runners[name] = _runner(arena, name, code, entry)
        if name == BASELINE:
            arena.runners[CONTROL] = _runner(arena, CONTROL, code, entry)
    return arena


def _how_many_sets(job: Job, l2_bytes: int) -> int:
    """Enough that a set has left the L2 cache before it is used again, as far as MOST_SETS and memory allow. Besides
    them there is one copy of the caller's values, and two of what the baseline leaves."""
    total = sum(job.sizes)
    each = sum(race_memory.whole_size(size) for size in job.sizes)
    free, _ = call(bindings().cuMemGetInfo)
    affordable = (int(free * 0.9) - total) // each - 3 if each else 1
    if affordable < 1:
        raise Stop("the arguments do not fit in the GPU's free memory as often as needed", "race with smaller inputs")
    wanted = 1 if not total or total >= 2 * l2_bytes else min(MOST_SETS, 2 * l2_bytes // total + 1)
    return min(wanted, affordable)


def _runner(arena: Arena, name: str, code: bytes, entry: str) -> Runner:
    loaded = LoadedKernel(code, entry)
    if arena.job.shared_bytes > 48 << 10:  # more than that must be asked for
        loaded.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", arena.job.shared_bytes, device.current().ordinal)
    runner = Runner(name, loaded)
    for each in arena.sets:
        data = arena.job.parameters.filled(each.addresses)
        memory = ctypes.create_string_buffer(data, len(data))
        base = ctypes.addressof(memory)
        offsets = arena.job.parameters.offsets
        pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
        runner.parameters.append((memory, pointers))
    return runner


def _restore(arena: Arena, which: Sequence[int] | None = None) -> None:
    """Put the caller's values back into the sets (all of them), on the stream."""
    copy = bindings().cuMemcpyDtoDAsync
    for index in range(len(arena.sets)) if which is None else which:
        for address, source, size in zip(arena.sets[index].addresses, arena.pristine, arena.job.sizes, strict=True):
            if size:
                call(copy, address, source, size, arena.stream)


# --- comparing ---


@dataclass(frozen=True, slots=True)
class Expected:
    """What the baseline leaves, from the caller's values and from poisoned outputs (None where it has none)."""

    plain: BufferSet
    poisoned: BufferSet | None
    written: tuple[int, ...]
    in_place: bool
    """Whether results depend on what the outputs held: then values are put back before each sample."""


def _expected(arena: Arena) -> Expected:
    tell("begin", contender=BASELINE)
    sizes = arena.job.sizes
    _restore(arena, (0,))
    before = race_memory.snapshot(arena.sets[0], arena.stream)
    _run(arena, BASELINE, ())
    if not race_memory.red_zones_intact(arena.sets[0], sizes):
        raise Stop("the baseline itself writes outside its buffers", "mend the kernel or its arguments")
    plain = race_memory.snapshot(arena.sets[0], arena.stream)
    written = tuple(
        index
        for index, (old, new, whole) in enumerate(zip(before.allocations, plain.allocations, plain.wholes, strict=True))
        if arena.comparer.first(old, new, whole) is not None
    )
    _run(arena, BASELINE, ())
    if arena.comparer.difference(plain, arena.sets[0], sizes) is not None:
        raise Stop(
            "the baseline is not deterministic: it gives other bits on the same values",
            "a race compares bit for bit; make the kernel deterministic, for instance without float atomics",
        )
    poisoned = None
    in_place = bool(written)
    if arena.job.poison and written:
        tell("begin", contender=BASELINE, phase="poison")
        _run(arena, BASELINE, written)
        poisoned = race_memory.snapshot(arena.sets[0], arena.stream)
        in_place = arena.comparer.difference(plain, poisoned, sizes) is not None
    for address in before.allocations:
        call(bindings().cuMemFree, address)
    return Expected(plain, poisoned, written, in_place)


def _run(arena: Arena, name: str, poison: Sequence[int]) -> None:
    """One launch on set 0 from the caller's values, the buffers ``poison`` poisoned; waits for its end."""
    driver = bindings()
    _restore(arena, (0,))
    for index in poison:
        address, size = arena.sets[0].addresses[index], arena.job.sizes[index]
        call(driver.cuMemsetD8Async, address, POISON, size, arena.stream)
    _launch(arena, arena.runners[name], 0)
    call(driver.cuStreamSynchronize, arena.stream)


def _check_all(arena: Arena, expected: Expected, phase: str) -> None:
    for name in tuple(arena.runners):
        _check(arena, name, expected, phase)


def _check(arena: Arena, name: str, expected: Expected, phase: str) -> None:
    """Everything the contender leaves, red zones too, against what the baseline leaves. One that deviates never runs
    again: it may have written anywhere."""
    tell("begin", contender=name, phase=phase)
    for poison, wanted in (((), expected.plain), (expected.written, expected.poisoned)):
        if wanted is None:
            continue
        _run(arena, name, poison)
        found = arena.comparer.difference(wanted, arena.sets[0], arena.job.sizes)
        if found is not None:
            tell("check", contender=name, phase=phase, equal=False, poisoned=bool(poison), **asdict(found))
            for each in arena.sets:
                race_memory.repaint(each)
            del arena.runners[name]
            return
    tell("check", contender=name, phase=phase, equal=True)


# --- timing ---


def _launch(arena: Arena, runner: Runner, index: int) -> None:
    job = arena.job
    pointers = ctypes.addressof(runner.parameters[index][1])
    call(
        bindings().cuLaunchKernel, runner.loaded.function, *job.grid, *job.block, job.shared_bytes, arena.stream,
        pointers, 0,
    )  # fmt: skip


def _prepare_batch(arena: Arena, runner: Runner) -> None:
    """How many launches last BATCH_US, and a graph of them, so that the GPU never waits for the host."""
    driver = bindings()
    start, end = _event(), _event()
    _restore(arena)
    for index in range(len(arena.sets)):
        _launch(arena, runner, index)
    call(driver.cuEventRecord, start, arena.stream)
    for index in range(len(arena.sets)):
        _launch(arena, runner, index)
    call(driver.cuEventRecord, end, arena.stream)
    call(driver.cuEventSynchronize, end)
    one_us = max(0.5, call(driver.cuEventElapsedTime, start, end) * 1000 / len(arena.sets))
    runner.launches = min(MOST_LAUNCHES, max(1, round(BATCH_US / one_us + 0.5)))
    call(
        driver.cuStreamBeginCapture, arena.stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    )
    for number in range(runner.launches):
        _launch(arena, runner, number % len(arena.sets))
    graph = call(driver.cuStreamEndCapture, arena.stream)
    runner.graph = call(driver.cuGraphInstantiate, graph, 0)


def _event() -> Any:
    driver = bindings()
    return call(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DEFAULT)


@dataclass(slots=True)
class Stopwatch:
    """Three events: before the warm-up, before the timed batch, after it."""

    first: Any = field(default_factory=_event)
    start: Any = field(default_factory=_event)
    end: Any = field(default_factory=_event)


def _sample(arena: Arena, runner: Runner, watch: Stopwatch, in_place: bool) -> dict[str, float]:
    """Time one batch behind an equal one: while the first keeps the GPU busy, the host queues the second."""
    driver = bindings()
    stream = arena.stream
    if in_place:
        _restore(arena)
    call(driver.cuStreamSynchronize, stream)
    begin = time.perf_counter_ns()
    call(driver.cuEventRecord, watch.first, stream)
    call(driver.cuGraphLaunch, runner.graph, stream)
    call(driver.cuEventRecord, watch.start, stream)
    call(driver.cuGraphLaunch, runner.graph, stream)
    call(driver.cuEventRecord, watch.end, stream)
    queued = time.perf_counter_ns()
    call(driver.cuEventSynchronize, watch.end)
    finished = time.perf_counter_ns()

    def elapsed_us(start: Any, end: Any) -> float:
        return float(call(driver.cuEventElapsedTime, start, end)) * 1000

    return {
        "event_us": elapsed_us(watch.start, watch.end),
        "span_us": elapsed_us(watch.first, watch.end),
        "lead_us": elapsed_us(watch.first, watch.start),
        "host_us": (finished - begin) / 1000,
        "enqueue_us": (queued - begin) / 1000,
    }


def _block_seconds(arena: Arena, rivals: Sequence[str]) -> float:
    """What one block of all pairs takes: measured on a second round, after a first that warms everything up."""
    watch = Stopwatch()
    seconds = 0.0
    for _ in range(2):
        begin = time.perf_counter()
        for name in rivals:
            for runner in (arena.runners[BASELINE], arena.runners[name]):
                _sample(arena, runner, watch, in_place=True)
        seconds = time.perf_counter() - begin
    return 2 * seconds


def _time(
    arena: Arena, rivals: Sequence[str], blocks: int, reader: clocks.Clocks | None, expected: Expected
) -> None:
    watch = Stopwatch()
    during = set(random.Random(arena.job.seed).sample(range(blocks), min(blocks, CHECKS_DURING)))
    for block, pair, order in schedule(rivals, blocks, arena.job.seed):
        if pair not in arena.runners:
            continue
        for variant in order:
            name = pair if variant else BASELINE
            runner = arena.runners[name]
            tell("begin", contender=name)
            timed = _sample(arena, runner, watch, expected.in_place)
            clock = reader.read() if reader else None
            sample = Sample(
                name, pair, block, runner.launches, **timed,
                sm_mhz=clock.sm_mhz if clock else 0, throttled=bool(clock and clock.throttled),
            )  # fmt: skip
            tell("sample", **asdict(sample))
        if block in during:
            _check(arena, pair, expected, "during")


def _policy(arena: Arena) -> str:
    total = sum(arena.job.sizes)
    if len(arena.sets) > 1:
        return f"rotating {len(arena.sets)} sets of buffers, {total * len(arena.sets) >> 20} MiB in all"
    return f"one set of buffers, {total >> 20} MiB"




if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except DeviceError as error:
        tell("failed", reason=error.what)
        sys.exit(3)
