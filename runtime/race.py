"""Race a baseline against variants: a child process compares and times, this one judges from the raw samples.

The child owns its context, so an illegal address or an endless loop ends the child and not the user's program; the
race goes on without the contender that did it. Nothing of the user's memory is written: the child works on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import race_children, race_guards, race_job, race_memory, race_roofline, race_statistics
from hybridcc.runtime.device import Device
from hybridcc.runtime.race_children import Children
from hybridcc.runtime.race_job import Contender, Job
from hybridcc.runtime.race_roofline import NO_WORK, Work
from hybridcc.runtime.race_statistics import CHECKS_DURING, CONTROL, Measurement, Sample

BASELINE = "baseline"
CHECKS = 2 + CHECKS_DURING
"""Of each contender in each process: before, during and after timing."""

PROCESSES = 2
"""A race is run in as many processes, one after another: an address layout or a clock state of one is not the rule."""

COMPARED = 100
"""Launches of each variant whose memory is compared, at least."""

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
    compared: Mapping[str, int] = field(default_factory=dict)
    """By variant: launches whose memory was compared with the baseline's."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Further comparisons by what was compared (another launch shape, -O0): why it was not, empty if it was."""
    guards: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By variant and guarded rewrite: how many threads took it, and how many the original, on the raced values."""
    differences: Mapping[str, str] = field(default_factory=dict)
    """By contender that was free to: how its memory first differed from the baseline's."""

    @property
    def checks(self) -> int:
        return sum(self.compared.values())

    @property
    def noise_floor(self) -> float | None:
        return None if self.control is None else race_statistics.noise_floor(self.samples, self.control)


