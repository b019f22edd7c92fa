"""One run of PTX on the executor over a copy of a launch's memory: what it left, or how it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hybridcc.errors import ExecutionError
from hybridcc.passes.arguments import flatten
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, copy, memory

Execute: TypeAlias = Callable[..., Any]
"""``hybridcc.execute``, or in tests a stand-in with its signature."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``memory`` is every buffer after the run; ``block_counts`` the executions of each basic block by label;
    ``instructions`` those of all threads together."""

    memory: tuple[bytes, ...]
    block_counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    fault: ExecutionError | None = None
    instructions: int = 0

    def executed(self, labels: Sequence[str]) -> bool:
        return all(self.block_counts.get(label, 0) > 0 for label in labels)


def default_execute() -> Execute:
    from hybridcc.passes.execute import execute

    return execute


def run(
    kernel: Kernel, ptx: str, launch: Launch, execute: Execute, *, steps: int | None = None, **options: object
) -> Outcome:
    """``launch`` itself is left as it was. ``steps`` bounds the instructions of all threads together; without it the
    launch's own bound holds."""
    if steps is None and launch.steps is not None:
        steps = launch.steps * max(1, launch.threads)
    if steps is not None:
        options["step_limit"] = steps
    private = copy(launch)
    try:
        result = execute(
            ptx,
            kernel.entry,
            launch.grid,
            launch.block,
            flatten(kernel.arguments, private.values),
            shared_bytes=launch.shared_bytes,
            **options,
        )
    except ExecutionError as fault:
        return Outcome((), fault=fault)
    return Outcome(memory(private), result.block_counts, tuple(result.flags), instructions=result.instructions)
