"""Everything that races for a case, made without a GPU: Numba's own code, the twin, and every rewrite that passed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks import cuda_cpp
from benchmarks.suite import answers, stock
from benchmarks.suite.case import Case
from hybridcc.attempt import attempt
from hybridcc.judging import judge_spliced, module_of, read_baseline
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.splice import splice_all
from hybridcc.pipeline import Options, optimize
from hybridcc.racing import entrants
from hybridcc.records import PENDING, ArchitectureRecord, CandidateRecord, Failure
from hybridcc.report.words import verdict_kind, verdict_text
from hybridcc.runtime.race_job import Contender
from hybridcc.selection import accepted
from hybridcc.work import State, Work

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region

STOCK, FASTMATH, TWIN = "baseline", "fastmath", "cuda_cpp"
"""Names in a race; the baseline is stock Numba."""

POLICIES = ("proved", "tested")

MOST_VARIANTS = 8
"""That enter a race, in the rewriter's order, rewrites of several regions together first."""

MOST_EACH = 2
"""Of each region that are tried together with those of another."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A rewrite that passed: ``policies`` are those that accept its verdict."""

    contender: Contender
    verdict: str
    text: str
    policies: tuple[str, ...]
    registers: int
    spills: int


@dataclass(frozen=True, slots=True)
class Built:
    """``fates`` says of each answer that did not pass what failed; ``failures`` are those of whole stages; ``body`` is
    whether the whole kernel was asked about, for want of a part that may be rewritten by itself."""

    name: str
    arch: str
    stock: Contender
    fastmath: Contender
    twin: Contender
    variants: tuple[Variant, ...]
    regions: Mapping[str, float]
    body: bool
    answers: int
    fates: Mapping[str, str]
    failures: tuple[str, ...]
    rewriter: str
    seconds: float
    left_out: tuple[str, ...] = field(default=())
    """Variants that passed and do not race, beyond MOST_VARIANTS."""


def build(
    case: Case,
    arch: str,
    *,
    rewriter: str = answers.RECORDED,
    samples: int = 8,
    progress: Callable[[str], None] = lambda message: None,
) -> Built:
    """Raises HybridccError or RuntimeError where stock Numba or the twin cannot be compiled; what happens to answers is
    in the result."""
    begin = time.monotonic()
    types = case.kernel.signatures[0]
    kernel = answers.compiled(case, arch)
    regions, body = answers.regions_of(kernel)
    tiny = case.launch("tiny")
    failed: list[Failure] = []
    opened = attempt("rewriter", failed, lambda: answers.rewriter(rewriter), None)
    options = Options("proved", "proved", rewriter, samples, body=body)
    record = optimize((kernel,), options, opened, (tiny,), progress, tuple(failed))
    (architecture,) = record.architectures
    standing = [c for c in architecture.candidates if _passed(c)]
    together = _together(kernel, architecture, standing, regions, options, progress)
    standing = [c for c in together if _passed(c)] + standing
    racing = standing[:MOST_VARIANTS]
    contenders = {c.name: c for c in entrants(kernel.entry, racing)}
    return Built(
        case.name,
        arch,
        stock.contender(STOCK, case.kernel, types, arch),
        stock.contender(FASTMATH, case.kernel, types, arch, fastmath=True),
        Contender(TWIN, cuda_cpp.compile(case.twin, arch, f"{case.name}.cu").cubin, case.name, free=True),
        tuple(_variant(c, contenders[c.name]) for c in racing),
        {region.id: round(region.share, 3) for region in regions},
        body,
        len(architecture.candidates),
        {c.name: _fate(c) for c in (*architecture.candidates, *together) if not _passed(c)},
        tuple(f"{f.stage}: {f.code}: {f.message}" for f in (*record.failures, *architecture.failures)),
        rewriter if opened is None else opened.label,
        round(time.monotonic() - begin, 1),
        tuple(c.name for c in standing[MOST_VARIANTS:]),
    )


def _passed(candidate: CandidateRecord) -> bool:
    if candidate.fate.kind == "failed" or candidate.evidence is None or candidate.machine is None:
        return False
    return candidate.fate.code != "DUPLICATE" and accepted(candidate.evidence.verdict, "tested")


def _fate(candidate: CandidateRecord) -> str:
    said = (candidate.fate.detail or (verdict_text(candidate.evidence.verdict) if candidate.evidence else "")).strip()
    return f"{candidate.fate.code}: {said.splitlines()[0] if said else candidate.fate.kind}"


def _variant(candidate: CandidateRecord, contender: Contender) -> Variant:
    assert candidate.evidence is not None
    assert candidate.machine is not None
    verdict, cubin = candidate.evidence.verdict, candidate.machine.cubin
    policies = tuple(policy for policy in POLICIES if accepted(verdict, policy))
    kind, text = verdict_kind(verdict), verdict_text(verdict)
    return Variant(contender, kind, text, policies, cubin.registers, cubin.spill_stores)


def _together(
    kernel: Kernel,
    architecture: ArchitectureRecord,
    standing: Sequence[CandidateRecord],
    regions: Sequence[Region],
    options: Options,
    progress: Callable[[str], None],
) -> list[CandidateRecord]:
    """The first rewrites of each region with those of the others, judged as any candidate is. A race at hand would join
    the winners alone (hybridcc/refining.py); which they are is not known here."""
    from hybridcc.passes.rewrite.answer import check

    groups: list[list[tuple[Region, CandidateRecord]]] = []
    for region in regions:
        mine = [(region, c) for c in standing if c.region == region.id][:MOST_EACH]
        apart = all(not region.statements & other.statements for group in groups for other, _ in group[:1])
        if mine and apart:
            groups.append(mine)
    if len(groups) < 2 or architecture.baseline is None:
        return []
    state = State(kernel, architecture.baseline)
    read_baseline(state)
    work = Work(options, None, (), progress, None)
    found: list[CandidateRecord] = []
    for chosen in itertools.product(*groups):
        name = "+".join(c.name for _, c in chosen)
        texts = [(region, check(c.answer, region, kernel.arch).text) for region, c in chosen]
        record = CandidateRecord(name, "+".join(r.id for r, _ in chosen), "", "\n".join(t for _, t in texts), PENDING)
        failed: list[Failure] = []
        spliced = attempt("splice", failed, lambda texts=texts: splice_all(module_of(kernel), texts), None)
        if spliced is not None:
            found.append(judge_spliced(state, None, record, spliced, work))
        else:
            found.append(replace(record, fate=replace(PENDING, kind="failed", code=failed[0].code)))
    return found
