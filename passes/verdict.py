"""What checking established about a candidate, strongest first. Only what was established is ever said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

NAN_PAYLOADS: Final = "NaN payloads"
"""What a proof sets aside when words of memory that are NaNs in both may be NaNs of different bits."""


@dataclass(frozen=True, slots=True)
class Proved:
    """Equal for every input under the kernel's facts. ``aside`` lists weaker senses ("NaN payloads", "contraction")."""

    certificate: str
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tested:
    """Bit-equal on ``inputs`` launches, of which ``exercised`` executed every rewritten block.

    ``least`` launches executed the rewritten block that ran in the fewest. It is never 0, where ``exercised`` may be:
    blocks that exclude each other (one for each remainder of an unrolled loop) never run in one launch.
    """

    __test__: ClassVar[bool] = False  # pytest would collect the class by its name

    inputs: int
    exercised: int
    families: tuple[str, ...]
    least: int


@dataclass(frozen=True, slots=True)
class TestedWithin:
    """Equal within ``ulp`` units in the last place on ``inputs`` launches (opt-in)."""

    __test__: ClassVar[bool] = False  # pytest would collect the class by its name

    inputs: int
    exercised: int
    ulp: int


@dataclass(frozen=True, slots=True)
class Refuted:
    """The two differ: ``counterexample`` describes the launch, the first differing element and both values."""

    counterexample: str
    family: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing was established, and why."""

    reason: str


Verdict: TypeAlias = Proved | Tested | TestedWithin | Refuted | Unknown
