"""Race a baseline against variants: a child process compares and times, this one judges from the raw samples.

The child owns its context, so an illegal address or an endless loop ends the child and not the user's program; the
race goes on without the contender that did it. Nothing of the user's memory is written: the child works on copies.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from hybridcc.errors import DeviceError
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch, buffers
from hybridcc.runtime import race_job, race_statistics
from hybridcc.runtime.device import Device
from hybridcc.runtime.race_job import Contender, Job
from hybridcc.runtime.race_statistics import CONTROL, Measurement, Sample

BASELINE = "baseline"
PROCESSES = 2
"""A race is run in as many processes, one after another: an address layout or a clock state of one is not the rule."""

SILENCE_S = 60.0
"""A child that says nothing for so long is in an endless kernel."""

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Deviation:
    """How a contender's memory differed from the baseline's, or how it ended the process; it is out of the race."""

    contender: str
    what: str


@dataclass(frozen=True, slots=True)
class Race:
    """``void`` says why nothing was measured, with ``next_step``; empty if something was. ``facts`` are the GPU's, with
    the L2 policy and the launches per batch."""

    measurements: Mapping[str, Measurement]
    control: Measurement | None
    deviations: tuple[Deviation, ...]
    facts: Mapping[str, Any]
    samples: tuple[Sample, ...] = field(repr=False, default=())
    void: str = ""
    next_step: str = ""
    checks: int = 0
    """Launches of variants whose memory was compared with the baseline's."""

    @property
    def noise_floor(self) -> float | None:
        return None if self.control is None else race_statistics.noise_floor(self.control)


@dataclass(slots=True)
class _Heard:
    """What the children have told so far."""

    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    deviations: list[Deviation] = field(default_factory=list)
    out: set[str] = field(default_factory=set)
    void: str = ""
    next_step: str = ""
    checks: int = 0
    poison: bool = True
    runs: int = 0


def race(
    baseline: Contender,
    variants: Sequence[Contender],
    arguments: Sequence[Argument],
    launch: Launch,
    device: Device,
    *,
    budget_s: float = 60.0,
    seed: int = 0,
    timed: bool = True,
    alignments: Sequence[int] = (),
    progress: Progress = lambda message: None,
) -> Race:
    """Compare and time ``variants`` against ``baseline`` on the values of ``launch`` (host arrays, never written).

    ``timed`` False only compares. ``alignments`` are of the caller's own buffers where those of ``launch`` are
    copies. Raises InputError when the values do not fit the arguments, DeviceError when no child can be started.
    """
    heard = _Heard()
    with _folder(launch) as folder:
        parameters = race_job.parameters_of(arguments, launch)
        job = Job(
            contenders=tuple((c.name, c.entry) for c in (baseline, *variants)),
            parameters=parameters,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            sizes=tuple(root.nbytes for root in buffers(launch)),
            alignments=tuple(alignments) or race_job.alignments_of(launch),
            budget_s=budget_s / PROCESSES,
            seed=seed,
            device_uuid=device.uuid,
            timed=timed,
        )
        race_job.write(folder, job, (baseline, *variants), launch)
        for process in range(PROCESSES if timed else 1):
            progress(f"racing {len(variants) - len(heard.out)} variants, process {process + 1} of {PROCESSES}")
            _run(folder, replace(job, seed=seed * PROCESSES + process), heard)
            if heard.void:
                break
    return _conclude(heard, [v.name for v in variants], timed)


def _conclude(heard: _Heard, names: Sequence[str], timed: bool) -> Race:
    standing = [name for name in names if name not in heard.out]
    control, measurements = None, {}
    if timed and not heard.void:
        control, measurements = race_statistics.measure(heard.samples, standing)
    return Race(
        measurements, control, tuple(heard.deviations), heard.facts, tuple(heard.samples), heard.void,
        heard.next_step, heard.checks,
    )  # fmt: skip


