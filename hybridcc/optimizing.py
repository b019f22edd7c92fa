"""``kernel[grid, block].optimize(*args)``: profile to selection on a user's own arguments, and the switch to it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hybridcc import decisions
from hybridcc.asking import regions_of
from hybridcc.attempt import attempt
from hybridcc.decisions import Call
from hybridcc.errors import DeviceError, UnknownArchitecture
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, as_shape
from hybridcc.pipeline import Options, Progress
from hybridcc.records import BASELINE, Accept, Failure, KernelRecord, Select, Selection
from hybridcc.runtime import device as devices
from hybridcc.runtime import store
from hybridcc.runtime.device import Device
from hybridcc.runtime.driver import is_capturing, stream_handle
from hybridcc.runtime.launch_class import launch_class
from hybridcc.runtime.race_job import Contender
from hybridcc.speeds import NUMBA

if TYPE_CHECKING:
    from hybridcc.passes.rewrite import Rewriter
    from hybridcc.runtime.dispatcher import Configured, Dispatcher
    from hybridcc.runtime.launch import Launcher
    from hybridcc.runtime.race import Race
    from hybridcc.runtime.store import Decision

REWRITER = "HYBRIDCC_REWRITER"
"""Which rewriter to ask where neither ``rewriter=`` nor a recording beside the kernel's file says."""


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


def told_of(name: str, outcomes: Sequence[Outcome]) -> str:
    """What a kernel's outcomes came to, for ``kernel.report()``."""
    from hybridcc.report.notebook import Told

    if not outcomes:
        return Told.of(f"{name}: not optimized yet; call {name}[grid, block].optimize(arguments)", ())
    text = "\n\n".join(outcome.text for outcome in outcomes)
    return Told.of(text, [o.record for o in outcomes if o.record is not None])


@dataclass(slots=True)
class _Run:
    """One call of ``optimize`` on its way."""

    configured: Configured
    options: Options
    progress: Progress
    begin: float = field(default_factory=time.monotonic)
    failures: list[Failure] = field(default_factory=list)

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
    minimise: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """See ``Configured.optimize`` (runtime/dispatcher.py). Raises NoDevice, and DeviceError while a CUDA graph is
    captured; every other failure is in the outcome."""
    from hybridcc.building import open_or_failure, portable
    from hybridcc.tuning import tune

    dispatcher = configured.dispatcher
    device = devices.current()
    spec = rewriter if rewriter is not None else rewriter_for(dispatcher)
    options = Options(accept, select, portable(spec), answers, seed=seed, minimise=minimise)
    run = _Run(configured, options, progress or _to_stderr)
    if dispatcher.mode == "off":
        return _baseline(run, "OFF", "HYBRIDCC=off: nothing was tried")
    if dispatcher.targetoptions["debug"]:
        return _baseline(run, "DEBUG", "debug=True: only Numba's own launch raises what the kernel raises")
    if is_capturing(stream_handle(configured.stream)):
        raise DeviceError(
            f"{run.name} cannot be optimized while a CUDA graph is captured",
            next_step="optimize it before the capture begins",
        )
    prepared = attempt("compile", run.failures, lambda: prepare(configured, args, device, run.failures), None)
    if prepared is None:
        return _failed(run)
    call, types = prepared
    assert call.launch is not None
    own_launch = call.launch
    opened, failure = open_or_failure(spec)
    if failure is not None:
        run.failures.append(failure[0])
    identity = attempt("store", run.failures, lambda: _identity(call, options, spec), None)
    if reuse and identity is not None:
        found = attempt("store", run.failures, lambda: store.find(store.key_of(identity)), None)
        if found is not None:
            run.progress(f"{run.name}: an earlier decision")
            checked = attempt("store", run.failures, lambda: _from_store(run, found, call, types), None)
            if checked is not None:
                return checked
    _announce(run, call.kernel, opened)
    given = examples or dispatcher.examples
    tests = attempt("examples", run.failures, lambda: _launches(given, call.kernel, own_launch), (own_launch,))
    tuned = tune(
        call, options, identity or {"situation": {}}, opened, tests, run.failures,
        budget_s=budget_s, reuse=reuse and identity is not None, progress=run.progress,
    )  # fmt: skip
    if tuned is None:
        return _failed(run)
    selection = tuned.selection
    if not attempt("load", run.failures, lambda: switch(configured, call, types, tuned.cubin), False):
        selection = Selection(BASELINE, "NOT_LOADED", "baseline selected: the variant could not be loaded")
    elif identity is not None and tuned.rows:
        attempt("store", run.failures, lambda: store.save(*tuned.rows), None)
        dispatcher.look_again()  # on the other GPUs of this process
    seconds = time.monotonic() - run.begin
    return Outcome(run.name, selection, tuned.record, tuned.race, tuned.text, seconds, tuple(run.failures))


def rewriter_for(dispatcher: Dispatcher) -> str:
    """The recording beside the kernel's file, else what HYBRIDCC_REWRITER names, else none."""
    from hybridcc.passes.rewrite import recording

    found = recording.beside(dispatcher.py_func.__code__.co_filename)
    return f"replay:{found}" if found else os.environ.get(REWRITER, "") or "none"


