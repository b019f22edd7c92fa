"""What a region is: data that the prompt, the splicer, the checker and the report read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.facts import Fact

Weight: TypeAlias = Literal["hot", "warm", "cold"]


@dataclass(frozen=True, slots=True)
class Port:
    """A value that crosses the region's border.

    ``register`` is the resolver's unique name, ``spelling`` the kernel's own name for it, ``type`` as declared
    (".b64"). ``origin_note`` says what the value means where dataflow shows it ("data pointer of x"), else "";
    it depends on the kernel's argument names and dataflow only. ``uniform`` says whether every thread of a block
    is known to hold the same value.
    """

    register: str
    spelling: str
    type: str
    origin_note: str = ""
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    """How many instructions of each kind the region holds; memory by state space (".global", "generic")."""

    loads: Mapping[str, int]
    stores: Mapping[str, int]
    atomics: Mapping[str, int]
    barriers: int
    convergent: int

    def __str__(self) -> str:
        kinds = (("load", self.loads), ("store", self.stores), ("atomic", self.atomics))
        parts = [
            f"{count} {space.removeprefix('.')} {kind}{'s' if count > 1 else ''}"
            for kind, spaces in kinds
            for space, count in spaces.items()
        ]
        parts += [f"{self.barriers} barriers"] if self.barriers else []
        parts += [f"{self.convergent} convergent operations"] if self.convergent else []
        return ", ".join(parts) or "none"


@dataclass(frozen=True, slots=True)
class Ineligible:
    """Why a region is not offered for rewriting: a stable code and a sentence."""

    code: str
    reason: str

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Region:
    """A single-entry single-exit part of one kernel.

    Every edge into ``blocks`` goes to block ``entry``, every edge out of them to block ``exit``, which is
    outside. ``text`` is the canonical text: the region itself as a rewrite would spell it, and ``key`` its
    SHA-256 in hexadecimal. ``temporaries``, ``labels`` and ``symbols`` map the text's names back to the
    kernel's. ``share`` is the region's part of the kernel's estimated time, 0 to 1.
    An ineligible region has no text.
    """

    id: str
    function: str
    cfg: ControlFlowGraph = field(repr=False, compare=False)
    blocks: tuple[int, ...]
    entry: int
    exit: int
    live_in: tuple[Port, ...]
    live_out: tuple[Port, ...]
    effects: Effects
    facts: tuple[Fact, ...]
    weight: Weight
    share: float
    loop_depth: int
    """How many loops of the kernel the region lies inside."""
    text: str = field(repr=False, default="")
    key: str = ""
    temporaries: Mapping[str, str] = field(repr=False, default_factory=dict)
    labels: Mapping[str, int] = field(repr=False, default_factory=dict)
    symbols: Mapping[str, str] = field(repr=False, default_factory=dict)
    ineligible: Ineligible | None = None

    @property
    def eligible(self) -> bool:
        return self.ineligible is None

    @property
    def order(self) -> tuple[int, ...]:
        """The blocks as the canonical text has them: the entry, then the others in source order."""
        return (self.entry, *(b for b in self.blocks if b != self.entry))

    @property
    def statements(self) -> frozenset[int]:
        """The flattened statements that the region covers, by index."""
        covered = (self.cfg.blocks[b] for b in self.blocks)
        return frozenset(i for b in covered for i in range(b.first, b.last))


def canonical_names(region: Region) -> dict[str, str]:
    """From the resolver's unique names to those of the region's text: registers, labels of blocks, variables."""
    names = {port.register: f"%in{k}" for k, port in enumerate(region.live_in)}
    names |= {old: new for new, old in {**region.temporaries, **region.symbols}.items()}
    names |= {label: new for new, block in region.labels.items() for label in region.cfg.blocks[block].labels}
    return names | {port.register: f"%out{k}" for k, port in enumerate(region.live_out)}
