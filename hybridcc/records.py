"""What the pipeline found out about one kernel: data only. The bundle stores it, the report prints it.

Every candidate has exactly one fate:

    chosen   it was selected for its architecture
    slower   it was raced, and the baseline is faster
    tie      it was raced, and neither is faster
    failed   a check refuted it, or a stage refused it (``code`` says which)
    skipped  it passed or was never judged, and was not taken (``code`` says why)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hybridcc.passes.verify.testing import Examination
from hybridcc.runtime.assemble import Cubin

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


@dataclass(frozen=True, slots=True)
class Machine:
    """One assembled module: the cubin with the assembler's account of it, and its count of SASS instructions."""

    cubin: Cubin
    instructions: int | None = None


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
    machine: Machine | None = None
    speed: Speed = Speed("not_measured", "not assembled")


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


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt with the answers that came back, in order."""

    prompt_hash: str
    template_version: str
    prompt: str
    answers: tuple[str, ...]


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
