"""The executor: PTX on the CPU, every thread an array lane, every access checked.

It agrees with the hardware bit for bit where PTX fixes the bits, and says where it cannot (ExecutionResult.flags).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybridcc.passes.execute.run import ExecutionResult as ExecutionResult
    from hybridcc.passes.execute.run import execute as execute

__all__ = ["ExecutionResult", "execute"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from hybridcc.passes.execute import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
