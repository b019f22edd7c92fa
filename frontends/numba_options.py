"""The keywords of ``numba.cuda.jit``: which ones a compilation to PTX takes, and which are refused, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hybridcc.errors import InputError, UnsupportedOption
from hybridcc.passes.kernel import LaunchBounds
from hybridcc.ptx.targets import MAX_REGISTERS_PER_THREAD

LEAST_REGISTERS = 16
"""ptxas takes no fewer."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What changes the PTX. ``opt`` is None for Numba's own default: on, unless ``debug``."""

    fastmath: bool = False
    opt: bool | None = None
    debug: bool = False
    lineinfo: bool = False
    launch_bounds: LaunchBounds = field(default_factory=LaunchBounds)
    max_registers: int | None = None


REFUSED: Mapping[str, str] = {
    "link": "code from other files never becomes PTX here; write it as a numba.cuda device function",
    "extensions": "an extension changes arguments in ways that no check can follow; convert them before the call",
    "lto": "link-time optimisation goes round PTX; leave it out",
    "forceinline": "a kernel is never inlined; put it on the device function",
    "boundscheck": "numba-cuda has none either; HYBRIDCC=execute checks every access",
    "argtypes": "numba-cuda took it away; give the signature as the first argument",
    "restype": "numba-cuda took it away; a kernel returns nothing",
    "bind": "numba-cuda took it away; leave it out",
    "locals": "numba-cuda has no such keyword; convert values in the kernel (numba.float32(x))",
}
"""Keywords refused by name when they ask for something; what they mean when off (None, False, empty) is accepted."""

OF_THE_LAUNCH = frozenset({"shared_memory_carveout", "cache", "device", "inline"})
"""Keywords that leave a kernel's PTX as it is: the dispatcher answers for them."""


def compile_options(options: Mapping[str, Any]) -> CompileOptions:
    """Raises UnsupportedOption for a keyword that is refused or unknown, InputError for a value that cannot be."""
    known = {"fastmath", "opt", "debug", "lineinfo", "launch_bounds", "max_registers"}
    for name, value in options.items():
        if name in REFUSED:
            if value:
                raise UnsupportedOption(f"hybridcc.jit does not take {name}={value!r}", next_step=REFUSED[name])
        elif name not in known | OF_THE_LAUNCH:
            raise UnsupportedOption(
                f"numba.cuda.jit has no keyword {name!r}", next_step=f"the keywords are: {', '.join(sorted(known))}"
            )
    if options.get("device"):
        raise UnsupportedOption(
            "a device function has no entry to build", next_step="build the kernel that calls it; it is compiled along"
        )
    debug = bool(options.get("debug"))
    opt = options.get("opt")
    if debug and opt:
        raise UnsupportedOption("debug=True with opt=True: libNVVM cannot do both", next_step="leave one of them out")
    if debug and options.get("lineinfo"):
        raise UnsupportedOption("debug=True holds line information already", next_step="leave lineinfo out")
    return CompileOptions(
        fastmath=bool(options.get("fastmath")),
        opt=None if opt is None else bool(opt),
        debug=debug,
        lineinfo=bool(options.get("lineinfo")),
        launch_bounds=launch_bounds(options.get("launch_bounds")),
        max_registers=_max_registers(options.get("max_registers")),
    )


def launch_bounds(given: Any) -> LaunchBounds:
    """``256`` or ``(256, 2)`` as numba-cuda takes it. Raises UnsupportedOption for a third item (clusters)."""
    if given is None or isinstance(given, LaunchBounds):
        return given or LaunchBounds()
    bounds = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(bounds) <= 3 or any(not isinstance(bound, int) or bound < 1 for bound in bounds):
        raise InputError(
            f"launch_bounds={given!r} is not a number of threads or (threads, blocks)",
            next_step="give for example launch_bounds=256",
        )
    if len(bounds) == 3:
        raise UnsupportedOption(
            "launch_bounds with a third item (blocks in a cluster)", next_step="give threads, or (threads, blocks)"
        )
    return LaunchBounds(*bounds)


def _max_registers(given: Any) -> int | None:
    if not given:  # numba-cuda takes 0 for no limit
        return None
    if not isinstance(given, int) or not LEAST_REGISTERS <= given <= MAX_REGISTERS_PER_THREAD:
        raise InputError(
            f"max_registers={given!r} is not between {LEAST_REGISTERS} and {MAX_REGISTERS_PER_THREAD}",
            next_step="give a number in that range",
        )
    return given
