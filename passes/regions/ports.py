"""The registers through which a region takes and gives values."""

from __future__ import annotations

from collections.abc import Iterable

from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Instruction


def port_registers(
    inside: Iterable[Instruction], live_at_entry: frozenset[str], live_at_exit: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """(live-in, live-out) registers of a region that consists of the instructions ``inside``.

    A register that the region leaves alone is neither. One that it writes on some paths only, and that is read
    later, is both: the rewrite must be able to pass it through.
    """
    used: set[str] = set()
    defined: set[str] = set()
    for instruction in inside:
        used.update(isa.uses(instruction))
        defined.update(isa.defs(instruction))
    return live_at_entry & (used | defined), live_at_exit & defined
