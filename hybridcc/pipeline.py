"""The way of the data, as code: frontends hand over kernels, and this list makes a record of each.

    profile -> regions -> rewrite -> splice -> verify -> assemble -> race -> select

Whatever fails between profile and selection is recorded with its code; the baseline is built all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from hybridcc.asking import MOST_REGIONS, regions_of
from hybridcc.attempt import attempt
from hybridcc.errors import AssemblyError, MissingExtra, PtxRefused
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verdict import Tested, Unknown
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.reference import Reference, reference_for
from hybridcc.passes.verify.testing import MOST_LAUNCHES, Examination, examine
from hybridcc.ptx import parse
from hybridcc.ptx.canonical import canonical_key
from hybridcc.records import (
    PENDING,
    Accept,
    ArchitectureRecord,
    CandidateRecord,
    Exchange,
    Failure,
    Fate,
    KernelRecord,
    Machine,
    RegionRecord,
    Select,
    Speed,
)
from hybridcc.report.words import type_text
from hybridcc.selection import select, stands

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite import Rewriter
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


@dataclass(slots=True)
class _Work:
    """What one kernel's architectures share: answers by prompt, verdicts by text."""

    options: Options
    rewriter: Rewriter | None
    examples: Sequence[Launch]
    progress: Progress
    race: Race | None
    before: Sequence[Failure] = ()
    """What had failed already when the kernel came: for instance no model could be opened."""
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    refusals: dict[str, Failure] = field(default_factory=dict)
    references: dict[str, Reference] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Examination] = field(default_factory=dict)


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

    work = _Work(options, rewriter, examples, progress, race, list(failures))
    architectures = tuple(_architecture(kernel, work) for kernel in kernels)
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
        exchanges=tuple(work.exchanges.values()),
        failures=tuple(failures),
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


def _architecture(kernel: Kernel, work: _Work) -> ArchitectureRecord:
    work.progress(f"{kernel.name} {kernel.arch}: baseline")
    baseline = _baseline(kernel, work.options)
    failures: list[Failure] = []
    regions: list[RegionRecord] = []
    candidates: list[CandidateRecord] = []
    for region in attempt("regions", failures, lambda: regions_of(kernel, work.options.regions), ()):
        exchange = _ask(region, work, failures)
        regions.append(_region_record(region, exchange))
        if exchange is None:
            continue
        for number, answer in enumerate(exchange.answers):
            work.progress(f"{kernel.name} {kernel.arch}: {region.id}-{number}")
            candidates.append(_candidate(kernel, baseline, region, number, answer, exchange, work))
    baseline, counted = _with_instructions(baseline, candidates, failures)
    raced = _race(kernel, baseline, counted, failures, work)
    selection, settled = select(
        baseline, raced, work.options.accept, work.options.select, [*work.before, *failures], regions
    )
    return ArchitectureRecord(kernel.arch, kernel.ptx, baseline, tuple(regions), settled, selection, tuple(failures))


def _region_record(region: Region, exchange: Exchange | None) -> RegionRecord:
    return RegionRecord(
        name=region.id,
        weight=region.weight,
        share=round(region.share, 3),
        blocks=len(region.blocks),
        inputs=len(region.live_in),
        outputs=len(region.live_out),
        effects=str(region.effects),
        ineligible="" if region.ineligible is None else str(region.ineligible),
        prompt_hash="" if exchange is None else exchange.prompt_hash,
        answers=0 if exchange is None else len(exchange.answers),
    )


def _ask(region: Region, work: _Work, failures: list[Failure]) -> Exchange | None:
    """The answers to a region's prompt; one prompt serves every architecture, so it is asked once."""
    if work.rewriter is None or not region.eligible:
        return None
    from hybridcc.passes.rewrite import prompt as prompts

    rewriter = work.rewriter
    prompt = attempt("prompt", failures, lambda: prompts.build(region), None)
    if prompt is None:
        return None
    if prompt.hash in work.refusals:
        failures.append(work.refusals[prompt.hash])
        return None
    if prompt.hash not in work.exchanges:
        before = len(failures)
        answers = attempt(
            "rewrite",
            failures,
            lambda: rewriter.propose(prompt, count=work.options.answers, seed=work.options.seed),
            None,
        )
        if answers is None:
            work.refusals[prompt.hash] = failures[before]
            return None
        texts = tuple(answer.text for answer in answers)
        work.exchanges[prompt.hash] = Exchange(prompt.hash, prompt.template_version, prompt.text, texts)
    return work.exchanges[prompt.hash]


def _candidate(
    kernel: Kernel,
    baseline: Machine,
    region: Region,
    number: int,
    answer: str,
    exchange: Exchange,
    work: _Work,
) -> CandidateRecord:
    """Parse, splice, verify and assemble one answer; the first stage that fails decides its fate."""
    from hybridcc.passes.rewrite import answer as answers

    record = CandidateRecord(f"{region.id}-{number}", region.id, exchange.prompt_hash, answer, PENDING)
    failed: list[Failure] = []
    rewrite = attempt("answer", failed, lambda: answers.check(answer, region, kernel.arch), None)
    if rewrite is None:
        return _failed(record, failed)
    spliced = attempt("splice", failed, lambda: _splice(kernel, region, rewrite.text), None)
    if spliced is None:
        return _failed(record, failed)
    text, rewritten = spliced
    record = replace(record, ptx=text)
    machine = attempt("assemble", failed, lambda: _assemble(kernel, baseline, text, record.name, work.options), None)
    if machine is None:
        return _failed(record, failed)
    record = replace(record, machine=machine)
    evidence = attempt("verify", failed, lambda: _verify(kernel, record.name, text, rewritten, work), None)
    return _failed(record, failed) if evidence is None else replace(record, evidence=evidence)


def _failed(record: CandidateRecord, failures: Sequence[Failure]) -> CandidateRecord:
    reason = failures[0]
    return replace(record, fate=Fate("failed", reason.code, f"{reason.stage}: {reason.message}"))


def _splice(kernel: Kernel, region: Region, answer: str) -> tuple[str, tuple[str, ...]]:
    """(the candidate's PTX, the labels of its rewritten blocks)."""
    from hybridcc.passes.splice import splice

    spliced = splice(parse(kernel.ptx, name=f"{kernel.name}.ptx"), region, answer)
    return spliced.text, spliced.rewritten


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


def _with_instructions(
    baseline: Machine, candidates: Sequence[CandidateRecord], failures: list[Failure]
) -> tuple[Machine, tuple[CandidateRecord, ...]]:
    """SASS counted for every module; a candidate whose SASS is the baseline's own has nothing to race."""
    from hybridcc.runtime.sass import disassemble

    assembled = [c.machine for c in candidates if c.machine is not None]
    cubins = [m.cubin for m in (baseline, *assembled)]
    listings = attempt("disassemble", failures, lambda: disassemble(*cubins), None)
    if listings is None:
        return baseline, tuple(candidates)
    own, *others = listings
    rest = iter(others)
    counted: list[CandidateRecord] = []
    for candidate in candidates:
        if candidate.machine is not None:
            listing = next(rest)
            candidate = replace(candidate, machine=replace(candidate.machine, instructions=_count(listing)))
            if candidate.fate is PENDING and [f.instructions for f in listing] == [f.instructions for f in own]:
                candidate = replace(candidate, fate=Fate("skipped", "SASS_UNCHANGED", "the same machine code"))
        counted.append(candidate)
    return replace(baseline, instructions=_count(own)), tuple(counted)


def _count(listing: Sequence[SassFunction]) -> int:
    return sum(len(function.instructions) for function in listing)
