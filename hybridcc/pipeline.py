"""The way of the data, as code: frontends hand over kernels, and this list makes a record of each.

    profile -> regions -> rewrite -> splice -> verify -> assemble -> race -> select

Whatever fails between profile and selection is recorded with its code; the baseline is built all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hybridcc.asking import body_of, fitting, regions_of
from hybridcc.attempt import attempt
from hybridcc.conversation import Asker, Conversation
from hybridcc.errors import AssemblyError, PtxRefused
from hybridcc.judging import judge, lint, module_of, read_baseline
from hybridcc.lessons import has_helped, lesson_of
from hybridcc.minimising import minimise
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch
from hybridcc.records import (
    ArchitectureRecord,
    CandidateRecord,
    Failure,
    KernelRecord,
    Machine,
    RegionRecord,
    Told,
    Usage,
)
from hybridcc.refining import join, measure, refine, unmeasured
from hybridcc.report.words import type_text
from hybridcc.selection import select
from hybridcc.work import Options, Progress, Race, State, Work

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite import Rewriter
    from hybridcc.passes.rewrite.feedback import Lesson

__all__ = ["Options", "Progress", "Race", "optimize", "source_of"]


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
    from hybridcc.runtime.calling import calling

    asker = None if rewriter is None else Asker(rewriter, options.budget, options.seed)
    work = Work(options, asker, examples, progress, race, list(failures))
    states = [_begin(kernel, work) for kernel in kernels]
    for state in states:
        _converse(state, work)
        refine(state, work, _converse)
    for state in states:  # answers that came after an architecture had its turn are judged for it too
        _converse(state, work)
        measure(state, work)
        if race is None:
            join(state, work)
        minimise(state, work)
    architectures = tuple(_finish(state, work) for state in states)
    first = kernels[0]
    unread = [*failures]
    call = attempt("calling", unread, lambda: calling(first), None)
    return KernelRecord(
        name=first.name,
        frontend=first.frontend,
        source=source_of(first),
        parameters=tuple(f"{a.name}: {type_text(a.type)}" for a in first.arguments),
        accept=options.accept,
        select=options.select,
        rewriter=options.rewriter,
        seed=options.seed,
        tools=tuple((name, version) for name, version in toolchain.versions().items() if version),
        architectures=architectures,
        exchanges=tuple(e for c in work.conversations.values() for e in c.exchanges),
        failures=tuple(unread),
        told=_outcomes(work, states),
        usage=Usage() if asker is None else asker.usage,
        spent="" if asker is None else asker.spent,
        calling=call,
    )


def source_of(kernel: Kernel) -> str:
    """The file's name without folders, and the line: ``conv1d.py:22``."""
    return kernel.source_file.rpartition("/")[2] + (f":{kernel.source_line}" if kernel.source_line else "")


def _baseline(kernel: Kernel, options: Options) -> Machine:
    """Raises PtxRefused where the PTX is the user's own, or LLVM IR that went to PTX unread (inline assembly, calls of
    functions that are elsewhere); AssemblyError where a compiler made it."""
    from hybridcc.runtime.assemble import assemble

    own = kernel.frontend == "ptx"
    try:
        name = kernel.source_file if own else f"{kernel.name}.ptx"
        made = assemble(kernel.ptx, kernel.arch, options.assembler, options.flags, name=name, ptxas=options.ptxas)
        return Machine(made)
    except AssemblyError as error:
        if not own and not kernel.frontend.startswith("llvm"):
            raise
        raise PtxRefused(error.what, log=error.log, where=error.where, next_step=error.next_step) from error


def _begin(kernel: Kernel, work: Work) -> State:
    """The baseline, and the first answers to each region's prompt."""
    work.progress(f"{kernel.name} {kernel.arch}: baseline")
    state = State(kernel, _baseline(kernel, work.options))
    read_baseline(state)
    state.findings = lint(state, module_of(kernel), state.baseline)
    options = work.options

    def offered() -> tuple[Region, ...]:
        regions = body_of(kernel) if options.body else regions_of(kernel, options.regions)
        return fitting(kernel, regions, options.window)

    for region in attempt("regions", state.failures, offered, ()):
        state.regions.append((region, _ask(region, state, work)))
    return state


