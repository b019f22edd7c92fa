"""A stage that may fail without stopping the build: its failure is recorded, never lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hybridcc.errors import DEBUG_VARIABLE, HybridccError, code_of, debugging
from hybridcc.records import Failure

T = TypeVar("T")
U = TypeVar("U")


def attempt(stage: str, failures: list[Failure], action: Callable[[], T], otherwise: U) -> T | U:
    """The action's result; on a failure, ``otherwise`` and one entry more in ``failures``.

    A fault of hybridcc itself is recorded as INTERNAL, because the baseline must be built all the same;
    ``HYBRIDCC_DEBUG=1`` lets its traceback through.
    """
    try:
        return action()
    except HybridccError as error:
        failures.append(Failure(stage, code_of(error), str(error)))
    except Exception as error:
        if debugging():
            raise
        failures.append(Failure(stage, "INTERNAL", f"{type(error).__name__}: {error}; {DEBUG_VARIABLE}=1 shows where"))
    return otherwise
