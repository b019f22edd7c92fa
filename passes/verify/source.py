"""Where launches come from: a user's examples, or plans that the baseline itself accepts on the executor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify import inputs, plans
from hybridcc.passes.verify.launch import Launch, Shape, memory
from hybridcc.passes.verify.once import Execute, run
from hybridcc.passes.verify.plans import Plan

PILOT_SIZES = ({"n": 5, "m": 3}, {"n": 3, "m": 5})
"""A guessed plan must hold in both orders of its sizes: one that does has found the contract, not a coincidence."""

BLOCKS: tuple[Shape, ...] = ((32, 1, 1), (8, 4, 1), (4, 4, 2))
"""Default block by number of axes in use: one warp, so that its neighbours are cheap to try."""

MOST_PLANS = 2


@dataclass(frozen=True, slots=True)
class LaunchSource:
    launches: Iterator[Launch]
    plans: tuple[str, ...]
    """In words, for the report."""


def launches_for(kernel: Kernel, examples: Sequence[Launch], *, seed: int, execute: Execute) -> LaunchSource:
    if examples:
        return _from_examples(kernel, examples, seed, execute)
    block = block_for(kernel)
    accepted = _accepted(kernel, block, seed, execute)
    streams = [_stream(kernel, plan, block, (1, 1, 1), seed, written) for plan, written in accepted]
    return LaunchSource(_alternate(streams), tuple(str(plan) for plan, _ in accepted))


def random_launches(
    kernel: Kernel, examples: Sequence[Launch] = (), *, seed: int, execute: Execute
) -> Iterator[Launch]:
    """Launches without end: sizes, values, blocks and the way arrays lie drawn at random from the same plans."""
    rng = np.random.default_rng(seed)
    free_block = not examples and kernel.launch_bounds.max_threads is None
    settings: list[tuple[Plan, frozenset[int], Shape, Shape, int]] = []
    for example in examples:
        plan = _loosest(kernel, example, seed, execute)
        pilot = inputs.make(kernel, plan, inputs.pilot(plan), example.block, example.grid, seed)
        written = _written(kernel, pilot, execute) or frozenset()
        settings.append((plan, written, example.block, example.grid, example.shared_bytes))
    if not examples:
        block = block_for(kernel)
        settings = [(plan, written, block, (1, 1, 1), 0) for plan, written in _accepted(kernel, block, seed, execute)]
    while settings:
        plan, written, block, grid, shared_bytes = settings[rng.integers(len(settings))]
        request = inputs.random_request(kernel, plan, block, written, rng, free_block=free_block)
        yield inputs.make(kernel, plan, request, block, grid, int(rng.integers(1 << 31)), written, shared_bytes)


def axes_of(kernel: Kernel) -> int:
    """1 to 3: the highest axis of the special registers that the kernel reads."""
    used = set(re.findall(r"%(?:tid|ctaid)\.([xyz])", kernel.ptx))
    return max((" xyz".index(axis) for axis in used), default=1)


def block_for(kernel: Kernel) -> Shape:
    """The block that the kernel requires (``.reqntid``), else a warp in as many axes as it uses, within its bounds."""
    required = re.search(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", kernel.ptx)
    if required:
        x, y, z = (int(size or 1) for size in required.groups())
        return x, y, z
    block = BLOCKS[axes_of(kernel) - 1]
    most = kernel.launch_bounds.max_threads
    return block if most is None or most >= 32 else (most, 1, 1)


def _from_examples(kernel: Kernel, examples: Sequence[Launch], seed: int, execute: Execute) -> LaunchSource:
    streams: list[Iterator[Launch]] = []
    described: list[str] = []
    for example in examples:
        plan = _loosest(kernel, example, seed, execute)
        whole = inputs.affordable(example)
        streams.append(iter([] if whole is None else [whole]))
        pilot = inputs.make(kernel, plan, inputs.pilot(plan), example.block, example.grid, seed)
        written = _written(kernel, pilot, execute) or frozenset()
        streams.append(_stream(kernel, plan, example.block, example.grid, seed, written, example.shared_bytes))
        described.append(str(plan))
    return LaunchSource(_alternate(streams), tuple(described))


def _loosest(kernel: Kernel, example: Launch, seed: int, execute: Execute) -> Plan:
    """The plan with the fewest relations that the baseline accepts, whichever way its sizes are ordered."""
    loose = plans.from_example(kernel, example, loose=True)
    up = inputs.middle_sizes(loose)
    down = dict(zip(up, reversed(up.values()), strict=True))
    for sizes in (up, down):
        pilot = inputs.make(kernel, loose, inputs.pilot(loose, sizes), example.block, example.grid, seed)
        if run(kernel, kernel.ptx, pilot, execute).fault:
            return plans.from_example(kernel, example)
    return loose


def _accepted(kernel: Kernel, block: Shape, seed: int, execute: Execute) -> list[tuple[Plan, frozenset[int]]]:
    """The most telling guesses that run without a fault: most blocks executed, then most distinct extents."""
    scored: list[tuple[tuple[int, int], Plan, frozenset[int]]] = []
    for plan in plans.guesses(kernel, axes_of(kernel), seed):
        if plan.cover == "exact" and scored:
            break
        pilots = [inputs.make(kernel, plan, inputs.pilot(plan, sizes), block, (1, 1, 1), seed) for sizes in PILOT_SIZES]
        outcomes = [run(kernel, kernel.ptx, pilot, execute) for pilot in pilots]
        if any(o.fault for o in outcomes):
            continue
        written = _changed(pilots[0], outcomes[0].memory)
        blocks = sum(1 for count in outcomes[0].block_counts.values() if count)
        distinct = len({e for extents in plan.extents for e in extents})
        if written:
            scored.append(((blocks, distinct), plan, written))
    scored.sort(key=lambda entry: entry[0], reverse=True)
    return [(plan, written) for _, plan, written in scored[:MOST_PLANS]]


def _written(kernel: Kernel, launch: Launch, execute: Execute) -> frozenset[int] | None:
    outcome = run(kernel, kernel.ptx, launch, execute)
    return None if outcome.fault else _changed(launch, outcome.memory)


def _changed(launch: Launch, after: Sequence[bytes]) -> frozenset[int]:
    """Which arguments' buffers a run changed; pilots share no memory, so buffers and arrays agree in order."""
    arrays = [i for i, value in enumerate(launch.values) if isinstance(value, np.ndarray)]
    return frozenset(i for i, old, new in zip(arrays, memory(launch), after, strict=True) if old != new)


def _stream(
    kernel: Kernel, plan: Plan, block: Shape, grid: Shape, seed: int, written: frozenset[int], shared_bytes: int = 0
) -> Iterator[Launch]:
    for number, request in enumerate(inputs.requests(kernel, plan, block, written)):
        yield inputs.make(kernel, plan, request, block, grid, seed + number, written, shared_bytes)


def _alternate(streams: Sequence[Iterator[Launch]]) -> Iterator[Launch]:
    pending = list(streams)
    while pending:
        for stream in tuple(pending):
            launch = next(stream, None)
            if launch is None:
                pending.remove(stream)
            else:
                yield launch