@dataclass(slots=True)
class _Heard:
    """What the children have told so far."""

    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    deviations: list[Deviation] = field(default_factory=list)
    out: set[str] = field(default_factory=set)
    void: str = ""
    next_step: str = ""
    compared: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    guards: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    differences: dict[str, str] = field(default_factory=dict)
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
    children: Children | None = None,
    compared: int = COMPARED,
    work: Work = NO_WORK,
) -> Race:
    """Compare and time ``variants`` against ``baseline`` on the values of ``launch`` (host arrays, never written).

    ``timed`` False only compares. ``compared`` launches of each variant are compared at least. ``alignments`` are of
    the caller's own buffers where those of ``launch`` are copies. ``children`` are processes to race in again and
    again; without them each is started afresh. ``work`` is what any right kernel has to do: what would be faster than
    this GPU can do it is no measurement. Raises InputError when the values do not fit the arguments, DeviceError when
    no child can be started.
    """
    heard = _Heard()
    heard.notes |= {f"-O0 of {c.name}": c.untwinned for c in (baseline, *variants) if c.twins is None}
    with race_job.folder_for(launch) as folder, ExitStack() as stack:
        used = children if children is not None else stack.enter_context(Children())
        used.start(PROCESSES if timed else 1)
        job = race_job.job_of(
            (baseline, *variants), arguments, launch, device.uuid, budget_s=budget_s / PROCESSES, timed=timed,
            alignments=alignments, compared=-(-compared // (PROCESSES * CHECKS)) if timed else compared,
        )  # fmt: skip
        try:
            race_job.write(folder, job, (baseline, *variants), launch)
        except OSError as error:
            why = f"memory: the arguments cannot be handed to the racing process: {error.strerror}"
            return Race({}, None, (), {}, void=why, next_step=race_memory.SMALLER)
        for process in range(PROCESSES if timed else 1):
            if process:  # compared once
                job = replace(job, twins=(), counted=(), shapes=())
            progress(f"racing {len(variants) - len(heard.out)} variants, process {process + 1} of {PROCESSES}")
            _run(folder, replace(job, seed=seed * PROCESSES + process), process, used, heard)
            if heard.void:
                break
    return _conclude(heard, [v.name for v in variants], timed, launch.threads, work)


def _conclude(heard: _Heard, names: Sequence[str], timed: bool, threads: int, work: Work) -> Race:
    standing = [name for name in names if name not in heard.out]
    control, measurements = None, {}
    if timed and not heard.void:
        control, measurements = race_statistics.measure(heard.samples, standing)
        own = _impossible(heard, control.variant_us, CONTROL, threads, work)
        if own:
            heard.void, heard.next_step = own, _DISTRUST
            control, measurements = None, {}
        measurements = {name: _believed(name, each, heard, threads, work) for name, each in measurements.items()}
    return Race(
        measurements, control, tuple(heard.deviations), heard.facts, tuple(heard.samples), heard.void,
        heard.next_step, heard.compared, heard.notes, heard.guards, heard.differences,
    )  # fmt: skip


_DISTRUST = "race again; if it stays, report it with the GPU's and driver's names"


def _believed(name: str, measured: Measurement, heard: _Heard, threads: int, work: Work) -> Measurement:
    """No verdict where the time cannot be, or where no guard held and the original itself was raced."""
    why = _impossible(heard, measured.variant_us, name, threads, work)
    if why:
        return replace(measured, kind="inconclusive", reason=why, next_step=_DISTRUST)
    if race_guards.never_held(heard.guards.get(name, ())):
        why = "no guard held on these values: the original was raced"
        return replace(measured, kind="inconclusive", reason=why, next_step="race on values that meet the guard")
    return measured


def _impossible(heard: _Heard, launch_us: float | None, name: str, threads: int, work: Work) -> str:
    launches = int(heard.facts.get("launches", {}).get(name, 1))
    known = race_roofline.bounds(heard.facts, threads, launches, work)
    return "" if launch_us is None else race_roofline.impossible(launch_us, known)


def _run(folder: Path, job: Job, place: int, children: Children, heard: _Heard) -> None:
    """One racing process; another without a contender that ended it."""
    while True:
        kept = tuple((name, entry) for name, entry in job.contenders if name not in heard.out)
        if len(kept) == 1:
            return
        race_job.write_job(folder, _without(job, kept, heard.given_up))
        heard.runs += 1
        culprit, phase, how = _listen(folder, place, children, heard)
        if not how:
            return
        if culprit == BASELINE and phase in _OPTIONAL and phase not in heard.given_up:
            heard.given_up.add(phase)
            heard.notes[_OPTIONAL[phase]] = f"the baseline itself fails there: {how}"
        elif culprit in ("", BASELINE, CONTROL):
            heard.void = f"the baseline itself fails in the racing process: {how}"
            heard.next_step = "check the kernel and its arguments"
            return
        else:
            heard.out.add(culprit)
            heard.deviations.append(Deviation(culprit, how))


_OPTIONAL = {"poison": "poisoned outputs", "shape": "another launch shape", "unoptimized": "-O0 of the baseline"}
"""What the baseline may fail at without ending the race: a kernel may use what it writes as an index, or live at one
launch shape alone. The race goes on without that comparison, and says so."""


def _without(job: Job, kept: tuple[tuple[str, str], ...], given_up: Collection[str]) -> Job:
    return replace(
        job,
        contenders=kept,
        poison=job.poison and "poison" not in given_up,
        shapes=() if "shape" in given_up else job.shapes,
        twins=() if "unoptimized" in given_up else job.twins,
    )


def _listen(folder: Path, place: int, children: Children, heard: _Heard) -> tuple[str, str, str]:
    """(the contender that ran last, its phase, how the process ended: empty if well)."""
    running = phase = failed = ""
    done = False
    out = len(heard.out)
    child = children.take(place)
    try:
        for message in child.run(folder):
            if message is None:
                return running, phase, f"it did not end within {race_children.SILENCE_S:.0f} s"
            match message.pop("event"):
                case "begin":
                    running, phase = message["contender"], message.get("phase", "")
                case "failed":
                    failed = message["reason"]
                case "done":  # what fails from now on is no contender's doing
                    done = True
                case "end":
                    if len(heard.out) == out and not heard.void:
                        children.give_back(place, child)
                        child = None
                    return running, phase, ""
                case _ as event:
                    _hear(event, message, heard)
        return running, phase, "" if done else failed or child.last_words()
    finally:
        if child is not None:
            child.close()


def _hear(event: str, message: dict[str, Any], heard: _Heard) -> None:
    match event:
        case "sample":
            heard.samples.append(Sample(**{**message, "process": heard.runs}))
        case "device":
            heard.facts.update(message)
        case "check":
            name = message["contender"]
            if name not in (BASELINE, CONTROL):
                heard.compared[name] = heard.compared.get(name, 0) + message["launches"]
            if not message["equal"]:
                _deviates(message, heard)
        case "shape":
            heard.notes[f"grid {_triple(message['grid'])}, block {_triple(message['block'])}"] = message["why"]
        case "unoptimized":
            heard.notes[f"-O0 of {message['contender']}"] = message["why"]
        case "guards":
            heard.guards[message["contender"]] = tuple((taken, not_taken) for taken, not_taken in message["counts"])
        case "stop":
            heard.void, heard.next_step = message["reason"], message["next_step"]


def _triple(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


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
    elif message.get("free"):
        heard.differences.setdefault(name, what)
    elif name not in heard.out:
        heard.out.add(name)
        heard.deviations.append(Deviation(name, what))
