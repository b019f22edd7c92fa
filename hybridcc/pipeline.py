"""The way of the data, as code: frontends hand over kernels, and this list makes a record of each.

    profile -> regions -> rewrite -> splice -> verify -> assemble -> race -> select

Whatever fails between profile and selection is recorded with its code; the baseline is built all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from hybridcc.asking import MOST_REGIONS, regions_of
from hybridcc.attempt import attempt
from hybridcc.conversation import Asker, Conversation, Turn
from hybridcc.errors import AssemblyError, MissingExtra, PtxRefused
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.splice import splice
from hybridcc.passes.splice.candidate import Candidate
from hybridcc.passes.verdict import Tested, Unknown
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.reference import Reference, reference_for
from hybridcc.passes.verify.testing import MOST_LAUNCHES, Examination, examine
from hybridcc.ptx import parse
from hybridcc.ptx.canonical import canonical_key
from hybridcc.ptx.nodes import Module
from hybridcc.records import (
    DEFAULT_BUDGET,
    PENDING,
    Accept,
    ArchitectureRecord,
    Budget,
    CandidateRecord,
    Failure,
    Fate,
    KernelRecord,
    Machine,
    RegionRecord,
    Select,
    Speed,
    Told,
    Usage,
)
from hybridcc.report.words import type_text
from hybridcc.selection import select, stands

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite import Rewriter
    from hybridcc.passes.rewrite.feedback import Lesson
    from hybridcc.runtime.sass import SassFunction

AssemblerName: TypeAlias = Literal["nvjitlink", "ptxas"]
Progress: TypeAlias = Callable[[str], None]
Race: TypeAlias = Callable[[Kernel, Machine, Sequence[CandidateRecord]], Mapping[str, Speed]]
"""Measures candidates against a baseline on a device of the kernel's architecture: each one's speed by its name. One
that it leaves out was not measured; it raises HybridccError where nothing could be."""


@dataclass(frozen=True, slots=True)
class Options:
    """``rewriter`` is how the rewriter was asked for; ``answers`` how many are asked per region, of at most
    ``regions`` regions; ``launches`` bounds each test."""

    accept: Accept = "proved"
    select: Select = "measured"
    rewriter: str = "none"
    answers: int = 4
    regions: int = MOST_REGIONS
    launches: int = MOST_LAUNCHES
    seed: int = 0
    assembler: AssemblerName = "nvjitlink"
    budget: Budget = DEFAULT_BUDGET


@dataclass(slots=True)
class _Work:
    """What one kernel's architectures share: conversations by prompt, verdicts by text."""

    options: Options
    asker: Asker | None
    examples: Sequence[Launch]
    progress: Progress
    race: Race | None
    before: Sequence[Failure] = ()
    """What had failed already when the kernel came: for instance no model could be opened."""
    conversations: dict[str, Conversation] = field(default_factory=dict)
    refusals: dict[str, Failure] = field(default_factory=dict)
    references: dict[str, Reference] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Examination] = field(default_factory=dict)


@dataclass(slots=True)
class _State:
    """One architecture on its way. ``seen`` holds the canonical form of every candidate, with the first one's name."""

    kernel: Kernel
    baseline: Machine
    failures: list[Failure] = field(default_factory=list)
    regions: list[tuple[Region, Conversation | None]] = field(default_factory=list)
    candidates: dict[str, CandidateRecord] = field(default_factory=dict)
    seen: dict[tuple[str, str], str] = field(default_factory=dict)
    listing: tuple[SassFunction, ...] | None = None
    """The baseline's machine code, where it can be read."""