def _to_stderr(message: str) -> None:
    if sys.stderr.isatty():
        print(f"hybridcc: {message}", file=sys.stderr)


def arch_for(device: Device) -> str:
    """What to compile for that device. Raises UnknownArchitecture for one that is newer or older than all known."""
    from hybridcc.ptx.targets import known_targets, target
    from hybridcc.runtime.choice import choose

    portable = [name for name in known_targets() if not target(name).arch_specific]
    chosen = choose(portable, (), device.capability)
    if chosen is None:
        raise UnknownArchitecture(
            f"{device.name} ({device.arch}) is of no architecture that this hybridcc knows",
            next_step=f"the baseline runs; known are {', '.join(portable)}",
        )
    return chosen.arch


def prepare(
    configured: Configured, args: Sequence[Any], device: Device, failures: list[Failure]
) -> tuple[Call, tuple[Any, ...]]:
    """(the call as data, with copies of its arguments on the host; its Numba types)."""
    from hybridcc.passes.verify.launch import buffers
    from hybridcc.runtime.host_arrays import to_host
    from hybridcc.runtime.race_job import ALIGNMENT, address_of

    types = configured.dispatcher.types_of(args)
    kernel = configured.dispatcher.compile_for(types, arch_for(device))
    shape = launch_class(kernel.arguments, args, configured.griddim, configured.blockdim, configured.sharedmem)
    values, addresses = to_host(kernel.arguments, args)
    grid, block = as_shape(configured.griddim), as_shape(configured.blockdim)
    launch = Launch(grid, block, values, family="given", shared_bytes=configured.sharedmem)
    alignments = tuple(addresses.get(id(root), address_of(root)) % ALIGNMENT for root in buffers(launch))
    own = attempt("numba", failures, lambda: _numbas_own(configured, types), None)
    return Call(kernel, launch, alignments, device, shape, own), types


def _numbas_own(configured: Configured, types: Sequence[Any]) -> Contender:
    """The machine code that a call launches now."""
    kernel = configured.dispatcher.compile(tuple(types))
    cubin = kernel._codelibrary.get_cubin()
    return Contender(NUMBA, bytes(getattr(cubin, "code", cubin)), kernel.entry_name)


def _identity(call: Call, options: Options, spec: str) -> dict[str, object]:
    situation = decisions.situation(call.kernel, call.device, call.shape, options)
    regions = decisions.region_keys(call.kernel)
    return decisions.decision_identity(situation, regions, options, decisions.rewriter_identity(spec))


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


# --- the switch ---


def switch(configured: Configured, call: Call, types: tuple[Any, ...], cubin: bytes | None) -> bool:
    """Launch these bytes from now on (None: the baseline), in one step. Raises DeviceError if they cannot be loaded;
    the baseline then runs."""
    dispatcher, ordinal = configured.dispatcher, call.device.ordinal
    launcher = None
    try:
        if cubin is not None and dispatcher.mode != "baseline":
            launcher = _launcher(configured, call, types, cubin)
    except DeviceError:
        dispatcher.use(None, types, ordinal)
        raise
    dispatcher.use(launcher, types, ordinal)
    return True


def _launcher(configured: Configured, call: Call, types: tuple[Any, ...], cubin: bytes) -> Launcher:
    from hybridcc.runtime.launch import Launcher, LoadedKernel

    dispatcher, ordinal = configured.dispatcher, call.device.ordinal
    loaded = LoadedKernel(cubin, call.kernel.entry)
    carveout = dispatcher.options.get("shared_memory_carveout")
    if carveout is not None:
        named = {"default": -1, "maxl1": 0, "maxshared": 100}.get(str(carveout).lower())
        loaded.set_attribute("PREFERRED_SHARED_MEMORY_CARVEOUT", int(carveout) if named is None else named, ordinal)
    loaded.allow_shared(configured.sharedmem, ordinal)
    return Launcher(loaded, call.kernel.arguments, types, lenient=dispatcher.converts, ordinal=ordinal)


def _baseline(run: _Run, code: str, reason: str) -> Outcome:
    selection = Selection(BASELINE, code, reason)
    text = "\n".join([f"{run.name}: {reason}", *(f"  {f.stage}: {f.message}" for f in run.failures)])
    return Outcome(run.name, selection, None, None, text, time.monotonic() - run.begin, tuple(run.failures))


def _failed(run: _Run) -> Outcome:
    first = run.failures[-1]
    return _baseline(run, first.code, f"baseline selected: {first.stage} failed ({first.code})")


def _from_store(run: _Run, found: Decision, call: Call, types: tuple[Any, ...]) -> Outcome | None:
    """An earlier decision, if its variant may still run."""
    if not decisions.still_good(found, call, run.options):
        return None
    switch(run.configured, call, types, found.cubin)
    made = time.strftime("%Y-%m-%d", time.gmtime(found.made))
    selection = Selection(found.variant, found.code, f"{found.reason} (decided {made})", measured=True)
    text = f"{run.name}: {selection.reason}"
    return replace(_baseline(run, selection.code, text), selection=selection, text=text, from_store=True)
