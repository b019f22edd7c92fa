"""The child process of a race: owns its context, compares and times, and tells every raw sample as it comes.

Run as ``python -m hybridcc.runtime.race_worker``: it reads the folder of one job per line on stdin, and gives back all
that a job took on the device before the next; each line on stdout is one JSON object with an ``event``:

    device       facts of the GPU, the L2 policy, the batch sizes
    begin        a contender is about to run: if nothing follows, it was the one that killed the process
    check        a contender's memory against the baseline's, bit for bit: phase, equal, where it first differs
    shape        whether variants were compared at this other launch shape, and why not
    unoptimized  whether a variant was compared when assembled at -O0, and why not
    guards       how many threads took each guarded rewrite of a variant, and how many did not
    sample       one timed batch (race_statistics.Sample)
    stop         nothing further can be said, and why
    done         all rounds were run
    failed       the device failed; the process ends
    end          the job is over, the next may come

It decides nothing about speed: the parent computes from the samples.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from hybridcc.errors import DeviceError
from hybridcc.runtime import clocks, device
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.race_arena import BASELINE, Arena, Stop, set_up, tear_down, tell
from hybridcc.runtime.race_checks import check_all, check_shapes, check_unoptimized, count_guards, expected_of
from hybridcc.runtime.race_job import read
from hybridcc.runtime.race_memory import OutOfMemory
from hybridcc.runtime.race_rounds import costs, time_rounds
from hybridcc.runtime.race_statistics import CONTROL, rounds_for
from hybridcc.runtime.race_timing import Stopwatch, prepare_batches

TOO_FEW_ROUNDS = "the budget affords too few rounds"


def serve() -> None:
    for line in sys.stdin:
        run(Path(line.rstrip("\n")))
        tell("end")


def run(folder: Path) -> None:
    """One job. A Stop is told; a DeviceError is the end of this process."""
    job = read(folder)
    try:
        facts = _take_device(job.device_uuid)
        arena = set_up(job, folder, facts)
        race(arena, facts)
        tear_down(arena)
    except Stop as stop:
        tell("stop", reason=stop.reason, next_step=stop.next_step)
    except OutOfMemory as error:
        tell("stop", reason=f"memory: {error.what}", next_step=error.next_step)


def race(arena: Arena, facts: device.Device) -> None:
    job = arena.job
    expected = expected_of(arena)
    check_all(arena, expected, "before")
    if BASELINE not in arena.runners or CONTROL not in arena.runners:
        return  # the baseline deviates from itself, and that has been told
    check_unoptimized(arena)
    check_shapes(arena)
    count_guards(arena)
    if not job.timed:
        tell("done")
        return
    watch = Stopwatch()
    prepare_batches(arena, watch)
    rivals = [name for name in arena.runners if name != BASELINE]
    reader = clocks.open_clocks(facts.uuid)
    load_s, block_s = costs(arena, rivals, watch, reader, expected.in_place)
    rounds, blocks = rounds_for(job.budget_s, load_s, block_s)
    tell(
        "device",
        **asdict(facts),
        driver_version=reader.driver_version() if reader else "",
        **_peaks(facts),
        l2=_policy(arena),
        sets=len(arena.sets),
        written_bytes=expected.written_bytes,
        launches={name: runner.launches for name, runner in arena.runners.items()},
        rounds=[rounds, blocks],
        load_and_block_s=[round(load_s, 6), round(block_s, 6)],
    )
    if rounds == 0:
        raise Stop(TOO_FEW_ROUNDS, "give a larger budget_s, or smaller inputs")
    time_rounds(arena, rivals, rounds, blocks, watch, reader, expected)
    watch.close()
    check_all(arena, expected, "after")
    tell("done", rounds=rounds, blocks=blocks)


def _take_device(uuid: str) -> device.Device:
    driver = bindings()
    for ordinal in range(call(driver.cuDeviceGetCount)):
        facts = device.device(ordinal)
        if uuid in ("", facts.uuid):
            if _attribute("MPS_ENABLED", ordinal):
                raise Stop(
                    "this GPU is shared by NVIDIA's Multi-Process Service (MPS): what is timed would be others' too",
                    "stop MPS (echo quit | nvidia-cuda-mps-control), or race on a GPU without it",
                )
            use_primary_context(ordinal)
            return facts
    raise Stop(f"no GPU {uuid} in the racing process", "check CUDA_VISIBLE_DEVICES")


def _attribute(name: str, ordinal: int) -> int:
    """0 where these bindings or this driver know no such attribute."""
    driver = bindings()
    which = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
    if which is None:
        return 0
    try:
        return int(call(driver.cuDeviceGetAttribute, which, call(driver.cuDeviceGet, ordinal)))
    except DeviceError:
        return 0


def _peaks(facts: device.Device) -> dict[str, float]:
    """``peak_gb_s``: the memory's clock, twice a cycle, over its bus; ``peak_sm_mhz``. 0 where it tells none."""
    khz, bits = (_attribute(n, facts.ordinal) for n in ("MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH"))
    return {"peak_gb_s": khz * 1e3 * 2 * bits / 8 / 1e9, "peak_sm_mhz": _attribute("CLOCK_RATE", facts.ordinal) / 1e3}


def _policy(arena: Arena) -> str:
    total = sum(arena.job.sizes)
    if len(arena.sets) > 1:
        return f"rotating {len(arena.sets)} sets of buffers, {total * len(arena.sets) >> 20} MiB in all"
    return f"one set of buffers, {total >> 20} MiB"


if __name__ == "__main__":
    try:
        serve()
    except DeviceError as error:
        tell("failed", reason=error.what)
        sys.exit(3)
