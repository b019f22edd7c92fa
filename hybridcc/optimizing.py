"""``kernel[grid, block].optimize(*args)``: profile to selection on a user's own arguments, and the switch to it."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hybridcc.asking import regions_of
from hybridcc.attempt import attempt
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, as_shape
from hybridcc.pipeline import Options, Progress, optimize
from hybridcc.records import BASELINE, Accept, CandidateRecord, Failure, KernelRecord, Machine, Select, Selection, Speed
from hybridcc.runtime import device as devices
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import Contender, Race, race
from hybridcc.runtime.race_statistics import Measurement

if TYPE_CHECKING:
    from hybridcc.passes.rewrite import Rewriter
    from hybridcc.runtime.dispatcher import Configured
    from hybridcc.runtime.store import Decision

NUMBA = "numba"
"""In a race: the very cubin that Numba launches. It may be made by link-time optimisation, where the baseline is the
PTX of the same kernel; a variant must beat both."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call of ``optimize`` came to. ``selection`` says what runs now, and why; ``text`` is the report."""

    kernel: str
    selection: Selection
    record: KernelRecord | None
    race: Race | None
    text: str
    seconds: float
    failures: tuple[Failure, ...] = ()
    from_store: bool = False

    @property
    def switched(self) -> bool:
        return self.selection.variant != BASELINE

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class _Run:
    """One call of ``optimize`` on its way."""

    configured: Configured
    args: Sequence[Any]
    options: Options
    budget_s: float
    progress: Progress
    begin: float = field(default_factory=time.monotonic)
    failures: list[Failure] = field(default_factory=list)
    race: Race | None = None

    @property
    def name(self) -> str:
        return self.configured.dispatcher.__name__