def _run(folder: Path, job: Job, heard: _Heard) -> None:
    """One racing process; started anew without a contender that ended it."""
    while True:
        kept = tuple((name, entry) for name, entry in job.contenders if name not in heard.out)
        if len(kept) == 1:
            return
        race_job.write_job(folder, replace(job, contenders=kept, poison=heard.poison))
        heard.runs += 1
        culprit, phase, how = _listen(folder, heard)
        if not how:
            return
        if culprit == BASELINE and phase == "poison" and heard.poison:
            heard.poison = False  # a kernel may use what it writes as an index
        elif culprit in ("", BASELINE, CONTROL):
            heard.void = f"the baseline itself fails in the racing process: {how}"
            heard.next_step = "check the kernel and its arguments"
            return
        else:
            heard.out.add(culprit)
            heard.deviations.append(Deviation(culprit, how))


def _listen(folder: Path, heard: _Heard) -> tuple[str, str, str]:
    """(the contender that ran last, its phase, how the process ended: empty if well)."""
    running = phase = failed = ""
    with _child(folder) as (child, errors):
        for message in _messages(child):
            if message is None:
                child.kill()
                return running, phase, f"it did not end within {SILENCE_S:.0f} s"
            match message.pop("event"):
                case "begin":
                    running, phase = message["contender"], message.get("phase", "")
                case "failed":
                    failed = message["reason"]
                case _ as event:
                    _hear(event, message, heard)
        if child.wait() == 0:
            return running, phase, ""
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().splitlines()
        return running, phase, failed or f"the process ended with {child.returncode}: {said[-1] if said else ''}"


def _hear(event: str, message: dict[str, Any], heard: _Heard) -> None:
    match event:
        case "sample":
            # Blocks of different processes are different blocks.
            heard.samples.append(Sample(**{**message, "block": message["block"] + heard.runs * 1_000_000}))
        case "device":
            heard.facts.update(message)
        case "check":
            heard.checks += message["contender"] not in (BASELINE, CONTROL)
            if not message["equal"]:
                _deviates(message, heard)
        case "stop":
            heard.void, heard.next_step = message["reason"], message["next_step"]


def _deviates(message: Mapping[str, Any], heard: _Heard) -> None:
    name = message["contender"]
    place = f"byte {message['byte']} of buffer {message['buffer']}"
    what = (
        f"{place}, outside it, was written" if message["outside"] else
        f"{place} holds {message['found']} where the baseline leaves {message['expected']}"
    )  # fmt: skip
    what += f" ({message['phase']} timing{', outputs poisoned' if message['poisoned'] else ''})"
    if name in (BASELINE, CONTROL):
        heard.void = f"the baseline's own bytes, run again, differ: {what}"
        heard.next_step = "a race compares bit for bit; make the kernel deterministic"
    elif name not in heard.out:
        heard.out.add(name)
        heard.deviations.append(Deviation(name, what))


# --- the child ---


@contextmanager
def _child(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A process started afresh, not forked: a context does not survive a fork. It is gone when this ends."""
    paths = [path for path in (_root_of_package(), os.environ.get("PYTHONPATH", "")) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", "hybridcc.runtime.race_worker", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
        except OSError as error:
            raise DeviceError(
                f"no process to race in could be started: {error}", next_step="check that Python can run itself"
            ) from error
        try:
            yield child, errors
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _root_of_package() -> str:
    """Where ``import hybridcc`` found it, so that the child finds the same."""
    import hybridcc

    return str(Path(hybridcc.__file__).resolve().parents[1])


def _messages(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any] | None]:
    """The child's lines as they come; None once it has been silent for too long."""
    assert child.stdout is not None
    descriptor = child.stdout.fileno()
    pending = b""
    last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(timeout=max(0.0, SILENCE_S - (time.monotonic() - last))):
                yield None
                return
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return
            last = time.monotonic()
            *lines, pending = (pending + piece).split(b"\n")
            yield from (json.loads(line) for line in lines if line.startswith(b"{"))


@contextmanager
def _folder(launch: Launch) -> Iterator[Path]:
    """A folder for the job, in shared memory where it fits: the arguments may be gigabytes."""
    needed = sum(root.nbytes for root in buffers(launch))
    shared = Path("/dev/shm")
    place = str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > 2 * needed else None
    with tempfile.TemporaryDirectory(prefix="hybridcc-race-", dir=place) as folder:
        yield Path(folder)
