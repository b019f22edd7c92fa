"""Search by measurement: what passed is raced, the best is told how its machine code differs, winners are joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hybridcc.attempt import attempt
from hybridcc.errors import SpliceRefused
from hybridcc.judging import judge_spliced, module_of
from hybridcc.lessons import lesson_of_speed
from hybridcc.passes.regions.cut import barriers
from hybridcc.passes.splice import splice_all
from hybridcc.records import PENDING, CandidateRecord, Failure, Fate, Speed
from hybridcc.selection import stands
from hybridcc.work import State, Work

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.splice.candidate import Candidate


def refine(state: State, work: Work, converse: Callable[[State, Work], None]) -> None:
    """Race, tell the best of each region how fast it is and why, judge what comes back, and race again; until nothing
    comes, a race says ``same``, or the budget is spent. Without a device nothing happens."""
    if work.race is None:
        return
    measure(state, work)
    for _ in range(work.options.budget.rounds):
        if not _tell_the_best(state, work):
            break
        converse(state, work)
        measure(state, work)
    join(state, work)


def measure(state: State, work: Work) -> None:
    """Race whatever passed and was not raced yet, beside the fastest so far."""
    standing = [c for c in state.candidates.values() if stands(c, work.options.accept)]
    new = [c for c in standing if c.name not in state.raced]
    if work.race is None or not new:
        return
    fastest = _best(c for c in standing if c.name in state.raced)
    runners = [*([fastest] if fastest is not None else []), *new]
    race, kernel, baseline = work.race, state.kernel, state.baseline
    work.progress(f"{kernel.name} {kernel.arch}: race")
    speeds: Mapping[str, Speed] = attempt("race", state.failures, lambda: race(kernel, baseline, runners), {})
    state.raced |= {c.name for c in runners}
    for candidate in runners:
        if candidate.name in speeds:
            state.candidates[candidate.name] = with_speed(candidate, speeds[candidate.name])


def unmeasured(state: State, work: Work) -> tuple[CandidateRecord, ...]:
    """Every candidate, those that were not measured with the reason."""
    absent = Speed("not_measured", f"no {state.kernel.arch} GPU here" if work.race is None else "not raced")
    return tuple(
        replace(c, speed=absent) if c.speed.kind == "not_measured" and c.name not in state.raced else c
        for c in state.candidates.values()
    )


def with_speed(candidate: CandidateRecord, speed: Speed) -> CandidateRecord:
    """With its speed; out if the device found what the executor did not."""
    if not speed.deviation:
        return replace(candidate, speed=speed)
    return replace(candidate, speed=speed, fate=Fate("failed", "REFUTED_ON_DEVICE", speed.deviation))


def _tell_the_best(state: State, work: Work) -> bool:
    """Whether anything new came of it."""
    came = False
    for region, conversation in state.regions:
        if conversation is None or work.asker is None:
            continue
        by_name = {f"{region.id}-{turn.number}": turn for turn in conversation.turns}
        best = _best(c for c in state.candidates.values() if c.name in by_name and c.name in state.raced)
        if best is None:
            continue
        lesson = lesson_of_speed(best, state.baseline, state.listing, state.listings.get(best.name))
        if lesson is not None:
            before = len(conversation.turns)
            work.asker.tell(conversation, by_name[best.name], lesson, state.failures)
            came = came or len(conversation.turns) > before
    return came


def join(state: State, work: Work) -> None:
    """The winners of several regions in one module, judged and raced like any other candidate. Parts of one region that
    was cut are stitched so with no race too."""
    winners: list[tuple[Region, CandidateRecord, str]] = []
    for region, conversation in state.regions:
        if conversation is None:
            continue
        best = _best(c for c in state.candidates.values() if c.region == region.id and c.speed.kind == "faster")
        if best is None and work.race is None and "." in region.id:
            best = next((c for c in state.candidates.values() if c.region == region.id and _passed(c, work)), None)
        apart = all(not region.statements & other.statements for other, _, _ in winners)
        if best is not None and apart:
            winners.append((region, best, state.rewrites[best.name]))
    name = "+".join(c.name for _, c, _ in winners)
    if len(winners) < 2 or name in state.candidates:
        return
    failed: list[Failure] = []
    pairs = [(region, text) for region, _, text in winners]
    spliced = attempt("splice", failed, lambda: _stitched(state, pairs), None)
    record = CandidateRecord(
        name, "+".join(r.id for r, _, _ in winners), "", "\n".join(text for _, text in pairs), PENDING
    )
    if spliced is None:
        state.candidates[name] = replace(record, fate=Fate("failed", failed[0].code, f"splice: {failed[0].message}"))
        return
    state.candidates[name] = judge_spliced(state, None, record, spliced, work)
    measure(state, work)


def _passed(candidate: CandidateRecord, work: Work) -> bool:
    return stands(candidate, work.options.accept) and candidate.minimised is None


def _stitched(state: State, pairs: list[tuple[Region, str]]) -> Candidate:
    """All rewrites in place. Raises SpliceRefused, also where the kernel's barriers are no longer those it had."""
    module = module_of(state.kernel)
    candidate = splice_all(module, pairs)
    before, after = (
        barriers(next(f for f in m.entries if f.name == state.kernel.entry)) for m in (module, candidate.module)
    )
    if before != after and not candidate.edits:
        raise SpliceRefused("EFFECT_ORDER", "together the rewrites change the kernel's sequence of barriers")
    return candidate


def _best(candidates: Iterable[CandidateRecord]) -> CandidateRecord | None:
    """The one with the greatest ratio of those that were measured."""
    measured = [c for c in candidates if c.speed.ratio is not None and c.fate is PENDING]
    return max(measured, key=lambda c: c.speed.ratio or 0.0, default=None)