def optimize_call(
    configured: Configured,
    args: Sequence[Any],
    *,
    budget_s: float = 60.0,
    rewriter: str | None = None,
    accept: Accept = "proved",
    select: Select = "measured",
    examples: Callable[[], object] | None = None,
    answers: int = 4,
    seed: int = 0,
    reuse: bool = True,
    progress: Progress | None = None,
) -> Outcome:
    """See ``Configured.optimize`` (runtime/dispatcher.py). Raises NoDevice; every other failure is in the outcome."""
    from hybridcc.building import open_or_failure, portable

    dispatcher = configured.dispatcher
    device = devices.current()
    spec = rewriter if rewriter is not None else _recording_of(dispatcher.py_func)
    options = Options(accept, select, portable(spec), answers, seed=seed)
    run = _Run(configured, args, options, budget_s, progress or _to_stderr)
    if dispatcher.mode == "off":
        return _baseline(run, "OFF", "HYBRIDCC=off: nothing was tried")
    if dispatcher.targetoptions["debug"]:
        return _baseline(run, "DEBUG", "debug=True: only Numba's own launch raises what the kernel raises")
    prepared = attempt("compile", run.failures, lambda: _prepare(run, device), None)
    if prepared is None:
        return _failed(run)
    kernel, types, launch, alignments = prepared
    opened, failure = open_or_failure(spec)
    if failure is not None:
        run.failures.append(failure[0])
    found = _stored(run, kernel, launch, device) if reuse else None
    if found is not None:
        checked = attempt("store", run.failures, lambda: _from_store(run, found, kernel, types, launch, device), None)
        if checked is not None:
            return checked
    _announce(run, kernel, opened)
    given = examples or dispatcher.examples
    tests = attempt("examples", run.failures, lambda: _launches(given, kernel, launch), (launch,))

    def on_device(kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
        return _race(run, kernel, baseline, candidates, launch, alignments, types, device)

    before = tuple(run.failures)
    record = attempt(
        "pipeline",
        run.failures,
        lambda: optimize((kernel,), options, opened, tests, run.progress, before, on_device),
        None,
    )
    if record is None:
        return _failed(run)
    return _settle(run, record, kernel, types, launch, device)


def _recording_of(function: Callable[..., object]) -> str:
    from hybridcc.passes.rewrite import recording

    found = recording.beside(function.__code__.co_filename)
    return f"replay:{found}" if found else "none"


def _to_stderr(message: str) -> None:
    if sys.stderr.isatty():
        print(f"hybridcc: {message}", file=sys.stderr)


def _prepare(run: _Run, device: Device) -> tuple[Kernel, tuple[Any, ...], Launch, tuple[int, ...]]:
    """(the kernel for this GPU, its Numba types, the launch on host copies, alignment of each buffer)."""
    from hybridcc.passes.verify.launch import buffers
    from hybridcc.runtime.host_arrays import to_host
    from hybridcc.runtime.race_job import ALIGNMENT, address_of

    configured = run.configured
    types = configured.dispatcher.types_of(run.args)
    kernel = configured.dispatcher.compile_for(types, device.arch)
    values, addresses = to_host(kernel.arguments, run.args)
    grid, block = as_shape(configured.griddim), as_shape(configured.blockdim)
    launch = Launch(grid, block, values, family="given", shared_bytes=configured.sharedmem)
    alignments = tuple(addresses.get(id(root), address_of(root)) % ALIGNMENT for root in buffers(launch))
    return kernel, types, launch, alignments


def _launches(given: Callable[[], object] | None, kernel: Kernel, launch: Launch) -> tuple[Launch, ...]:
    """What to test on: the author's examples, else the call's own arguments (smaller ones are made of its shape)."""
    from hybridcc.passes.verify import examples

    return examples.from_callable(given, kernel) if given is not None else (launch,)


def _announce(run: _Run, kernel: Kernel, rewriter: Rewriter | None) -> None:
    """Say beforehand what can be gained at most: by Amdahl's law, from the estimated share of what may be rewritten."""
    if rewriter is None:
        run.progress(f"{run.name}: no rewriter and no recording, so nothing can be gained")
        return
    found = attempt("regions", run.failures, lambda: regions_of(kernel), ())
    share = min(1.0, sum(region.share for region in found if region.eligible))
    most = f"at most {1 / (1 - share):.1f}x" if share < 0.99 else "no bound from the rest of the kernel"
    run.progress(f"{run.name}: regions that may be rewritten take an estimated {share:.0%} of the time: {most}")


# --- the race, as the pipeline asks for it ---


def _race(
    run: _Run,
    kernel: Kernel,
    baseline: Machine,
    candidates: Sequence[CandidateRecord],
    launch: Launch,
    alignments: Sequence[int],
    types: Sequence[Any],
    device: Device,
) -> Mapping[str, Speed]:
    contenders = [Contender(c.name, c.machine.cubin.bytes, kernel.entry) for c in candidates if c.machine is not None]
    numba = attempt("numba", run.failures, lambda: _numbas_own(run, types), None)
    if numba is not None:
        contenders.append(numba)
    run.race = race(
        Contender(BASELINE, baseline.cubin.bytes, kernel.entry),
        contenders,
        kernel.arguments,
        launch,
        device,
        budget_s=run.budget_s,
        seed=run.options.seed,
        alignments=alignments,
        progress=run.progress,
    )
    return {c.name: speed_of(c.name, run.race, device) for c in candidates}


def _numbas_own(run: _Run, types: Sequence[Any]) -> Contender:
    """The machine code that a call launches now."""
    kernel = run.configured.dispatcher.compile(tuple(types))
    cubin = kernel._codelibrary.get_cubin()
    return Contender(NUMBA, bytes(getattr(cubin, "code", cubin)), kernel.entry_name)


def speed_of(name: str, raced: Race, device: Device) -> Speed:
    """The measurement in the records' words. Never faster than Numba's own code unless it beats that too."""
    if raced.void:
        return Speed("inconclusive", f"{raced.void}; next: {raced.next_step}", device=device.name)
    deviation = next((d for d in raced.deviations if d.contender == name), None)
    if deviation is not None:
        return Speed("inconclusive", "refuted on the device", device=device.name, deviation=deviation.what)
    measured = raced.measurements[name]
    own = raced.measurements.get(NUMBA)
    if measured.kind == "faster" and own is not None and not _beats(measured, own):
        return Speed(
            "same", f"not clearly faster than Numba's own code ({_ratio(own)} of the baseline)", measured.ratio,
            measured.interval, device.name,
        )  # fmt: skip
    reason = f"{measured.reason}; next: {measured.next_step}" if measured.reason else ""
    return Speed(measured.kind, reason, measured.ratio, measured.interval, device.name)


def _beats(measured: Measurement, own: Measurement) -> bool:
    return measured.interval is not None and own.interval is not None and measured.interval[0] > own.interval[1]


def _ratio(measured: Measurement) -> str:
    return "unknown" if measured.ratio is None else f"{measured.ratio:.3f}x"


# --- the switch ---


def _settle(
    run: _Run, record: KernelRecord, kernel: Kernel, types: tuple[Any, ...], launch: Launch, device: Device
) -> Outcome:
    (architecture,) = record.architectures
    selection = architecture.selection
    chosen = next((c for c in architecture.candidates if c.name == selection.variant), None)
    cubin = chosen.machine.cubin.bytes if chosen is not None and chosen.machine is not None else None
    if not _switch(run, kernel, types, cubin):
        selection = Selection(BASELINE, "NOT_LOADED", "baseline selected: the variant could not be loaded")
        cubin = None
    attempt("store", run.failures, lambda: _save(run, kernel, launch, device, selection, cubin), None)
    text = _report(record, run)
    return Outcome(run.name, selection, record, run.race, text, time.monotonic() - run.begin, tuple(run.failures))


def _switch(run: _Run, kernel: Kernel, types: tuple[Any, ...], cubin: bytes | None) -> bool:
    """Launch these bytes from now on (None: the baseline). False if they could not be loaded."""
    from hybridcc.runtime.launch import Launcher, LoadedKernel

    dispatcher = run.configured.dispatcher
    if cubin is None or dispatcher.mode == "baseline":
        dispatcher.use(None, types)
        return True

    def load() -> Launcher:
        loaded = LoadedKernel(cubin, kernel.entry)
        carveout = dispatcher.options.get("shared_memory_carveout")
        if carveout is not None:
            named = {"default": -1, "maxl1": 0, "maxshared": 100}.get(str(carveout).lower())
            loaded.set_attribute("PREFERRED_SHARED_MEMORY_CARVEOUT", int(carveout) if named is None else named)
        if run.configured.sharedmem > 48 << 10:
            loaded.set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", run.configured.sharedmem)
        return Launcher(loaded, kernel.arguments, types, lenient=dispatcher.specialized)

    launcher = attempt("load", run.failures, load, None)
    dispatcher.use(launcher, types)
    return launcher is not None


def _baseline(run: _Run, code: str, reason: str) -> Outcome:
    selection = Selection(BASELINE, code, reason)
    text = "\n".join([f"{run.name}: {reason}", *(f"  {f.stage}: {f.message}" for f in run.failures)])
    return Outcome(run.name, selection, None, run.race, text, time.monotonic() - run.begin, tuple(run.failures))


def _failed(run: _Run) -> Outcome:
    first = run.failures[-1]
    return _baseline(run, first.code, f"baseline selected: {first.stage} failed ({first.code})")


def _report(record: KernelRecord, run: _Run) -> str:
    from rich.console import Console

    from hybridcc.manifest import manifest_of
    from hybridcc.report.terminal import show

    out = io.StringIO()
    show(manifest_of(record), Console(file=out, width=118, no_color=True))
    text = out.getvalue().rstrip()
    return f"{text}\n{_race_text(run.race)}".rstrip() if run.race is not None else text


def _race_text(raced: Race) -> str:
    if raced.void:
        return f"  race: {raced.void}"
    lines = [f"  race: {raced.facts.get('l2', '')}; {raced.checks} launches of variants compared bit for bit"]
    if raced.noise_floor is not None:
        lines.append(f"    baseline against itself: within {raced.noise_floor:.2%}")
    for name, m in raced.measurements.items():
        interval = f" [{m.interval[0]:.3f}, {m.interval[1]:.3f}] at {m.confidence:.1%}" if m.interval else ""
        times = f", {m.baseline_us:.1f} to {m.variant_us:.1f} us" if m.baseline_us and m.variant_us else ""
        lines.append(f"    {name}: {m.kind} {_ratio(m)}{interval}{times}, {m.blocks} blocks")
    return "\n".join(lines)


# --- the store ---


def _identity(run: _Run, kernel: Kernel, launch: Launch, device: Device) -> dict[str, object]:
    """Everything a decision rests on."""
    from hybridcc import __version__
    from hybridcc.ptx import parse
    from hybridcc.ptx.canonical import canonical_key
    from hybridcc.runtime.assemble import identity

    return {
        "ptx": canonical_key(parse(kernel.ptx, kernel.name), kernel.entry),
        "hybridcc": __version__,
        "frontend": kernel.frontend,
        "assembler": str(identity(run.options.assembler)),
        "arch": kernel.arch,
        "device": device.name,
        "driver": device.driver,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "extents": [list(getattr(v, "shape", ())) for v in launch.values],
        "policy": [run.options.accept, run.options.select],
        "rewriter": run.options.rewriter,
        "answers": run.options.answers,
        "seed": run.options.seed,
    }


def _stored(run: _Run, kernel: Kernel, launch: Launch, device: Device) -> Decision | None:
    from hybridcc.runtime import store

    key = attempt("store", run.failures, lambda: store.key_of(_identity(run, kernel, launch, device)), "")
    return attempt("store", run.failures, lambda: store.find(key), None) if key else None


def _from_store(
    run: _Run, found: Decision, kernel: Kernel, types: tuple[Any, ...], launch: Launch, device: Device
) -> Outcome | None:
    """An earlier decision, its bytes compared with the baseline's once more before they run; None if they differ."""
    from hybridcc.runtime.assemble import assemble

    if found.cubin is not None:
        run.progress(f"{run.name}: checking the variant of an earlier decision")
        baseline = Contender(BASELINE, assemble(kernel.ptx, kernel.arch, run.options.assembler).bytes, kernel.entry)
        variant = Contender(found.variant, found.cubin, kernel.entry)
        raced = race(baseline, [variant], kernel.arguments, launch, device, timed=False)
        if raced.void or raced.deviations:
            return None
    if not _switch(run, kernel, types, found.cubin):
        return None
    made = time.strftime("%Y-%m-%d", time.gmtime(found.made))
    selection = Selection(found.variant, found.code, f"{found.reason} (decided {made})", measured=True)
    text = f"{run.name}: {selection.reason}"
    return replace(_baseline(run, selection.code, text), selection=selection, text=text, from_store=True)


def _save(run: _Run, kernel: Kernel, launch: Launch, device: Device, selection: Selection, cubin: bytes | None) -> None:
    from hybridcc.runtime import store

    if run.race is None or run.race.void:
        return  # nothing was measured: the next call may
    measured = run.race.measurements.get(selection.variant)
    evidence: dict[str, object] = {"noise_floor": run.race.noise_floor, "facts": dict(run.race.facts)}
    if measured is not None:
        evidence |= {"ratio": measured.ratio, "interval": measured.interval, "blocks": measured.blocks}
    store.save(
        store.Decision(
            kernel.name,
            _identity(run, kernel, launch, device),
            selection.variant,
            selection.code,
            selection.reason,
            cubin,
            evidence,
        )
    )
