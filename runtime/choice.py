"""Which of the code at hand a device runs, by compute capability alone: the rule that the CUDA driver goes by.

Machine code runs on devices of its own major capability and the same or a higher minor one; architecture-specific code
(sm_90a) on exactly its own capability; PTX on its own and every later capability, architecture-specific PTX on exactly
its own (PTX ISA 11.1.2; CUDA C++ Programming Guide, "Binary Compatibility").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Capability: TypeAlias = tuple[int, int]

_NAME = re.compile(r"sm_(\d+)(\d)(a?)")


@dataclass(frozen=True, slots=True)
class Choice:
    """``kind`` "ptx" is left to the driver to compile; ``exact`` says that the code is of the device's own
    capability, so that what was measured on such a device holds."""

    kind: Literal["cubin", "ptx"]
    arch: str
    exact: bool


def capability_of(arch: str) -> tuple[Capability, bool] | None:
    """(capability, whether architecture-specific) of "sm_90" or "sm_90a"; None for any other name."""
    found = _NAME.fullmatch(arch)
    return None if found is None else ((int(found[1]), int(found[2])), bool(found[3]))


def choose(cubins: Iterable[str], ptx: Iterable[str], capability: Capability) -> Choice | None:
    """The best of the architectures that there are cubins and PTX for; None where nothing runs on the device.

    Exactly the device's own before an older one, architecture-specific code before portable, machine code before
    PTX. Names that are no architecture are passed over.
    """
    best = max(_running(cubins, capability, forward=False), default=None)
    if best is not None:
        return Choice("cubin", best[-1], best[0] == capability)
    best = max(_running(ptx, capability, forward=True), default=None)
    return None if best is None else Choice("ptx", best[-1], best[0] == capability)


def _running(names: Iterable[str], capability: Capability, forward: bool) -> Iterable[tuple[Capability, bool, str]]:
    """What runs on the device; ``forward`` for PTX, which runs on every later major capability too."""
    for name in names:
        parsed = capability_of(name)
        if parsed is None:
            continue
        own, specific = parsed
        runs = own == capability if specific else own <= capability and (forward or own[0] == capability[0])
        if runs:
            yield own, specific, name