def optimize(
    kernels: Sequence[Kernel],
    options: Options,
    rewriter: Rewriter | None,
    examples: Sequence[Launch] = (),
    progress: Progress = lambda message: None,
    failures: Sequence[Failure] = (),
    race: Race | None = None,
) -> KernelRecord:
    """One kernel, compiled for each architecture, to its record. Raises HybridccError only when a baseline itself
    cannot be assembled. ``failures`` are those of stages before this one; without ``race``
    nothing is measured."""
    from hybridcc.runtime import toolchain

    asker = None if rewriter is None else Asker(rewriter, options.budget, options.seed)
    work = _Work(options, asker, examples, progress, race, list(failures))
    states = [_begin(kernel, work) for kernel in kernels]
    for state in states:
        _converse(state, work)
    for state in states:
        _converse(state, work)  # answers that came after an architecture had its turn are judged for it too
    architectures = tuple(_finish(state, work) for state in states)
    first = kernels[0]
    return KernelRecord(
        name=first.name,
        frontend=first.frontend,
        source=first.source_file.rpartition("/")[2] + (f":{first.source_line}" if first.source_line else ""),
        parameters=tuple(f"{a.name}: {type_text(a.type)}" for a in first.arguments),
        accept=options.accept,
        select=options.select,
        rewriter=options.rewriter,
        seed=options.seed,
        tools=tuple((name, version) for name, version in toolchain.versions().items() if version),
        architectures=architectures,
        exchanges=tuple(e for c in work.conversations.values() for e in c.exchanges),
        failures=tuple(failures),
        told=_outcomes(work, states),
        usage=Usage() if asker is None else asker.usage,
        spent="" if asker is None else asker.spent,
    )


def _baseline(kernel: Kernel, options: Options) -> Machine:
    """Raises PtxRefused where the PTX is the user's own, AssemblyError where a compiler made it."""
    from hybridcc.runtime.assemble import assemble

    own = kernel.frontend == "ptx"
    try:
        name = kernel.source_file if own else f"{kernel.name}.ptx"
        return Machine(assemble(kernel.ptx, kernel.arch, options.assembler, name=name))
    except AssemblyError as error:
        if not own:
            raise
        raise PtxRefused(error.what, log=error.log, where=error.where, next_step=error.next_step) from error


def _begin(kernel: Kernel, work: _Work) -> _State:
    """The baseline, and the first answers to each region's prompt."""
    work.progress(f"{kernel.name} {kernel.arch}: baseline")
    state = _State(kernel, _baseline(kernel, work.options))
    _read_baseline(state)
    for region in attempt("regions", state.failures, lambda: regions_of(kernel, work.options.regions), ()):
        state.regions.append((region, _ask(region, work, state.failures)))
    return state


def _converse(state: _State, work: _Work) -> None:
    """Judge every answer that has not been judged here, and hand each that fails back with its failure."""
    for region, conversation in state.regions:
        if conversation is None:
            continue
        number = 0
        while number < len(conversation.turns):  # telling adds turns
            turn = conversation.turns[number]
            number += 1
            if (name := f"{region.id}-{turn.number}") in state.candidates:
                continue
            work.progress(f"{state.kernel.name} {state.kernel.arch}: {name}")
            candidate = _candidate(state, region, turn, work)
            state.candidates[name] = candidate
            lesson = _lesson(state, candidate, work)
            if lesson is not None and work.asker is not None:
                work.asker.tell(conversation, turn, lesson, state.failures)


def _lesson(state: _State, candidate: CandidateRecord, work: _Work) -> Lesson | None:
    """A copy of an answer that failed is told what the first one was told."""
    from hybridcc.lessons import lesson_of

    if candidate.fate.code != "DUPLICATE":
        return lesson_of(candidate, work.options.accept)
    first = lesson_of(state.candidates[candidate.fate.detail.rpartition(" ")[2]], work.options.accept)
    return None if first is None else replace(first, text=f"you gave an answer that had failed already. {first.text}")


def _finish(state: _State, work: _Work) -> ArchitectureRecord:
    regions = [_region_record(region, conversation) for region, conversation in state.regions]
    candidates = tuple(state.candidates.values())
    raced = _race(state.kernel, state.baseline, candidates, state.failures, work)
    options, failures = work.options, [*work.before, *state.failures]
    selection, settled = select(state.baseline, raced, options.accept, options.select, failures, regions)
    return ArchitectureRecord(
        state.kernel.arch, state.kernel.ptx, state.baseline, tuple(regions), settled, selection, tuple(state.failures)
    )


def _outcomes(work: _Work, states: Sequence[_State]) -> tuple[Told, ...]:
    """What was told, and whether it helped anywhere."""
    from hybridcc.lessons import lesson_of

    passed = {
        (c.prompt_hash, c.answer)
        for state in states
        for c in state.candidates.values()
        if c.fate is PENDING and lesson_of(c, work.options.accept) is None
    }
    return tuple(
        replace(told, mended=any((c.turns[n].prompt.hash, c.turns[n].text) in passed for n in told.answers))
        for c in work.conversations.values()
        for told in c.told
    )


