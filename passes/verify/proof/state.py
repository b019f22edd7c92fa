"""One thread of one program between two cut points."""

from __future__ import annotations

from dataclasses import dataclass, field

from hybridcc.passes.verify.proof.terms import Condition, Memory, Polynomial

EXITED = -1
"""The position of a thread that has left the kernel."""


@dataclass(frozen=True, slots=True)
class Access:
    """``width`` bits read or written at ``address``, one element of an instruction's access.

    The instruction needs ``required`` bytes of alignment here, and having run it shows ``granted`` bytes.
    """

    space: str
    address: Polynomial
    width: int
    required: int
    granted: int


@dataclass(slots=True)
class State:
    """``at`` is the next instruction, or EXITED. The lists hold what happened since the last cut point:

    ``loads`` every location read, ``stores`` every location written (their values stand in ``memory``), and
    ``convergent`` the instructions that need all threads of a warp, each with what it did.
    """

    side: str
    registers: dict[str, Polynomial | Condition]
    memory: Memory
    at: int
    loads: list[Access] = field(default_factory=list)
    stores: list[Access] = field(default_factory=list)
    convergent: list[tuple[int, str]] = field(default_factory=list)
    ending: str = ""
    """How the thread left: ``ret`` or ``trap``."""

    def copy(self) -> State:
        return State(
            self.side,
            dict(self.registers),
            self.memory,
            self.at,
            list(self.loads),
            list(self.stores),
            list(self.convergent),
            self.ending,
        )
