"""The values a thread starts with: parameters, special registers, addresses of variables, memory.

They do not change while the thread runs, so every relation of a certificate may speak of them. Bounds are the
hardware's (ISA 10, Special Registers; CUDA C++ Programming Guide, Technical Specifications, compute
capability 5.0 to 12.x): a launch that breaks them is refused by the driver.
"""

from __future__ import annotations

from typing import Final

from hybridcc.passes.verify.proof.memory import initial
from hybridcc.passes.verify.proof.terms import (
    Condition,
    Memory,
    Polynomial,
    constant,
    negation,
    unsigned_less,
    variable,
)

_GRID_X: Final = (1 << 31) - 1
_GREATEST: Final[dict[str, int]] = {
    "tid.x": 1023,
    "tid.y": 1023,
    "tid.z": 63,
    "ntid.x": 1024,
    "ntid.y": 1024,
    "ntid.z": 64,
    "ctaid.x": _GRID_X - 1,
    "ctaid.y": 65534,
    "ctaid.z": 65534,
    "nctaid.x": _GRID_X,
    "nctaid.y": 65535,
    "nctaid.z": 65535,
    "laneid": 31,
}
"""Unsigned upper bounds of the special registers that are constant for a thread. No other one is modelled:
clocks, performance counters, warp and multiprocessor numbers may change or are not a program's to rely on."""

MEMORY: Final = "entry"
"""The name of the memory at a thread's first instruction."""


class UnknownSpecialRegister(Exception):
    """A special register whose value is no constant of the thread."""


def parameter(index: int, offset: int, width: int) -> Polynomial:
    """``width`` bits at byte ``offset`` of parameter ``index``."""
    return variable(f"parameter:{index}:{offset}:{width}", width)


def special(name: str, width: int = 32) -> Polynomial:
    """``name`` without its percent sign: ``tid.x``. Raises UnknownSpecialRegister."""
    if name not in _GREATEST or width != 32:
        raise UnknownSpecialRegister(name)
    return variable(f"special:{name}", 32, _GREATEST[name])


def address_of(name: str, space: str, width: int = 64) -> Polynomial:
    """The address of a variable of a state space (``.shared``), in that space's own window.

    Shared addresses are 32-bit numbers: ptxas takes 32-bit registers for them.
    """
    bound = (1 << 32) - 1 if space == ".shared" else None
    return variable(f"address:{space}:{name}", width, bound)


def memory() -> Memory:
    return initial(MEMORY)


def named(name: str, width: int) -> Polynomial | None:
    """The entry value of that variable name, or None if it names something else."""
    kind, _, rest = name.partition(":")
    if kind == "special" and rest in _GREATEST and width == 32:
        return special(rest)
    if kind == "address" and width == 64:
        space, _, symbol = rest.partition(":")
        return address_of(symbol, space)
    return variable(name, width) if kind == "parameter" else None


def launch_conditions() -> tuple[Condition, ...]:
    """``tid < ntid`` and ``ctaid < nctaid`` in each dimension; the bounds themselves belong to the variables."""
    found: list[Condition] = []
    for axis in "xyz":
        found.append(unsigned_less(special(f"tid.{axis}"), special(f"ntid.{axis}")))
        found.append(unsigned_less(special(f"ctaid.{axis}"), special(f"nctaid.{axis}")))
        found += (negation(unsigned_less(special(n), constant(1, 32))) for n in (f"ntid.{axis}", f"nctaid.{axis}"))
    return tuple(found)
