"""What every contender leaves in memory, bit for bit against what the baseline leaves.

A checked launch starts from the caller's values, or from poisoned outputs, with shared memory filled beforehand: a
launch that leaves its output as it was, counts its calls, remembers an address or reads what nobody wrote is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hybridcc.errors import DeviceError
from hybridcc.passes.verify.launch import Shape
from hybridcc.runtime import race_memory
from hybridcc.runtime.driver import bindings, call
from hybridcc.runtime.race_arena import BASELINE, Arena, Refused, Runner, Stop, launch, load, restore, tell
from hybridcc.runtime.race_memory import BufferSet, Difference
from hybridcc.runtime.race_statistics import CONTROL


@dataclass(frozen=True, slots=True)
class Expected:
    """What the baseline leaves, from the caller's values and from poisoned outputs (None where it has none)."""

    plain: BufferSet
    poisoned: BufferSet | None
    written: tuple[int, ...]
    in_place: bool
    """Whether results depend on what the outputs held: then values are put back before each sample."""
    written_bytes: int = 0
    """That a launch changes: it stores so many at least."""


def expected_of(arena: Arena) -> Expected:
    """Raises Stop when the baseline is not deterministic or writes outside its buffers."""
    tell("begin", contender=BASELINE)
    sizes = arena.job.sizes
    baseline = arena.runners[BASELINE]
    restore(arena, (0,))
    before = race_memory.snapshot(arena.sets[0], arena.stream)
    _run(arena, baseline, ())
    if not race_memory.red_zones_intact(arena.sets[0], sizes):
        raise Stop("the baseline itself writes outside its buffers", "mend the kernel or its arguments")
    plain = race_memory.snapshot(arena.sets[0], arena.stream)
    written = tuple(
        index
        for index, (old, new, whole) in enumerate(zip(before.allocations, plain.allocations, plain.wholes, strict=True))
        if arena.comparer.first(old, new, whole) is not None
    )
    _run(arena, baseline, ())
    if arena.comparer.difference(plain, arena.sets[0], sizes) is not None:
        raise Stop(
            "the baseline is not deterministic: it gives other bits on the same values",
            "a race compares bit for bit; make the kernel deterministic, for instance without float atomics",
        )
    poisoned = None
    in_place = bool(written)
    if arena.job.poison and written:
        tell("begin", contender=BASELINE, phase="poison")
        _run(arena, baseline, written)
        poisoned = race_memory.snapshot(arena.sets[0], arena.stream)
        in_place = arena.comparer.difference(plain, poisoned, sizes) is not None
        restore(arena, (0,), written)
    changed = sum(
        arena.comparer.count(new, old, whole)
        for new, old, whole in zip(
            plain.allocations if poisoned is None else poisoned.allocations,
            before.allocations if poisoned is None else arena.sets[0].allocations,
            plain.wholes,
            strict=True,
        )
    )
    race_memory.free(before)
    return Expected(plain, poisoned, written, in_place, changed)


def check_all(arena: Arena, expected: Expected, phase: str) -> None:
    for name in tuple(arena.runners):
        check(arena, name, expected, phase)


def check(arena: Arena, name: str, expected: Expected, phase: str) -> None:
    """At least ``job.compared`` launches of the contender (of the baseline and the control two). One that deviates
    never runs again, unless it is free to: it may have written anywhere."""
    tell("begin", contender=name, phase=phase)
    runner = arena.runners[name]
    starts: list[tuple[tuple[int, ...], BufferSet]] = [((), expected.plain)]
    if expected.poisoned is not None:
        starts.append((expected.written, expected.poisoned))
    done = 0
    for poison, wanted in starts:
        _run(arena, runner, poison)
        done += 1
        if _deviates(arena, name, phase, wanted, 0, bool(poison)):
            return
    least = 2 if name in (BASELINE, CONTROL) else arena.job.compared
    while done < least:
        poison, wanted = starts[-1]
        restore(arena, poison=poison)
        for index in range(len(arena.sets)):
            launch(arena, runner, index)
        call(bindings().cuStreamSynchronize, arena.stream)
        for index in range(len(arena.sets)):
            done += 1
            if _deviates(arena, name, phase, wanted, index, bool(poison)):
                return
    tell("check", contender=name, phase=phase, equal=True, launches=done)


def _run(arena: Arena, runner: Runner, poison: Sequence[int], shape: tuple[Shape, Shape] | None = None) -> None:
    """One launch on set 0 from the caller's values, the buffers ``poison`` poisoned; waits for its end."""
    restore(arena, (0,), poison)
    if arena.scrubber is not None:
        arena.scrubber.run()
    launch(arena, runner, 0, shape)
    call(bindings().cuStreamSynchronize, arena.stream)


