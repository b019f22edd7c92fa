"""One call of a kernel, tuned: the pipeline with a race on this machine's GPU, and rows for the store."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hybridcc import decisions
from hybridcc.attempt import attempt
from hybridcc.decisions import Call
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.rewrite import Rewriter
from hybridcc.passes.verify.launch import Launch
from hybridcc.pipeline import Options, Progress, optimize
from hybridcc.racing import entrants
from hybridcc.records import BASELINE, CandidateRecord, Failure, KernelRecord, Machine, Selection, Speed
from hybridcc.runtime.race import Race, race
from hybridcc.runtime.race_entrants import entrant
from hybridcc.runtime.store import Decision, Measured, Row
from hybridcc.speeds import race_text, speed_of


@dataclass(frozen=True, slots=True)
class Tuned:
    """``cubin`` is None where the baseline was selected. ``rows`` are what lasts of it, the decision first if it
    does."""

    record: KernelRecord
    selection: Selection
    cubin: bytes | None = field(repr=False)
    race: Race | None = field(repr=False)
    rows: tuple[Row, ...] = field(repr=False)
    text: str = field(repr=False)


@dataclass(slots=True)
class _Work:
    call: Call
    options: Options
    situation: Mapping[str, object]
    budget_s: float
    progress: Progress
    failures: list[Failure]
    reuse: bool
    race: Race | None = None
    measured: list[Measured] = field(default_factory=list)


def tune(
    call: Call,
    options: Options,
    identity: Mapping[str, object],
    rewriter: Rewriter | None,
    tests: Sequence[Launch],
    failures: list[Failure],
    *,
    budget_s: float,
    reuse: bool = True,
    progress: Progress = lambda message: None,
) -> Tuned | None:
    """None, with the reason in ``failures``, where not even a baseline came out. ``identity`` is the decision's
    (decisions.decision_identity). With ``reuse`` only variants race that the store knows nothing of."""
    situation = identity["situation"]
    assert isinstance(situation, Mapping)
    work = _Work(call, options, situation, budget_s, progress, failures, reuse)
    record = attempt(
        "pipeline",
        failures,
        lambda: optimize(
            (call.kernel,), options, rewriter, tests, progress, tuple(failures), lambda *c: _race(work, *c)
        ),
        None,
    )
    if record is None:
        return None
    (architecture,) = record.architectures
    selection = architecture.selection
    chosen = next((c for c in architecture.candidates if c.name == selection.variant), None)
    cubin = chosen.machine.cubin.bytes if chosen is not None and chosen.machine is not None else None
    rows: list[Row] = list(work.measured)
    if decisions.lasts(selection, architecture):
        checked = (decisions.today(), decisions.driver_build(call.device))
        evidence = _evidence(chosen, work.race)
        rows.insert(
            0,
            Decision(
                call.kernel.name, identity, selection.variant, selection.code, selection.reason, cubin, evidence,
                checked_day=checked[0], checked_driver=checked[1],
            ),
        )  # fmt: skip
    return Tuned(record, selection, cubin, work.race, tuple(rows), _text(record, work.race))


def _race(work: _Work, kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
    """The pipeline's race: of those variants alone that were not measured before in this situation."""
    call = work.call
    assert call.launch is not None
    known: dict[str, Speed] = {}
    if work.reuse:
        known = attempt(
            "store", work.failures, lambda: decisions.remembered(work.situation, candidates, call.own), known
        )
    fresh = [c for c in candidates if c.name not in known and c.machine is not None]
    if not fresh:
        return known
    contenders = entrants(kernel.entry, fresh)
    if call.own is not None:
        contenders.append(call.own)
    raced = work.race = race(
        entrant(BASELINE, baseline.cubin, kernel.entry, kernel.ptx),
        contenders,
        kernel.arguments,
        call.launch,
        call.device,
        budget_s=work.budget_s,
        seed=work.options.seed,
        alignments=call.alignments,
        progress=work.progress,
    )
    speeds = {c.name: speed_of(c.name, raced, call.device) for c in fresh}
    work.measured += decisions.measured_rows(kernel.name, work.situation, fresh, call.own, speeds, raced)
    return {**known, **speeds}


def _evidence(chosen: CandidateRecord | None, raced: Race | None) -> dict[str, object]:
    evidence: dict[str, object] = {}
    if raced is not None:
        evidence |= {"noise_floor": raced.noise_floor, "facts": dict(raced.facts)}
    if chosen is not None:
        speed = chosen.speed
        evidence |= {"ratio": speed.ratio, "interval": None if speed.interval is None else list(speed.interval)}
        if chosen.evidence is not None:
            evidence["verdict"] = type(chosen.evidence.verdict).__name__.lower()
    return evidence


def _text(record: KernelRecord, raced: Race | None) -> str:
    from rich.console import Console

    from hybridcc.manifest import manifest_of
    from hybridcc.report.terminal import show

    out = io.StringIO()
    show(manifest_of(record), Console(file=out, width=118, no_color=True))
    text = out.getvalue().rstrip()
    return f"{text}\n{race_text(raced)}".rstrip() if raced is not None else text
