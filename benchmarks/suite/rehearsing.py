"""What can be tried of a case without a GPU: Numba's PTX and the twin's on the executor, at the tiny size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import cuda_cpp
from benchmarks.suite.building import Built
from benchmarks.suite.case import Case, error_of
from hybridcc.passes.arguments import flatten
from hybridcc.passes.execute import execute
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch, copy
from hybridcc.runtime import race_job
from hybridcc.runtime.given_cubin import examine

ARCH = "sm_90"


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """``errors`` and ``twin_errors`` are against the reference, by output; ``differs`` says where the twin's memory is
    not Numba's bit for bit, empty if it is."""

    name: str
    errors: dict[str, float]
    twin_errors: dict[str, float]
    tolerance: float
    differs: str
    regions: dict[str, float]
    """Estimated share of the time by region that may be rewritten."""

    @property
    def right(self) -> bool:
        return all(error <= self.tolerance for error in (*self.errors.values(), *self.twin_errors.values()))


def rehearse(case: Case) -> Rehearsed:
    """Raises HybridccError or RuntimeError where something does not compile or run."""
    from hybridcc.asking import regions_of
    from hybridcc.frontends import numba

    kernel = numba.compile(case.kernel, case.kernel.signatures[0], ARCH)
    given = case.launch("tiny")
    wanted = case.reference(*given.values)
    own, twin = run_numba(kernel, given), run_twin(case, given)
    outputs = [name for name in case.parameters if name in wanted]
    values, twin_values = (dict(zip(case.parameters, ran.values, strict=True)) for ran in (own, twin))
    return Rehearsed(
        case.name,
        {name: error_of(np.asarray(values[name]), wanted[name]) for name in outputs},
        {name: error_of(np.asarray(twin_values[name]), wanted[name]) for name in outputs},
        case.tolerance,
        difference(case, own, twin),
        {region.id: round(region.share, 3) for region in regions_of(kernel) if region.eligible},
    )


def misfits(case: Case, built: Built) -> tuple[str, ...]:
    """Contenders whose machine code takes its parameters from other places than a race puts them."""
    tiny = case.launch("tiny")
    stock, twin = race_job.parameters_of(case.arguments, tiny), race_job.packed(case.cuda_arguments(*tiny.values), tiny)
    found = []
    for contender in (built.stock, built.fastmath, *(v.contender for v in built.variants), built.twin):
        given = twin if contender is built.twin else stock
        takes = examine(contender.cubin, contender.name).entry(contender.entry, contender.name).parameters
        if _offsets(takes) != (*given.offsets, len(given.data)):
            found.append(contender.name)
    return tuple(found)


def _offsets(sizes: Sequence[int]) -> tuple[int, ...]:
    """Where parameters of these sizes begin, each aligned to its own, and where the last one ends."""
    found: list[int] = []
    at = 0
    for size in sizes:
        at += -at % size
        found.append(at)
        at += size
    return (*found, at)


def run_numba(kernel: Kernel, given: Launch) -> Launch:
    """The launch with what the kernel leaves."""
    ran = copy(given)
    execute(kernel.ptx, kernel.entry, ran.grid, ran.block, flatten(kernel.arguments, ran.values))
    return ran


def run_twin(case: Case, given: Launch) -> Launch:
    """The launch with what the twin leaves."""
    ran = copy(given)
    compiled = cuda_cpp.compile(case.twin, ARCH, f"{case.name}.cu")
    execute(compiled.ptx, case.name, ran.grid, ran.block, list(case.cuda_arguments(*ran.values)))
    return ran


def difference(case: Case, one: Launch, other: Launch) -> str:
    """The first element that two launches leave with other bits, in words."""
    for name, mine, its in zip(case.parameters, one.values, other.values, strict=True):
        if isinstance(mine, np.ndarray) and isinstance(its, np.ndarray) and mine.tobytes() != its.tobytes():
            bits = f"u{mine.itemsize}"
            at = int(np.flatnonzero(mine.reshape(-1).view(bits) != its.reshape(-1).view(bits))[0])
            return f"{name}[{at}] is {mine.reshape(-1)[at]!r} in Numba's and {its.reshape(-1)[at]!r} in the twin's"
    return ""
