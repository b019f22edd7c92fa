"""All kernels of one device module to one cubin per architecture: what both flows do in the middle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hybridcc.building import ARCHITECTURES, open_or_failure, portable
from hybridcc.manifest import manifest_of
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify import examples
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.launch import Launch
from hybridcc.pipeline import Options, optimize
from hybridcc.racing import race_here
from hybridcc.records import BASELINE, DEFAULT_BUDGET, Accept, ArchitectureRecord, Budget, Machine, Select


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """As ``hybridcc build`` takes them. ``arch`` left empty means the targets that the module names, else
    building.ARCHITECTURES; ``bare_pointers`` is MLIR's calling convention with one pointer for a memref."""

    arch: tuple[str, ...] = ()
    rewriter: str = "none"
    accept: Accept = "proved"
    select: Select = "measured"
    answers: int = 4
    seed: int = 0
    budget: Budget = DEFAULT_BUDGET
    assembler: str = "nvjitlink"
    bare_pointers: bool = False
    examples: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """By kernel, a callable that returns launches to check rewrites on, as ``hybridcc.jit`` takes it. Needed where the
    lengths of arrays hang on other arguments: launches made from types alone then read out of bounds."""

    @property
    def architectures(self) -> tuple[str, ...]:
        return self.arch or ARCHITECTURES


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """``cubins`` and ``ptx`` are by architecture and hold every kernel, each as it was selected; ``manifest`` has what
    docs/manifest.md describes for each kernel, in a list under "kernels"."""

    cubins: Mapping[str, bytes] = field(repr=False)
    ptx: Mapping[str, str] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)


def compile_module(compiled: Sequence[tuple[Kernel, ...]], options: FlowOptions) -> CompiledModule:
    """``compiled`` holds the kernels of one PTX module, in the same order for each architecture.

    The kernels have their turns one after another: what was selected for one is the baseline of the next, so that the
    last module holds them all. Raises HybridccError where a baseline cannot be assembled.
    """
    rewriter, failure = open_or_failure(options.rewriter)
    chosen = Options(
        options.accept,
        options.select,
        portable(options.rewriter),
        options.answers,
        seed=options.seed,
        assembler=options.assembler,  # type: ignore[arg-type]
        budget=options.budget,
    )
    ptx = {kernels[0].arch: kernels[0].ptx for kernels in compiled}
    machines: dict[str, Machine] = {}
    manifests = []
    for versions in zip(*compiled, strict=True):
        current = [replace(kernel, ptx=ptx[kernel.arch]) for kernel in versions]
        before = (failure[0],) if failure else ()
        launches = _launches(versions[0], options)
        race = race_here(launches, lambda message: None, options.seed)
        record = optimize(current, chosen, rewriter, launches, failures=before, race=race)
        for each in record.architectures:
            ptx[each.arch], machines[each.arch] = selected(each)
        manifests.append(manifest_of(record))
    cubins = {arch: machine.cubin.bytes for arch, machine in machines.items()}
    return CompiledModule(cubins, ptx, {"kernels": manifests})


def _launches(kernel: Kernel, options: FlowOptions) -> tuple[Launch, ...]:
    given = options.examples.get(kernel.name)
    return () if given is None else examples.from_callable(given, with_arguments(kernel))


def selected(record: ArchitectureRecord) -> tuple[str, Machine]:
    """The module that was selected for an architecture, and its machine code."""
    if record.selection.variant != BASELINE:
        candidate = next(each for each in record.candidates if each.name == record.selection.variant)
        assert candidate.ptx is not None
        assert candidate.machine is not None
        return candidate.ptx, candidate.machine
    assert record.baseline is not None
    return record.baseline_ptx, record.baseline
