"""The timed part of a race: rounds, each with the code and the graphs of all contenders loaded anew, of ABBA blocks.

Where a driver puts code and graphs can change the time of a short kernel, for as long as they stay there: on an H200
a kernel of 2 us by 2 % (sigma), the same in all blocks to 0.3 %. Loaded anew elsewhere they are another draw.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hybridcc.runtime import clocks, race_memory
from hybridcc.runtime.driver import bindings, call
from hybridcc.runtime.race_arena import BASELINE, Arena, Runner, load, restore, tell, unload
from hybridcc.runtime.race_checks import Expected, check
from hybridcc.runtime.race_statistics import CHECKS_DURING, CONTROL, Sample, schedule
from hybridcc.runtime.race_timing import Stopwatch, capture, sample

MOST_PADS = 3
"""Further copies of the baseline's code, loaded between the contenders' and never run."""

MOST_ROOM = 4 << 20
"""Bytes of device memory that are taken while a round's code is loaded, for the same end."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What one round has on the device, besides the buffers."""

    runners: dict[str, Runner]
    pads: Sequence[Runner]
    room: int

    def drop(self, arena: Arena) -> None:
        for runner in (*self.runners.values(), *self.pads):
            unload(arena, runner)
        race_memory.release(self.room)


def draw(arena: Arena, chance: random.Random, in_place: bool) -> Draw:
    """Every contender that is left, loaded in shuffled order with chance between, captured in another order, and run
    for a batch. What was loaded before is still there, so that nothing comes to lie where it lay."""
    entries = dict(arena.job.contenders)
    room = race_memory.allocate(chance.randint(1, MOST_ROOM))
    order = [*arena.runners, *[""] * chance.randint(0, MOST_PADS)]
    chance.shuffle(order)
    runners: dict[str, Runner] = {}
    pads: list[Runner] = []
    for name in order:
        of = BASELINE if name in ("", CONTROL) else name
        tell("begin", contender=of)
        loaded = load(arena, name or BASELINE, f"{of}.cubin", entries[of])
        if name:
            runners[name] = loaded
        else:
            pads.append(loaded)
    order = list(runners)
    chance.shuffle(order)
    for name in order:
        tell("begin", contender=name)
        capture(arena, runners[name], arena.runners[name].launches)
    for name in order:
        tell("begin", contender=name)
        if in_place:
            restore(arena)
        call(bindings().cuGraphLaunch, runners[name].graph, arena.stream)
        call(bindings().cuStreamSynchronize, arena.stream)
    return Draw(runners, pads, room)


def costs(
    arena: Arena, rivals: Sequence[str], watch: Stopwatch, reader: clocks.Clocks | None, in_place: bool
) -> tuple[float, float]:
    """Seconds that it takes to load anew, and that a block of all pairs takes: of a second round, after a first that
    warms everything up."""
    chance = random.Random(arena.job.seed)
    load_s = block_s = 0.0
    for _ in range(2):
        begin = time.perf_counter()
        drawn = draw(arena, chance, in_place)
        loaded = time.perf_counter()
        for name in rivals:
            for member in (BASELINE, name):
                tell("begin", contender=member)
                sample(arena, drawn.runners[member], watch, in_place)
                if reader is not None:
                    reader.read()
        timed = time.perf_counter()
        drawn.drop(arena)
        load_s, block_s = loaded - begin + time.perf_counter() - timed, 2 * (timed - loaded)
    return load_s, block_s


def time_rounds(
    arena: Arena,
    rivals: Sequence[str],
    rounds: int,
    blocks: int,
    watch: Stopwatch,
    reader: clocks.Clocks | None,
    expected: Expected,
) -> None:
    """Every sample is told as it comes; a few blocks, drawn beforehand, are followed by a check. The runners that the
    arena had are there again in the end."""
    chance = random.Random(arena.job.seed)
    during = set(chance.sample(range(rounds * blocks), min(rounds * blocks, CHECKS_DURING)))
    kept = dict(arena.runners)
    drawn: Draw | None = None
    of_round = -1
    for block, pair, order in schedule(rivals, rounds * blocks, arena.job.seed):
        if block // blocks != of_round:
            of_round = block // blocks
            drawn = _next(arena, drawn, chance, expected.in_place)
        if pair in arena.runners:
            _time_block(arena, pair, block, of_round, order, watch, reader, expected.in_place)
            if block in during:
                check(arena, pair, expected, "during")
    if drawn is not None:
        drawn.drop(arena)
    arena.runners = {name: runner for name, runner in kept.items() if name in arena.runners}


def _next(arena: Arena, before: Draw | None, chance: random.Random, in_place: bool) -> Draw:
    drawn = draw(arena, chance, in_place)
    arena.runners = dict(drawn.runners)
    if before is not None:
        before.drop(arena)
    return drawn


def _time_block(
    arena: Arena,
    pair: str,
    block: int,
    of_round: int,
    order: Sequence[bool],
    watch: Stopwatch,
    reader: clocks.Clocks | None,
    in_place: bool,
) -> None:
    for variant in order:
        name = pair if variant else BASELINE
        runner = arena.runners[name]
        tell("begin", contender=name)
        timed = sample(arena, runner, watch, in_place)
        clock = reader.read() if reader else None
        taken = Sample(
            name, pair, block, runner.launches, *timed,
            sm_mhz=clock.sm_mhz if clock else 0, throttled=bool(clock and clock.throttled), round=of_round,
        )  # fmt: skip
        tell("sample", **asdict(taken))
