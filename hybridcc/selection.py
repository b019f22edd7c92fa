"""Which module ships for an architecture, and why: policy applied to verdicts, resources and measurements.

Ties and doubts go to the baseline. Every candidate leaves with exactly one fate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from hybridcc.passes.verdict import NAN_PAYLOADS, Proved, Refuted, Tested, TestedWithin, Unknown, Verdict
from hybridcc.records import (
    BASELINE,
    PENDING,
    Accept,
    CandidateRecord,
    Failure,
    Fate,
    Machine,
    RegionRecord,
    Select,
    Selection,
)
from hybridcc.report.words import plural, verdict_kind


def accepted(verdict: Verdict, policy: Accept) -> bool:
    """Whether the policy takes the verdict. The default policy lets a proof set payloads of NaNs aside, and no more."""
    match verdict:
        case Proved(_, aside):
            return set(aside) <= {NAN_PAYLOADS} or policy == "tested"
        case Tested():
            return policy == "tested"
        case TestedWithin() | Refuted() | Unknown():
            return False
        case _:
            assert_never(verdict)


def select(
    baseline: Machine,
    candidates: Sequence[CandidateRecord],
    accept: Accept,
    how: Select,
    failures: Sequence[Failure],
    regions: Sequence[RegionRecord] = (),
) -> tuple[Selection, tuple[CandidateRecord, ...]]:
    """The selection, and the candidates with their fates settled."""
    judged = [_judge(c, accept) for c in candidates]
    standing = [c for c in judged if c.fate is PENDING]
    if not standing:
        return _nothing_stands(judged, accept, failures, regions), tuple(judged)
    raced = [c for c in standing if c.speed.kind != "not_measured"]
    match how:
        case "measured":
            selection = _by_measurement(standing, raced)
        case "proved":
            selection = _by_measurement(standing, raced) if raced else _unmeasured(baseline, standing)
        case "transfer":
            selection = _by_measurement(standing, raced) if raced else _no_transfer(standing)
        case _:
            assert_never(how)
    return selection, tuple(_settle(c, selection) for c in judged)


def stands(candidate: CandidateRecord, policy: Accept) -> bool:
    """Whether a candidate has passed every check, with a verdict that the policy accepts."""
    if candidate.fate is not PENDING or candidate.evidence is None:
        return False
    return accepted(candidate.evidence.verdict, policy)


def _judge(candidate: CandidateRecord, accept: Accept) -> CandidateRecord:
    """Failed or below policy, or still standing (PENDING)."""
    if candidate.fate is not PENDING:
        return candidate
    assert candidate.evidence is not None
    verdict = candidate.evidence.verdict
    if accepted(verdict, accept):
        return candidate
    match verdict:
        case Refuted():
            fate = Fate("failed", "REFUTED")
        case Unknown():
            fate = Fate("failed", "UNKNOWN")
        case Proved() | Tested() | TestedWithin():
            fate = Fate("skipped", "BELOW_POLICY", f"the policy accepts {accept}")
        case _:
            assert_never(verdict)
    return replace(candidate, fate=fate)


def _nothing_stands(
    judged: Sequence[CandidateRecord],
    accept: Accept,
    failures: Sequence[Failure],
    regions: Sequence[RegionRecord],
) -> Selection:
    below = [c for c in judged if c.fate.code == "BELOW_POLICY"]
    if below:
        assert below[0].evidence is not None
        kind = verdict_kind(below[0].evidence.verdict)
        return Selection(
            BASELINE,
            "BELOW_POLICY",
            f"{kind}, and the policy accepts {accept}: baseline selected, {plural(len(below), 'variant')} carried; "
            f"pass --accept {kind} to accept what is {kind}",
        )
    if judged:
        codes = ", ".join(sorted({c.fate.code for c in judged}))
        return Selection(BASELINE, "NONE_VERIFIED", f"baseline selected: no candidate passed ({codes})")
    if failures:
        first = failures[0]
        return Selection(BASELINE, "NO_CANDIDATE", f"baseline selected: {first.stage} failed ({first.code})")
    open_ = [region for region in regions if not region.ineligible]
    if open_:
        count = f"{plural(len(open_), 'hot region')} could be rewritten"
        return Selection(BASELINE, "NO_ANSWER", f"baseline selected: {count}, no answer came; give one with --rewriter")
    return Selection(BASELINE, "NOTHING_TO_REWRITE", "baseline selected: nothing to rewrite")


def _by_measurement(standing: Sequence[CandidateRecord], raced: Sequence[CandidateRecord]) -> Selection:
    if not raced:
        kind = _kind(standing[0])
        return Selection(
            BASELINE,
            "NOT_MEASURED",
            f"{kind}, not measured: baseline selected, {plural(len(standing), 'variant')} carried; "
            "optimize on the target or pass --select proved",
        )
    faster = [c for c in raced if c.speed.kind == "faster" and c.speed.ratio is not None]
    if raced and all(c.speed.kind == "inconclusive" for c in raced):
        return Selection(BASELINE, "INCONCLUSIVE", f"baseline selected: {raced[0].speed.reason}", measured=True)
    if not faster:
        return Selection(BASELINE, "NOT_FASTER", "baseline selected: no variant is faster", measured=True)
    best = max(faster, key=lambda c: c.speed.ratio or 0.0)
    low, high = best.speed.interval or (0.0, 0.0)
    text = f"faster {best.speed.ratio:.2f}x [{low:.2f}, {high:.2f}] on {best.speed.device}, {_kind(best)}: {best.name}"
    return Selection(best.name, "FASTER", f"{text} selected", measured=True)


def _unmeasured(baseline: Machine, standing: Sequence[CandidateRecord]) -> Selection:
    """The first in the rewriter's own order that does not spill more than the baseline does."""
    for candidate in standing:
        assert candidate.machine is not None
        if candidate.machine.cubin.spill_stores <= baseline.cubin.spill_stores:
            return Selection(
                candidate.name,
                "UNMEASURED",
                f"{_kind(candidate)}, not measured: {candidate.name} selected because of --select proved, "
                "its speed is unknown here",
            )
    return Selection(BASELINE, "MORE_SPILLS", "baseline selected: every variant spills more registers")


def _no_transfer(standing: Sequence[CandidateRecord]) -> Selection:
    return Selection(
        BASELINE,
        "NO_TRANSFER",
        f"{_kind(standing[0])}, not measured on any architecture: baseline selected, "
        f"{plural(len(standing), 'variant')} carried; --select transfer needs one that won elsewhere",
    )


def _settle(candidate: CandidateRecord, selection: Selection) -> CandidateRecord:
    if candidate.fate is not PENDING:
        return candidate
    if candidate.name == selection.variant:
        return replace(candidate, fate=Fate("chosen", selection.code))
    match candidate.speed.kind:
        case "slower":
            fate = Fate("slower", "SLOWER")
        case "same":
            fate = Fate("tie", "SAME")
        case "faster":
            fate = Fate("skipped", "NOT_FASTEST", f"{selection.variant} is faster still")
        case "inconclusive":
            fate = Fate("skipped", "INCONCLUSIVE", candidate.speed.reason)
        case "not_measured":
            code = "NOT_FIRST" if selection.code == "UNMEASURED" else "NOT_MEASURED"
            fate = Fate("skipped", code)
        case _:
            assert_never(candidate.speed.kind)
    return replace(candidate, fate=fate)


def _kind(candidate: CandidateRecord) -> str:
    assert candidate.evidence is not None
    return verdict_kind(candidate.evidence.verdict)