def _deviates(arena: Arena, name: str, phase: str, wanted: BufferSet, index: int, poisoned: bool) -> bool:
    found = arena.comparer.difference(wanted, arena.sets[index], arena.job.sizes)
    if found is not None:
        _expel(arena, name, phase, found, poisoned)
    return found is not None


def _expel(arena: Arena, name: str, phase: str, found: Difference, poisoned: bool) -> None:
    free = name in arena.job.free and not found.outside
    tell("check", contender=name, phase=phase, equal=False, free=free, poisoned=poisoned, launches=1, **asdict(found))
    for each in arena.sets:
        race_memory.repaint(each)
    if not free:
        del arena.runners[name]


# --- further comparisons, once per race ---


def check_shapes(arena: Arena) -> None:
    """At launch shapes other than the caller's, as far as the baseline itself runs there and gives the same bits twice.
    Raises DeviceError where it does not stay within its buffers: this process's memory is then not to be trusted."""
    for grid, block in arena.job.shapes:
        shape = (grid, block)
        tell("begin", contender=BASELINE, phase="shape")
        baseline = arena.runners[BASELINE]
        try:
            _run(arena, baseline, (), shape)
        except Refused as error:
            tell("shape", grid=grid, block=block, compared=False, why=error.what)
            continue
        wanted = race_memory.snapshot(arena.sets[0], arena.stream)
        if not race_memory.red_zones_intact(arena.sets[0], arena.job.sizes):
            # Who knows what else it wrote: the caller's values themselves may lie behind the buffer that it left.
            raise DeviceError("it leaves its buffers", next_step="the race begins again without this shape")
        _run(arena, baseline, (), shape)
        if arena.comparer.difference(wanted, arena.sets[0], arena.job.sizes) is not None:
            why = "the baseline is not deterministic there"
            tell("shape", grid=grid, block=block, compared=False, why=why)
        else:
            tell("shape", grid=grid, block=block, compared=True, why="")
            for name in _variants(arena):
                tell("begin", contender=name, phase="at another launch shape, not while")
                _compare(arena, arena.runners[name], name, f"at {grid}x{block}, not while", wanted, shape)
        race_memory.free(wanted)


def check_unoptimized(arena: Arena) -> None:
    """Each variant's PTX assembled anew without contraction, at -O3 and at -O0, against the baseline's the same way: a
    variant that differs there computes something else, or the assembler mistakes it."""
    entries = dict(arena.job.contenders)
    if BASELINE not in arena.job.twins:
        return
    tell("begin", contender=BASELINE, phase="unoptimized")
    optimized, plain = (load(arena, BASELINE, f"{BASELINE}.{o}.cubin", entries[BASELINE]) for o in ("O3", "O0"))
    try:
        _run(arena, optimized, ())
        wanted = race_memory.snapshot(arena.sets[0], arena.stream)
        _run(arena, plain, ())
    except Refused as error:
        tell("unoptimized", contender=BASELINE, compared=False, why=error.what)
        return
    if arena.comparer.difference(wanted, arena.sets[0], arena.job.sizes) is not None:
        why = "the baseline's own -O0 build leaves other memory than its -O3 build"
        tell("unoptimized", contender=BASELINE, compared=False, why=why)
        return
    for name in _variants(arena):
        if name in arena.job.twins:
            _check_twins(arena, name, entries[name], wanted)
    race_memory.free(wanted)


def _check_twins(arena: Arena, name: str, entry: str, wanted: BufferSet) -> None:
    tell("begin", contender=name, phase="unoptimized")
    for level in ("O3", "O0"):
        runner = load(arena, name, f"{name}.{level}.cubin", entry)
        try:
            same = _compare(arena, runner, name, f"assembled with -{level} -fmad=false, before", wanted, None)
        except Refused as error:
            tell("unoptimized", contender=name, compared=False, why=f"-{level}: {error.what}")
            return
        if not same:
            return
    tell("unoptimized", contender=name, compared=True, why="")


def count_guards(arena: Arena) -> None:
    """How many threads took the rewrite, and how many the original behind a guard, on the caller's values."""
    entries = dict(arena.job.contenders)
    for name in _variants(arena):
        if name not in arena.job.counted:
            continue
        tell("begin", contender=name, phase="guards")
        runner = load(arena, name, f"{name}.counted.cubin", entries[name])
        _run(arena, runner, ())
        tell("guards", contender=name, counts=race_memory.counters(runner.loaded))


def _compare(
    arena: Arena, runner: Runner, name: str, phase: str, wanted: BufferSet, shape: tuple[Shape, Shape] | None
) -> bool:
    _run(arena, runner, (), shape)
    found = arena.comparer.difference(wanted, arena.sets[0], arena.job.sizes)
    if found is not None:
        _expel(arena, name, phase, found, False)
    return found is None


def _variants(arena: Arena) -> tuple[str, ...]:
    """Those that have to leave what the baseline leaves."""
    return tuple(name for name in arena.runners if name not in (BASELINE, CONTROL, *arena.job.free))
