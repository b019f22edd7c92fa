"""Which of the code at hand a device runs, by compute capability alone: the rule that the CUDA driver goes by.

Machine code runs on devices of its own major capability and the same or a higher minor one; PTX on its own and every
later capability. Architecture-specific code (sm_90a) runs on exactly its own capability, family-specific code (sm_100f)
within its major one, and so does their PTX (PTX ISA, ``.target``; CUDA C++ Programming Guide, "Binary Compatibility").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Capability: TypeAlias = tuple[int, int]
Suffix: TypeAlias = Literal["", "f", "a"]

_NAME = re.compile(r"sm_(\d+)(\d)([af]?)")
_RANK = {"": 0, "f": 1, "a": 2}


@dataclass(frozen=True, slots=True)
class Choice:
    """``kind`` "ptx" is left to the driver to compile; ``exact`` says that the code is of the device's own
    capability, so that what was measured on such a device holds."""

    kind: Literal["cubin", "ptx"]
    arch: str
    exact: bool


def capability_of(arch: str) -> tuple[Capability, Suffix] | None:
    """(capability, suffix) of "sm_90", "sm_100f" or "sm_90a"; None for any other name."""
    found = _NAME.fullmatch(arch)
    return None if found is None else ((int(found[1]), int(found[2])), found[3])  # type: ignore[return-value]


def choose(cubins: Iterable[str], ptx: Iterable[str], capability: Capability) -> Choice | None:
    """The best of the architectures that there are cubins and PTX for; None where nothing runs on the device.

    Exactly the device's own before an older one, more specific code before portable, machine code before
    PTX. Names that are no architecture are passed over.
    """
    best = max(_running(cubins, capability, forward=False), default=None)
    if best is not None:
        return Choice("cubin", best[-1], best[0] == capability)
    best = max(_running(ptx, capability, forward=True), default=None)
    return None if best is None else Choice("ptx", best[-1], best[0] == capability)


def _running(names: Iterable[str], capability: Capability, forward: bool) -> Iterable[tuple[Capability, int, str]]:
    """What runs on the device; ``forward`` for PTX, which runs on every later major capability too."""
    for name in names:
        parsed = capability_of(name)
        if parsed is None:
            continue
        own, suffix = parsed
        within = own <= capability and own[0] == capability[0]
        runs = {"a": own == capability, "f": within, "": within or (forward and own <= capability)}[suffix]
        if runs:
            yield own, _RANK[suffix], name
