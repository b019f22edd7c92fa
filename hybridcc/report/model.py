"""What a report says, as data: every format is written from this and from nothing else.

Where nothing was measured the fields are None and ``reason`` says why; no format puts a number in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = "hybridcc.report"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Speed:
    """Over the baseline, more being faster; ``noise`` is what the baseline shows against itself in the same race."""

    kind: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    device: str = ""
    noise: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """One module as it was assembled: bytes throughout, but for registers and instructions (None: not read)."""

    name: str
    ptx_sha256: str | None
    cubin_sha256: str | None
    assembler: str
    registers: int
    spill_stores: int
    spill_loads: int
    shared: int
    local: int
    size: int
    instructions: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """``fate`` is chosen, slower, tie, failed or skipped, with its code; ``stage`` the last one that it passed."""

    name: str
    region: str
    fate: str
    code: str
    detail: str
    stage: str
    verdict: str
    verdict_text: str
    speed: Speed
    machine: Code | None
    proof: Mapping[str, Any]
    inputs: Mapping[str, int]
    explanation: str
    answer: str
    round: int
    after: str


@dataclass(frozen=True, slots=True)
class Region:
    """``share`` is the part of the kernel's estimated time, 0 to 1."""

    name: str
    share: float
    weight: str
    effects: str
    answers: int
    ineligible: str


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many answers passed each stage, and the first code at which others stopped, with how many."""

    sampled: int
    parsed: int
    assembled: int
    tested: int
    proved: int
    faster: int | None
    stopped: Mapping[str, int]
    assembler_notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """``mark``: " " both alike, "~" changed, "-" on the left alone, "+" on the right alone, "…" lines left out."""

    mark: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Diff:
    """``kind`` is ptx or sass; ``note`` says what was not compared."""

    kind: str
    title: str
    note: str
    rows: tuple[DiffRow, ...]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture of one kernel. ``roofline`` is the part of the physical bound that was reached, where known."""

    arch: str
    headline: str
    variant: str
    code: str
    reason: str
    measured: bool
    baseline: Code | None
    candidates: tuple[Candidate, ...]
    regions: tuple[Region, ...]
    facts: tuple[str, ...]
    funnel: Funnel
    failures: tuple[str, ...]
    diffs: tuple[Diff, ...]
    roofline: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and what came back."""

    hash: str
    template: str
    prompt: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    frontend: str
    source: str
    parameters: tuple[str, ...]
    policy: str
    rewriter: str
    architectures: tuple[Architecture, ...]
    exchanges: tuple[Exchange, ...]
    override: str


@dataclass(frozen=True, slots=True)
class SuiteRow:
    """A kernel at one size of the benchmark: speeds over stock Numba by side, in one race."""

    kernel: str
    size: str
    variant: str
    verdict: str
    speeds: Mapping[str, Speed]
    percent_of_bound: Mapping[str, float]
    void: str


@dataclass(frozen=True, slots=True)
class Report:
    """``summary`` counts fates and verdicts, and has the geometric mean with its n, over measured rows only."""

    made_from: str
    hybridcc: str
    conditions: Mapping[str, str]
    kernels: tuple[Kernel, ...]
    suite: tuple[SuiteRow, ...]
    summary: Mapping[str, Any]

    def data(self) -> dict[str, Any]:
        """As JSON holds it, by report.schema.json."""
        return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **asdict(self)}
