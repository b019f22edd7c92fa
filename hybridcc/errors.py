"""The one error tree: every failure a user can meet, each with a code, an exit code and a next step.

Exit codes of the command line (documented in docs/exit-codes.md):
0 done under the policy; 1 the policy is violated; 2 bad usage or input; 3 toolchain or device failure;
4 unknown or inconclusive where an answer was required; 125 untestable (for ``git bisect run``).
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

DEBUG_VARIABLE = "HYBRIDCC_DEBUG"
"""Set to anything but 0, it lets tracebacks through."""


def debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


class HybridccError(Exception):
    """What went wrong, where, and the next step.

    ``code`` is a stable upper-case word that documentation and JSON use; ``exit_code`` is what the
    command line returns.
    """

    code: ClassVar[str] = "INTERNAL"
    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        self.what = what
        self.where = where
        self.next_step = next_step
        super().__init__(str(self))

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  next: {self.next_step}" if self.next_step else head


class InputError(HybridccError):
    """Something the user gave cannot be used."""

    code = "BAD_INPUT"
    exit_code = 2


class ToolchainError(HybridccError):
    """A compiler, assembler or library is missing or failed."""

    code = "TOOLCHAIN"
    exit_code = 3


class DeviceError(HybridccError):
    """The GPU is missing, or it failed."""

    code = "DEVICE"
    exit_code = 3


class PolicyError(HybridccError):
    """What was required (a proof, a speed-up) was not reached."""

    code = "POLICY"
    exit_code = 1


class PtxSyntaxError(InputError):
    """PTX text that does not parse; ``diagnostics`` holds every one found, in order of position."""

    code = "PTX_SYNTAX"

    def __init__(self, diagnostics: tuple[object, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(str(d) for d in diagnostics), next_step="mend the PTX at the position shown")


class ProfileError(InputError):
    """A profile that cannot be taken or used.

    ``reason`` is CALL_MAY_EXIT, NO_REGION, NO_SAMPLING, OTHER_PTX (it was taken of other PTX), OUTPUT_CHANGED
    (a clone computed something else), NO_LAUNCH, NSIGHT or FORMAT.
    """

    code = "PROFILE"

    def __init__(self, reason: str, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        super().__init__(what, where=where, next_step=next_step)


class RenameRefused(InputError):
    """A module whose names must not be changed; ``reason`` is DEBUG, RAW_STATEMENT or FAMILY (ptx/canonical.py)."""

    code = "RENAME_REFUSED"

    def __init__(self, reason: str, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        super().__init__(what, where=where, next_step=next_step)


class UnknownArchitecture(InputError):
    code = "UNKNOWN_ARCH"


class NoBinary(InputError):
    """A bundle that holds nothing a device runs."""

    code = "NO_BINARY"


class SignatureError(InputError):
    """The kernel does not compile for the signature given."""

    code = "SIGNATURE"


class UnsupportedOption(InputError):
    """A keyword or flag that is known, and refused by name."""

    code = "UNSUPPORTED_OPTION"


class LaunchShapeError(InputError, ValueError):
    """A grid or block that is missing or has a wrong number of sizes; Numba raises ValueError there."""

    code = "LAUNCH_SHAPE"


class LaunchShapeTypeError(InputError, TypeError):
    """A grid or block whose sizes are no integers; Numba raises TypeError there."""

    code = "LAUNCH_SHAPE"


class MissingExtra(InputError):
    """An optional dependency is not installed; ``next_step`` holds the command that brings it."""

    code = "MISSING_EXTRA"


class ModelError(InputError):
    """A model directory, endpoint or recording that cannot be used; ``answers`` came before it failed."""

    code = "MODEL"
    answers: tuple[Any, ...] = ()


class RecordingMismatch(ModelError):
    """A recording holds no answer to the prompt that was asked."""

    code = "RECORDING_MISMATCH"


class NoRule(ModelError):
    """No rule knows the region: the reason why a rewriter that works has nothing to propose."""

    code = "NO_RULE"


class OutputError(InputError):
    """A place that cannot be written."""

    code = "OUTPUT"


class NoDevice(DeviceError):
    code = "NO_DEVICE"


class ForkedProcess(NoDevice):
    """A kernel used in a child that was forked when CUDA was already in use: CUDA does not survive a fork."""

    code = "FORKED"


class AssemblyError(ToolchainError):
    """The assembler refused PTX; ``log`` is its own text."""

    code = "ASSEMBLY"

    def __init__(self, what: str, *, log: str = "", where: str = "", next_step: str = "") -> None:
        self.log = log
        super().__init__(what, where=where, next_step=next_step)


class PtxRefused(InputError):
    """PTX that a user gave, and that the assembler does not take; ``log`` is the assembler's own text."""

    code = "ASSEMBLY"

    def __init__(self, what: str, *, log: str = "", where: str = "", next_step: str = "") -> None:
        self.log = log
        super().__init__(what, where=where, next_step=next_step)


class AnswerRejected(HybridccError):
    """A model's answer that is no rewrite; ``reason`` is the rejection code (see passes/rewrite/rejection.py)."""

    code = "ANSWER_REJECTED"
    exit_code = 2

    def __init__(self, reason: str, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        super().__init__(what, where=where, next_step=next_step)


class SpliceRefused(HybridccError):
    """A rewrite that must not be spliced; ``reason`` is the refusal code (see passes/splice.py)."""

    code = "SPLICE_REFUSED"
    exit_code = 2

    def __init__(self, reason: str, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        super().__init__(what, where=where, next_step=next_step)


class NotReduced(HybridccError):
    """A winner whose edits could not be told apart (minimising.py); it stands as it is."""

    code = "NOT_REDUCED"


class LaunchLimit(HybridccError):
    """A variant that cannot run some launch that its baseline runs."""

    code = "LAUNCH_LIMIT"
    exit_code = 2


class ExecutionError(HybridccError):
    """A kernel did something undefined on the executor.

    ``reason`` is a stable code (OUT_OF_BOUNDS, MISALIGNED, UNWRITTEN_REGISTER, UNINITIALISED_MEMORY,
    BARRIER_DEADLOCK, STEP_LIMIT, DATA_RACE, UNSUPPORTED); thread and block are (x, y, z).
    """

    code = "EXECUTION"
    exit_code = 1

    def __init__(
        self,
        reason: str,
        what: str,
        *,
        thread: tuple[int, int, int] | None = None,
        block: tuple[int, int, int] | None = None,
        where: str = "",
        next_step: str = "",
    ) -> None:
        self.reason = reason
        self.thread = thread
        self.block = block
        super().__init__(what, where=where, next_step=next_step)


def code_of(error: HybridccError) -> str:
    """The stable word for a failure: a refusal's or a fault's own reason where it has one."""
    match error:
        case (
            AnswerRejected(reason=reason)
            | SpliceRefused(reason=reason)
            | ExecutionError(reason=reason)
            | ProfileError(reason=reason)
        ):
            return reason
        case _:
            return error.code
