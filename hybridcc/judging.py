"""One answer through every check, from cheap to dear: parsed, spliced, assembled, executed, proved, explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hybridcc.attempt import attempt
from hybridcc.conversation import Turn
from hybridcc.errors import MissingExtra
from hybridcc.passes.edits.addresses import uses_dynamic_shared
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.rewrite.lints import Finding
from hybridcc.passes.splice import splice
from hybridcc.passes.splice.candidate import Candidate
from hybridcc.passes.verdict import NAN_PAYLOADS, Proved, Refuted, Tested, Unknown
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.reference import reference_for
from hybridcc.passes.verify.testing import Examination, examine
from hybridcc.ptx import parse
from hybridcc.ptx.canonical import canonical_key
from hybridcc.ptx.nodes import Module
from hybridcc.records import PENDING, CandidateRecord, Failure, Fate, Machine
from hybridcc.work import Options, State, Work

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.runtime.sass import SassFunction


def judge(state: State, region: Region, turn: Turn, work: Work) -> CandidateRecord:
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
    spliced = attempt("splice", failed, lambda: splice(module_of(kernel), region, rewrite.text), None)
    if spliced is None:
        return _failed(record, failed)
    state.rewrites[name] = rewrite.text
    return judge_spliced(state, region, record, spliced, work)


def judge_spliced(
    state: State, region: Region | None, record: CandidateRecord, spliced: Candidate, work: Work
) -> CandidateRecord:
    """The checks that need the whole module. ``region`` is None where several were rewritten."""
    kernel, name, text = state.kernel, record.name, spliced.text
    record = replace(record, ptx=text)
    first = state.seen.setdefault((record.region, canonical_key(spliced.module, kernel.entry)), name)
    if first != name:
        return replace(record, fate=Fate("skipped", "DUPLICATE", f"up to names the same as {first}"))
    record = replace(record, findings=lint(state, spliced.module))
    known = {(f.code, f.line) for f in state.findings}
    wrong = next((f for f in record.findings if f.severity == "error" and (f.code, f.line) not in known), None)
    if wrong is not None:
        return replace(record, fate=Fate("failed", wrong.code, f"lint: {wrong.line}\n{wrong.text}"))
    failed: list[Failure] = []
    machine = attempt("assemble", failed, lambda: assembled(state, text, name, work.options), None)
    if machine is None:
        return _failed(record, failed)
    findings = lint(state, spliced.module, machine)
    record = _with_instructions(replace(record, machine=machine, findings=findings), state)
    if record.fate is not PENDING:
        return record
    evidence = attempt("verify", failed, lambda: _verify(kernel, name, text, spliced.rewritten, work), None)
    if evidence is None:
        return _failed(record, failed)
    explanation = "" if region is None else _explain(kernel, region, spliced, evidence)
    return replace(record, evidence=evidence, explanation=explanation)


def lint(state: State, module: Module, machine: Machine | None = None) -> tuple[Finding, ...]:
    """What the lints say of the PTX, and of the assembler's figures where there are any; advice, so a fault in one of
    them is no failure of the build. An architecture that the table of targets lacks has none."""
    from hybridcc.passes.rewrite import lints

    kernel = state.kernel
    found = attempt("lint", [], lambda: lints.check(module, kernel.entry, kernel.arch), ())
    if machine is None:
        return found
    cubin, threads = machine.cubin, kernel.launch_bounds.max_threads
    figures = attempt(
        "lint",
        [],
        lambda: lints.check_machine(
            kernel.arch,
            registers=cubin.registers,
            shared=cubin.shared_bytes,
            spill_stores=cubin.spill_stores,
            spill_loads=cubin.spill_loads,
            threads=threads,
        ),
        (),
    )
    return (*found, *figures)


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


def module_of(kernel: Kernel) -> Module:
    return _parsed(kernel.ptx, f"{kernel.name}.ptx")


def assembled(state: State, text: str, name: str, options: Options) -> Machine:
    """Raises AssemblyError, and LaunchLimit where it cannot be launched as the baseline can."""
    return _assemble(state.kernel, state.baseline, text, name, options)


def _assemble(kernel: Kernel, baseline: Machine, text: str, name: str, options: Options) -> Machine:
    from hybridcc.runtime.assemble import assemble
    from hybridcc.runtime.limits import check_launch_limits

    cubin = assemble(text, kernel.arch, options.assembler, options.flags, name=f"{name}.ptx", ptxas=options.ptxas)
    dynamic = uses_dynamic_shared(module_of(kernel))
    check_launch_limits(baseline.cubin, cubin, kernel.entry, kernel.launch_bounds, dynamic=dynamic)
    return Machine(cubin)


def _verify(kernel: Kernel, name: str, text: str, rewritten: Sequence[str], work: Work) -> Examination:
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
        proved = _prove(kernel, name, text, examined, work)
        work.verdicts[key] = _payloads_aside(kernel, name, text, rewritten, examined, work) or proved
    return work.verdicts[key]


def _payloads_aside(
    kernel: Kernel, name: str, text: str, rewritten: Sequence[str], refuted: Examination, work: Work
) -> Examination | None:
    """Where tests tell a candidate apart by payloads of NaNs alone: the proof that sets them aside, if there is one."""
    if work.options.accept != "proved" or not isinstance(refuted.verdict, Refuted):
        return None
    reference = work.references[canonical_key(parse(kernel.ptx, kernel.name), kernel.entry)]
    text_there = text.replace(kernel.entry, reference.kernel.entry)
    again = examine(reference, text_there, rewritten=rewritten, most=work.options.launches, payloads_aside=True)
    found = _prove(kernel, name, text, again, work)
    return found if isinstance(found.verdict, Proved) and NAN_PAYLOADS in found.verdict.aside else None


def _prove(kernel: Kernel, name: str, text: str, examined: Examination, work: Work) -> Examination:
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


def read_baseline(state: State) -> None:
    from hybridcc.runtime.sass import disassemble

    listings = attempt("disassemble", state.failures, lambda: disassemble(state.baseline.cubin), None)
    if listings is not None:
        state.listing = listings[0]
        state.baseline = replace(state.baseline, instructions=_count(listings[0]))


def _with_instructions(candidate: CandidateRecord, state: State) -> CandidateRecord:
    """Its SASS counted; one whose SASS is the baseline's own has nothing to race, and nothing to check."""
    from hybridcc.runtime.sass import disassemble

    machine = candidate.machine
    if machine is None or state.listing is None:
        return candidate
    listings = attempt("disassemble", state.failures, lambda: disassemble(machine.cubin), None)
    if listings is None:
        return candidate
    state.listings[candidate.name] = listings[0]
    counted = replace(candidate, machine=replace(machine, instructions=_count(listings[0])))
    if [f.instructions for f in listings[0]] == [f.instructions for f in state.listing]:
        return replace(counted, fate=Fate("skipped", "SASS_UNCHANGED", "the same machine code"))
    return counted


def _count(listing: Sequence[SassFunction]) -> int:
    return sum(len(function.instructions) for function in listing)
