"""What the pipeline found out about one kernel: data only. The bundle stores it, the report prints it.

Every candidate has exactly one fate:

    chosen   it was selected for its architecture
    slower   it was raced, and the baseline is faster
    tie      it was raced, and neither is faster
    failed   a check refuted it, or a stage refused it (``code`` says which)
    skipped  it passed or was never judged, and was not taken (``code`` says why)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hybridcc.passes.facts import Fact
from hybridcc.passes.rewrite.lints import Finding
from hybridcc.passes.verify.testing import Examination
from hybridcc.runtime.assemble import Cubin

if TYPE_CHECKING:
    from hybridcc.passes.rewrite import Answer

FateKind: TypeAlias = Literal["chosen", "slower", "tie", "failed", "skipped"]
Accept: TypeAlias = Literal["proved", "tested"]
Select: TypeAlias = Literal["measured", "proved", "transfer"]

BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Failure:
    """A stage that failed, with its error's code; the baseline was built all the same."""

    stage: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What asking took. Tokens are None where a backend does not tell."""

    requests: int = 0
    samples: int = 0
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    cost: float | None = None
    """By the prices that were given; None where none were."""

    def with_answers(self, answers: Sequence[Answer]) -> Usage:
        return Usage(
            self.requests + 1,
            self.samples + len(answers),
            _plus(self.prompt_tokens, [a.prompt_tokens for a in answers]),
            _plus(self.answer_tokens, [a.answer_tokens for a in answers]),
            _sum(self.cost, [a.cost for a in answers]),
        )

    @property
    def tokens(self) -> int:
        return (self.prompt_tokens or 0) + (self.answer_tokens or 0)


def _sum(sum_: float | None, costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum_ if not known else (sum_ or 0.0) + sum(known)


def _plus(sum_: int | None, counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum_ if not known else (sum_ or 0) + sum(known)


@dataclass(frozen=True, slots=True)
class Budget:
    """What asking about one kernel may take: ``rounds`` re-samples of an answer that fails, ``samples`` answers in
    all, tokens read and written, seconds from the first question on. None is no bound. Nothing is asked once a bound
    is passed; what was asked before is finished."""

    rounds: int = 3
    samples: int = 48
    tokens: int | None = None
    seconds: float | None = None

    def over(self, usage: Usage, seconds: float) -> str:
        """Which bound is reached, in words; empty if none is."""
        if usage.samples >= self.samples:
            return f"{self.samples} answers"
        if self.tokens is not None and usage.tokens >= self.tokens:
            return f"{self.tokens} tokens"
        if self.seconds is not None and seconds >= self.seconds:
            return f"{self.seconds:g} s"
        return ""


DEFAULT_BUDGET = Budget()


@dataclass(frozen=True, slots=True)
class Told:
    """What a rewriter was told about one of its answers: ``answers`` are the numbers of those that came back."""

    prompt_hash: str
    about: int
    code: str
    text: str
    answers: tuple[int, ...]
    mended: bool = False
    """Whether one of them passed every check."""


@dataclass(frozen=True, slots=True)
class Fate:
    kind: FateKind
    code: str
    detail: str = ""


PENDING = Fate("skipped", "PENDING")
"""Of a candidate that has passed every check so far; no record that leaves the pipeline has it."""


@dataclass(frozen=True, slots=True)
class Speed:
    """``ratio`` is baseline time over variant time with its interval, and None where nothing was measured."""

    kind: Literal["faster", "slower", "same", "inconclusive", "not_measured"]
    reason: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    device: str = ""
    deviation: str = ""
    """How the variant's memory differed from the baseline's on the device, or how it ended the process."""
    noise: float | None = None
    """What the baseline showed against itself in the same race, relative: nothing smaller can be told."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One assembled module: the cubin with the assembler's account of it, and its count of SASS instructions."""

    cubin: Cubin
    instructions: int | None = None


@dataclass(frozen=True, slots=True)
class Minimised:
    """How a winner was reduced: ``of`` is its name, ``matter`` the changed lines that are left, ``dropped`` those that
    made no difference, ``complete`` whether nothing more can be dropped (else the budget of ``checks`` ran out)."""

    of: str
    matter: tuple[str, ...]
    dropped: tuple[str, ...]
    checks: int
    complete: bool


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """``name`` is unique within its kernel: region0-1 is the second answer for region 0."""

    name: str
    region: str
    prompt_hash: str
    answer: str
    fate: Fate
    ptx: str | None = None
    evidence: Examination | None = None
    explanation: str = ""
    """Of one that was refuted: the values and the store in which it first differs."""
    machine: Machine | None = None
    speed: Speed = Speed("not_measured", "not assembled")
    findings: tuple[Finding, ...] = ()
    """What the lints say of it."""
    round: int = 0
    """How many failures were told on the way to this answer."""
    after: str = ""
    """The candidate whose failure was told last."""
    minimised: Minimised | None = None
    """Of one that was made by reducing another."""


@dataclass(frozen=True, slots=True)
class RegionRecord:
    """A region as the report shows it; weight is an estimate unless ``origin`` says otherwise."""

    name: str
    weight: str
    share: float
    blocks: int
    inputs: int
    outputs: int
    effects: str
    ineligible: str = ""
    """Why it may not be rewritten, empty if it may."""
    prompt_hash: str = ""
    answers: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """``variant`` is ``baseline`` or a candidate's name; ``code`` is stable, ``reason`` is for people."""

    variant: str
    code: str
    reason: str
    measured: bool = False


@dataclass(frozen=True, slots=True)
class ArchitectureRecord:
    arch: str
    baseline_ptx: str
    baseline: Machine | None
    regions: tuple[RegionRecord, ...]
    candidates: tuple[CandidateRecord, ...]
    selection: Selection
    failures: tuple[Failure, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What the lints say of the baseline."""
    facts: tuple[Fact, ...] = ()
    """The kernel's, on which proofs may rest."""
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt with the answers that came back, in order. Of a follow-up, ``root`` is the hash of the first prompt and
    ``about`` the number of the answer that failed."""

    prompt_hash: str
    template_version: str
    prompt: str
    answers: tuple[str, ...]
    root: str = ""
    about: int | None = None
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """Everything about one kernel of one build."""

    name: str
    frontend: str
    source: str
    parameters: tuple[str, ...]
    accept: Accept
    select: Select
    rewriter: str
    seed: int
    tools: tuple[tuple[str, str], ...]
    architectures: tuple[ArchitectureRecord, ...]
    exchanges: tuple[Exchange, ...] = ()
    failures: tuple[Failure, ...] = ()
    told: tuple[Told, ...] = ()
    usage: Usage = Usage()
    spent: str = ""
    """Which budget ended the asking, empty if none did."""
    calling: Mapping[str, Any] | None = None
    """Entry and parameters, as runtime/calling.py describes them; None where they could not be read."""