def _region_record(region: Region, conversation: Conversation | None) -> RegionRecord:
    return RegionRecord(
        name=region.id,
        weight=region.weight,
        share=round(region.share, 3),
        blocks=len(region.blocks),
        inputs=len(region.live_in),
        outputs=len(region.live_out),
        effects=str(region.effects),
        ineligible="" if region.ineligible is None else str(region.ineligible),
        prompt_hash="" if conversation is None else conversation.base.hash,
        answers=0 if conversation is None else len(conversation.turns),
    )


def _ask(region: Region, work: _Work, failures: list[Failure]) -> Conversation | None:
    """The answers to a region's prompt; one prompt serves every architecture, so it is asked once."""
    if work.asker is None or not region.eligible:
        return None
    from hybridcc.passes.rewrite import prompt as prompts

    prompt = attempt("prompt", failures, lambda: prompts.build(region), None)
    if prompt is None:
        return None
    if prompt.hash in work.refusals:
        failures.append(work.refusals[prompt.hash])
    elif prompt.hash not in work.conversations:
        before = len(failures)
        conversation = work.asker.first(prompt, work.options.answers, failures)
        if len(failures) > before:
            work.refusals[prompt.hash] = failures[before]
        if conversation is not None:
            work.conversations[prompt.hash] = conversation
    return work.conversations.get(prompt.hash)


def _candidate(state: _State, region: Region, turn: Turn, work: _Work) -> CandidateRecord:
    """Parse, splice, assemble and verify one answer, cheapest first; the first stage that fails decides its fate."""
    from hybridcc.passes.rewrite import answer as answers

    kernel, name = state.kernel, f"{region.id}-{turn.number}"
    after = "" if turn.after is None else f"{region.id}-{turn.after}"
    record = CandidateRecord(
        name, region.id, turn.prompt.hash, turn.text, PENDING, round=len(turn.lessons), after=after
    )
    failed: list[Failure] = []
    rewrite = attempt("answer", failed, lambda: answers.check(turn.text, region, kernel.arch), None)
    if rewrite is None:
        return _failed(record, failed)
    spliced = attempt("splice", failed, lambda: splice(_module(kernel), region, rewrite.text), None)
    if spliced is None:
        return _failed(record, failed)
    record = replace(record, ptx=spliced.text)
    first = state.seen.setdefault((region.id, canonical_key(spliced.module, kernel.entry)), name)
    if first != name:
        return replace(record, fate=Fate("skipped", "DUPLICATE", f"up to names the same as {first}"))
    text = spliced.text
    machine = attempt("assemble", failed, lambda: _assemble(kernel, state.baseline, text, name, work.options), None)
    if machine is None:
        return _failed(record, failed)
    record = _with_instructions(replace(record, machine=machine), state)
    if record.fate is not PENDING:
        return record
    evidence = attempt("verify", failed, lambda: _verify(kernel, name, text, spliced.rewritten, work), None)
    if evidence is None:
        return _failed(record, failed)
    return replace(record, evidence=evidence, explanation=_explain(kernel, region, spliced, evidence))


def _explain(kernel: Kernel, region: Region, spliced: Candidate, evidence: Examination) -> str:
    """For people and rewriters; a verdict stands without it."""
    from hybridcc.passes.verify.explain import explain

    if evidence.counterexample is None:
        return ""
    launch = evidence.counterexample
    return attempt("explain", [], lambda: explain(with_arguments(kernel), region, spliced, launch), "")


def _failed(record: CandidateRecord, failures: Sequence[Failure]) -> CandidateRecord:
    reason = failures[0]
    return replace(record, fate=Fate("failed", reason.code, f"{reason.stage}: {reason.message}"))


@lru_cache(maxsize=4)
def _parsed(ptx: str, name: str) -> Module:
    return parse(ptx, name=name)


def _module(kernel: Kernel) -> Module:
    return _parsed(kernel.ptx, f"{kernel.name}.ptx")


def _assemble(kernel: Kernel, baseline: Machine, text: str, name: str, options: Options) -> Machine:
    from hybridcc.runtime.assemble import assemble
    from hybridcc.runtime.limits import check_launch_limits

    cubin = assemble(text, kernel.arch, options.assembler, name=f"{name}.ptx")
    check_launch_limits(baseline.cubin, cubin, kernel.entry, kernel.launch_bounds)
    return Machine(cubin)


