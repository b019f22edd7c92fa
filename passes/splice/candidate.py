"""What splicing gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hybridcc.passes.edits.declared import Edit
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.guard import Condition
from hybridcc.ptx.nodes import Module


@dataclass(frozen=True, slots=True)
class Part:
    """One rewrite in its place.

    ``prefix`` begins every name made for it; ``blocks`` are the labels of its basic blocks that hold
    instructions, in order, so that a run can tell which of them were executed; ``new_names`` maps the rewrite's
    own names to the kernel's; ``copies`` maps inputs by number to the registers that hold a copy of them;
    ``leaves_to`` is the label that the code branches to at its end, "" where it falls through to the exit;
    ``fallback`` labels the original region kept behind a guard, "" without one. Statements ``made[0]`` to
    ``made[1]`` (exclusive) of the inserted scope are the splicer's own: copies of inputs and the guard.
    """

    region: Region
    text: str = field(repr=False)
    prefix: str
    blocks: tuple[str, ...]
    new_names: Mapping[str, str] = field(repr=False)
    copies: Mapping[int, str] = field(repr=False)
    made: tuple[int, int]
    guard: tuple[Condition, ...] = ()
    leaves_to: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A module with one or more rewrites spliced in; everything outside the regions is as it was, but for ``edits``
    that a rewrite declared."""

    module: Module = field(repr=False)
    function: str
    parts: tuple[Part, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def text(self) -> str:
        """The PTX."""
        return str(self.module)

    @property
    def rewritten(self) -> tuple[str, ...]:
        """The labels of every rewritten block."""
        return tuple(label for part in self.parts for label in part.blocks)
