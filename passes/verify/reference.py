"""The baseline's side of a comparison: launches with what the baseline makes of each, run once for all candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.once import Execute, Outcome, default_execute, run
from hybridcc.passes.verify.source import launches_for

Origin: TypeAlias = Literal["types", "example", "given"]


@dataclass(slots=True)
class Known:
    """One launch and the baseline's outcome; ``repeats`` is None until it was asked."""

    launch: Launch
    outcome: Outcome
    repeats: bool | None = None


@dataclass(slots=True)
class Reference:
    """Launches are made, and run on the baseline, as they are asked for; what was run is kept."""

    kernel: Kernel
    execute: Execute
    origin: Origin
    plans: tuple[str, ...]
    _source: Iterator[Launch] = field(repr=False)
    _known: list[Known] = field(default_factory=list, repr=False)

    def take(self, most: int) -> Iterator[Known]:
        """At most so many launches, the same ones at every call."""
        for number in range(most):
            if number == len(self._known):
                launch = next(self._source, None)
                if launch is None:
                    return
                self._known.append(Known(launch, run(self.kernel, self.kernel.ptx, launch, self.execute)))
            yield self._known[number]

    def repeats(self, known: Known) -> bool:
        """Whether the baseline leaves the same memory under another order of warps."""
        if known.repeats is None:
            again = run(self.kernel, self.kernel.ptx, known.launch, self.execute, schedule="reversed")
            known.repeats = again.fault is None and again.memory == known.outcome.memory
        return known.repeats


def reference_for(
    kernel: Kernel,
    launches: Iterable[Launch] | None = None,
    *,
    examples: Sequence[Launch] = (),
    seed: int = 0,
    execute: Execute | None = None,
) -> Reference:
    """``launches`` as they stand; without them they are made from ``examples``, else from the kernel's types."""
    execute = execute or default_execute()
    if launches is not None:
        return Reference(kernel, execute, "given", (), iter(launches))
    source = launches_for(kernel, examples, seed=seed, execute=execute)
    return Reference(kernel, execute, "example" if examples else "types", source.plans, source.launches)
