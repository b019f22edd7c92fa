"""A profile: how often each block of one kernel runs, where that knowledge comes from, and what it weighs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hybridcc.errors import ProfileError
from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.profile.estimate import estimated_counts, model_target, weigh

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.verify.launch import Launch

ProfileOrigin: TypeAlias = Literal["measured", "executed", "estimated"]
ORIGINS: tuple[ProfileOrigin, ...] = ("measured", "executed", "estimated")
"""The more trusted first."""
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """``counts[b]`` are thread executions of block b of ``cfg.build`` (per thread where estimated), ``firsts[b]`` how
    many instructions stand before it: comments and line information do not count.

    ``key`` is the kernel's canonical key: names and positions do not matter. ``taken_at`` says in words which launch
    the counts are of, ``threads`` how many it had; ``sampled`` is the part of its blocks that was counted;
    ``shares`` are clock shares of regions by id, where a timing clone ran; ``notes`` what a reader must know.
    """

    origin: ProfileOrigin
    key: str
    arch: str
    counts: tuple[float, ...]
    firsts: tuple[int, ...]
    taken_at: str = ""
    threads: int = 0
    warps_per_sm: float | None = None
    sampled: float = 1.0
    shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def counts_in(self, cfg: ControlFlowGraph) -> tuple[float, ...]:
        """The counts for a graph of the same function that may have more, smaller blocks."""
        from bisect import bisect_right

        starts = starts_of(cfg)
        if self.firsts and starts and self.firsts[-1] > starts[-1]:
            raise ProfileError("OTHER_PTX", "the profile has blocks that the kernel has not", next_step="take it again")
        return tuple(self.counts[bisect_right(self.firsts, start) - 1] for start in starts)

    def weights(self, cfg: ControlFlowGraph) -> tuple[float, ...]:
        """Each block's part of the kernel's time, by its counts and the cost model of ``arch``."""
        return weigh(cfg, self.counts_in(cfg), model_target(self.arch), self.warps_per_sm)

    def check(self, kernel: Kernel) -> None:
        """Raises ProfileError(OTHER_PTX) for a kernel that the profile was not taken of."""
        if key_of(kernel) != self.key:
            raise ProfileError(
                "OTHER_PTX",
                f"the profile is of other PTX than {kernel.name} for {kernel.arch}",
                next_step="take it again: hybridcc profile",
            )

    def used_at(self, launch: Launch) -> tuple[str, ...]:
        """What to say where the profile is used for this launch: a sentence if it was taken at another."""
        if self.origin == "estimated" or not self.taken_at or self.taken_at == launch_words(launch):
            return ()
        return (f"profile taken at {self.taken_at}, used at {launch_words(launch)}",)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


def from_json(data: Mapping[str, Any]) -> Profile:
    """Raises ProfileError(FORMAT)."""
    given = dict(data)
    if given.pop("schema", None) != SCHEMA:
        raise ProfileError("FORMAT", f"this is no profile of schema {SCHEMA}", next_step="take it again")
    try:
        tuples = {name: tuple(given[name]) for name in ("counts", "firsts", "notes")}
        made = Profile(**{**given, **tuples})
    except (KeyError, TypeError) as error:
        raise ProfileError("FORMAT", f"a profile that is incomplete: {error}", next_step="take it again") from error
    if made.origin not in ORIGINS or len(made.counts) != len(made.firsts):
        raise ProfileError("FORMAT", "a profile whose counts and blocks do not agree", next_step="take it again")
    return made


def estimate(kernel: Kernel, cfg: ControlFlowGraph) -> Profile:
    """The profile that needs nothing but the text."""
    return Profile("estimated", "", kernel.arch, estimated_counts(cfg), starts_of(cfg))


def starts_of(cfg: ControlFlowGraph) -> tuple[int, ...]:
    """How many instructions stand before each block."""
    sizes = (len(cfg.instructions(b.index)) for b in cfg.blocks)
    return tuple(accumulate(sizes, initial=0))[:-1]


def key_of(kernel: Kernel) -> str:
    from hybridcc.ptx import parse
    from hybridcc.ptx.canonical import canonical_key

    return canonical_key(parse(kernel.ptx, kernel.name), kernel.entry)


def launch_words(launch: Launch) -> str:
    """Grid, block and sizes, as a profile remembers them: values do not matter, lengths do."""
    import numpy as np

    sizes = [f"{v.dtype}{list(v.shape)}" if isinstance(v, np.ndarray) else f"{v}" for v in launch.values]
    grid, block = ("x".join(map(str, shape)) for shape in (launch.grid, launch.block))
    return f"grid {grid}, block {block}, ({', '.join(sizes)})"


def disagreements(profiles: Sequence[tuple[str, Mapping[str, float]]], points: float = 10.0) -> tuple[str, ...]:
    """Where two sources give a region shares (0 to 1) that differ by more than ``points`` percentage points."""
    found: list[str] = []
    for at, (origin, shares) in enumerate(profiles):
        for other, others in profiles[at + 1 :]:
            for region in shares:
                if region in others and abs(shares[region] - others[region]) * 100 > points:
                    found.append(
                        f"{region}: {100 * shares[region]:.0f} % {origin}, {100 * others[region]:.0f} % {other}"
                    )
    return tuple(found)
