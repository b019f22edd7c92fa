"""Timed samples in the racing process: a graph of launches behind an equal one, that lasts a millisecond."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hybridcc.runtime.driver import bindings, call
from hybridcc.runtime.race_arena import BASELINE, Arena, Runner, drop_graph, launch, restore, tell

BATCH_US = 1000.0
"""A sample lasts at least this long, so that event resolution and queueing are below its noise."""

MOST_LAUNCHES = 1024
ALIKE = 2.0
"""Contenders within this factor of the baseline's time share its number of launches per batch: then what a batch
costs as a whole weighs on both alike."""


def _event() -> Any:
    driver = bindings()
    return call(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DEFAULT)


@dataclass(slots=True)
class Stopwatch:
    """Three events: before the warm-up, before the timed batch, after it."""

    first: Any = field(default_factory=_event)
    start: Any = field(default_factory=_event)
    end: Any = field(default_factory=_event)

    def close(self) -> None:
        for event in (self.first, self.start, self.end):
            call(bindings().cuEventDestroy, event)


class Timed(NamedTuple):
    """As race_statistics.Sample has them, in its order."""

    event_us: float
    span_us: float
    host_us: float
    enqueue_us: float
    lead_us: float


def prepare_batches(arena: Arena, watch: Stopwatch) -> None:
    """A graph of launches for every contender that lasts BATCH_US or more, as far as MOST_LAUNCHES reach."""
    one_us: dict[str, float] = {}
    for runner in arena.runners.values():
        tell("begin", contender=runner.name)
        one_us[runner.name] = _launch_us(arena, runner, watch)
    least = {name: _launches(us, len(arena.sets)) for name, us in one_us.items()}
    like = [name for name in one_us if 1 / ALIKE < one_us[name] / one_us[BASELINE] < ALIKE]
    shared = max(least[name] for name in like)
    for name, runner in arena.runners.items():
        tell("begin", contender=name)
        capture(arena, runner, shared if name in like else least[name])


def _launches(one_us: float, sets: int) -> int:
    """Whole rounds over the sets of buffers, if it is a round at all: each set then weighs the same."""
    wanted = min(MOST_LAUNCHES, max(1, -(-BATCH_US // one_us)))
    return int(wanted if wanted < sets else min(-(-wanted // sets) * sets, MOST_LAUNCHES // sets * sets))


def _launch_us(arena: Arena, runner: Runner, watch: Stopwatch) -> float:
    """One launch within a graph, not as the host queues it: a short kernel would wait for the host."""
    one_us = BATCH_US
    for launches in (len(arena.sets), None):
        capture(arena, runner, launches or _launches(one_us, len(arena.sets)))
        one_us = max(0.5, sample(arena, runner, watch, in_place=True).event_us / runner.launches)
        if one_us * runner.launches > BATCH_US / 2:
            break
    return one_us


def capture(arena: Arena, runner: Runner, launches: int) -> None:
    """Make the runner's graph of so many launches, on each set of buffers in turn."""
    driver = bindings()
    drop_graph(runner)
    runner.launches = launches
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    call(driver.cuStreamBeginCapture, arena.stream, mode)
    for number in range(launches):
        launch(arena, runner, number % len(arena.sets))
    graph = call(driver.cuStreamEndCapture, arena.stream)
    runner.graph = call(driver.cuGraphInstantiate, graph, 0)
    call(driver.cuGraphDestroy, graph)


def sample(arena: Arena, runner: Runner, watch: Stopwatch, in_place: bool) -> Timed:
    """Time one batch behind an equal one: while the first keeps the GPU busy, the host queues the second."""
    driver = bindings()
    stream = arena.stream
    if in_place:
        restore(arena)
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

    return Timed(
        event_us=elapsed_us(watch.start, watch.end),
        span_us=elapsed_us(watch.first, watch.end),
        host_us=(finished - begin) / 1000,
        enqueue_us=(queued - begin) / 1000,
        lead_us=elapsed_us(watch.first, watch.start),
    )
