"""What a run of the pipeline has in hand: its options, what architectures share, and where each of them stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from hybridcc.asking import MOST_REGIONS
from hybridcc.conversation import Asker, Conversation
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.rewrite.lints import Finding
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.reference import Reference
from hybridcc.passes.verify.testing import MOST_LAUNCHES, Examination
from hybridcc.records import DEFAULT_BUDGET, Accept, Budget, CandidateRecord, Failure, Machine, Select, Speed

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
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
    body: bool = False
    """Whether the whole kernel is the one region."""
    flags: tuple[str, ...] = ()
    """The assembler's, in ptxas's spelling, for baseline and candidates alike."""
    ptxas: Path | None = None
    """Another ptxas than the wheel's, with ``assembler`` "ptxas"."""
    window: int | None = None
    """Tokens that the model reads and writes in all; longer regions are cut. None: as long as they are."""
    minimise: int = 0
    """How many texts may be checked to reduce each region's winner to the edits that matter."""


@dataclass(slots=True)
class Work:
    """What one kernel's architectures share: conversations by region, verdicts by text."""

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
class State:
    """One architecture on its way. ``seen`` holds the canonical form of every candidate, with the first one's name."""

    kernel: Kernel
    baseline: Machine
    failures: list[Failure] = field(default_factory=list)
    regions: list[tuple[Region, Conversation | None]] = field(default_factory=list)
    prompts: dict[str, str] = field(default_factory=dict)
    """The hash of each region's prompt, by the region's name."""
    candidates: dict[str, CandidateRecord] = field(default_factory=dict)
    seen: dict[tuple[str, str], str] = field(default_factory=dict)
    listing: tuple[SassFunction, ...] | None = None
    """The baseline's machine code, where it can be read."""
    listings: dict[str, tuple[SassFunction, ...]] = field(default_factory=dict)
    """That of candidates, by name."""
    rewrites: dict[str, str] = field(default_factory=dict)
    """The text of candidates that passed the answer check, by name."""
    findings: tuple[Finding, ...] = ()
    """What the lints say of the baseline."""
    raced: set[str] = field(default_factory=set)