def _converse(state: State, work: Work) -> None:
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
            candidate = judge(state, region, turn, work)
            state.candidates[name] = candidate
            lesson = _lesson(state, candidate, work)
            if lesson is not None and work.asker is not None:
                work.asker.tell(conversation, turn, lesson, state.failures)


def _lesson(state: State, candidate: CandidateRecord, work: Work) -> Lesson | None:
    """A copy of an answer that failed is told what the first one was told."""
    if candidate.fate.code != "DUPLICATE":
        return lesson_of(candidate, work.options.accept)
    first = lesson_of(state.candidates[candidate.fate.detail.rpartition(" ")[2]], work.options.accept)
    return None if first is None else replace(first, text=f"you gave an answer that had failed already. {first.text}")


def _finish(state: State, work: Work) -> ArchitectureRecord:
    regions = [
        _region_record(region, conversation, state.prompts.get(region.id, "")) for region, conversation in state.regions
    ]
    raced = unmeasured(state, work)
    options, failures = work.options, [*work.before, *state.failures]
    selection, settled = select(state.baseline, raced, options.accept, options.select, failures, regions)
    return ArchitectureRecord(
        state.kernel.arch,
        state.kernel.ptx,
        state.baseline,
        tuple(regions),
        settled,
        selection,
        tuple(state.failures),
        state.findings,
        state.kernel.facts,
        state.kernel.entry,
    )


def _outcomes(work: Work, states: Sequence[State]) -> tuple[Told, ...]:
    """What was told, and whether it helped on any architecture."""
    return tuple(
        replace(told, mended=any(_helped(state, conversation, told, work) for state in states))
        for conversation in work.conversations.values()
        for told in conversation.told
    )


def _helped(state: State, conversation: Conversation, told: Told, work: Work) -> bool:
    for region, own in state.regions:
        if own is conversation:
            about = state.candidates[f"{region.id}-{told.about}"]
            answers = [state.candidates[f"{region.id}-{n}"] for n in told.answers]
            return any(has_helped(about, answer, work.options.accept) for answer in answers)
    return False


def _region_record(region: Region, conversation: Conversation | None, prompt_hash: str) -> RegionRecord:
    return RegionRecord(
        name=region.id,
        weight=region.weight,
        share=round(region.share, 3),
        blocks=len(region.blocks),
        inputs=len(region.live_in),
        outputs=len(region.live_out),
        effects=str(region.effects),
        ineligible="" if region.ineligible is None else str(region.ineligible),
        prompt_hash="" if conversation is None else prompt_hash,
        answers=0 if conversation is None else len(conversation.turns),
    )


def _ask(region: Region, state: State, work: Work) -> Conversation | None:
    """The answers about a region, to this architecture's prompt and to the others'; an equal prompt is asked once."""
    failures = state.failures
    if work.asker is None or not region.eligible:
        return None
    from hybridcc.passes.rewrite import prompt as prompts

    prompt = attempt("prompt", failures, lambda: prompts.build(region, state.kernel), None)
    if prompt is None:
        return None
    state.prompts[region.id] = prompt.hash
    so_far = work.conversations.get(region.key)
    if prompt.hash in work.refusals:
        failures.append(work.refusals[prompt.hash])
    elif so_far is None or all(exchange.prompt_hash != prompt.hash for exchange in so_far.exchanges):
        before = len(failures)
        conversation = work.asker.first(prompt, work.options.answers, failures, so_far)
        if len(failures) > before:
            work.refusals[prompt.hash] = failures[before]
        if conversation is not None:
            work.conversations[region.key] = conversation
    return work.conversations.get(region.key)