def _verify(kernel: Kernel, name: str, text: str, rewritten: Sequence[str], work: _Work) -> Examination:
    """Kernels that differ between architectures in their names and headers alone are tested once."""
    kernel = with_arguments(kernel)
    baseline = canonical_key(parse(kernel.ptx, kernel.name), kernel.entry)
    key = (baseline, canonical_key(parse(text, name), kernel.entry))
    if baseline not in work.references:
        work.progress(f"{kernel.name}: finding inputs")
        work.references[baseline] = reference_for(kernel, examples=work.examples, seed=work.options.seed)
    if key not in work.verdicts:
        examined = examine(
            work.references[baseline],
            text.replace(kernel.entry, work.references[baseline].kernel.entry),
            rewritten=rewritten,
            most=work.options.launches,
            progress=lambda done, most: work.progress(f"{kernel.name} {kernel.arch}: {name}, input {done} of {most}"),
        )
        work.verdicts[key] = _prove(kernel, name, text, examined, work)
    return work.verdicts[key]


def _prove(kernel: Kernel, name: str, text: str, examined: Examination, work: _Work) -> Examination:
    """Where no test told the two apart and the policy asks for a proof, the proof, or why there is none."""
    from hybridcc.passes.verify.proving import prove

    if work.options.accept != "proved" or not isinstance(examined.verdict, Tested):
        return examined
    work.progress(f"{kernel.name} {kernel.arch}: {name}, proving")
    try:
        verdict = prove(kernel.ptx, text, kernel.entry, kernel.facts)
    except MissingExtra as missing:
        verdict = Unknown(str(missing))
    if isinstance(verdict, Unknown):
        return replace(examined, notes=(*examined.notes, f"not proved: {verdict.reason}"))
    return replace(examined, verdict=verdict)


def _race(
    kernel: Kernel,
    baseline: Machine,
    candidates: Sequence[CandidateRecord],
    failures: list[Failure],
    work: _Work,
) -> tuple[CandidateRecord, ...]:
    """Whatever the policy accepts against the baseline, where there is a device to race on; else not, and why."""
    runners = tuple(c for c in candidates if stands(c, work.options.accept))
    race = work.race
    speeds: Mapping[str, Speed] = {}
    if race is not None and runners:
        work.progress(f"{kernel.name} {kernel.arch}: race")
        speeds = attempt("race", failures, lambda: race(kernel, baseline, runners), {})
    absent = Speed("not_measured", f"no {kernel.arch} GPU here" if race is None else "not raced")
    return tuple(_raced(c, speeds.get(c.name, absent)) for c in candidates)


def _raced(candidate: CandidateRecord, speed: Speed) -> CandidateRecord:
    """With its speed; out if the device found what the executor did not."""
    if not speed.deviation:
        return replace(candidate, speed=speed)
    return replace(candidate, speed=speed, fate=Fate("failed", "REFUTED_ON_DEVICE", speed.deviation))


def _read_baseline(state: _State) -> None:
    from hybridcc.runtime.sass import disassemble

    listings = attempt("disassemble", state.failures, lambda: disassemble(state.baseline.cubin), None)
    if listings is not None:
        state.listing = listings[0]
        state.baseline = replace(state.baseline, instructions=_count(listings[0]))


def _with_instructions(candidate: CandidateRecord, state: _State) -> CandidateRecord:
    """Its SASS counted; one whose SASS is the baseline's own has nothing to race, and nothing to check."""
    from hybridcc.runtime.sass import disassemble

    machine = candidate.machine
    if machine is None or state.listing is None:
        return candidate
    listings = attempt("disassemble", state.failures, lambda: disassemble(machine.cubin), None)
    if listings is None:
        return candidate
    counted = replace(candidate, machine=replace(machine, instructions=_count(listings[0])))
    if [f.instructions for f in listings[0]] == [f.instructions for f in state.listing]:
        return replace(counted, fate=Fate("skipped", "SASS_UNCHANGED", "the same machine code"))
    return counted


def _count(listing: Sequence[SassFunction]) -> int:
    return sum(len(function.instructions) for function in listing)
