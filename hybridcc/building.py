"""``hybridcc build`` as a function: targets in, one bundle per kernel out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hybridcc import incremental
from hybridcc.build_job import Done, Extra, Job, Opened, all_of, open_or_failure, run
from hybridcc.errors import HybridccError, InputError, PolicyError
from hybridcc.passes.verify import examples as example_launches
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.launch import Launch
from hybridcc.pipeline import Options, Progress
from hybridcc.records import DEFAULT_BUDGET, Accept, Budget, KernelRecord, Select
from hybridcc.runtime import bundle, folder

if TYPE_CHECKING:
    from hybridcc.sources import Source

ARCHITECTURES = ("sm_80", "sm_86", "sm_90")
Require = Literal["proved", "measured"]
Inputs = str | Path | Callable[[], object] | None

__all__ = [
    "ARCHITECTURES", "Built", "Planned", "Request", "build", "carry_out", "check_required", "launches_of",
    "open_or_failure", "plan", "portable",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """One kernel's bundle. ``error`` is the rewriter's own, where it kept every prompt of this kernel from being
    answered; the bundle then holds the baseline. ``reused`` says that it was there already, made from the same."""

    made: KernelRecord | None
    bundle: bundle.Bundle
    error: HybridccError | None = None
    reused: bool = False

    @property
    def record(self) -> KernelRecord:
        """Of a kernel that was built in this process. Raises InputError for another."""
        if self.made is None:
            raise InputError(
                f"{self.bundle.name} was not built in this process",
                next_step="read .bundle.manifest, or build with fresh=True and jobs=1",
            )
        return self.made


@dataclass(frozen=True, slots=True)
class Request:
    """What ``build`` is asked for, as its documentation says; ``options`` has no rewriter yet."""

    targets: tuple[str, ...]
    place: Path
    architectures: tuple[str, ...]
    options: Options
    extra: Extra
    rewriter: str | None = None
    inputs: Inputs = None
    signature: str | None = None
    entry: str | None = None
    include: tuple[str | Path, ...] = ()
    instantiate: tuple[str, ...] = ()
    jobs: int = 1
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """What ``build`` would do for one kernel. ``state`` is new, changed or unchanged; ``why`` says what changed;
    ``regions`` counts those that a rewriter would be asked about on the first architecture."""

    kernel: str
    place: str
    architectures: tuple[str, ...]
    state: Literal["new", "changed", "unchanged"]
    why: tuple[str, ...]
    rewriter: str
    regions: int


def build(
    target: str | Path | Sequence[str | Path],
    out: str | Path = "out",
    *,
    arch: Sequence[str] = ARCHITECTURES,
    rewriter: str | None = None,
    accept: Accept = "proved",
    select: Select = "measured",
    inputs: Inputs = None,
    signature: str | None = None,
    entry: str | None = None,
    assembler: str = "nvjitlink",
    flags: Sequence[str] = (),
    ptxas: str | Path | None = None,
    answers: int = 4,
    budget: Budget = DEFAULT_BUDGET,
    seed: int = 0,
    body: bool = False,
    include: Sequence[str | Path] = (),
    instantiate: Sequence[str] = (),
    fatbin: bool = False,
    header: bool = False,
    minimise: int = 0,
    single_file: bool = False,
    window: int | None = None,
    jobs: int = 1,
    fresh: bool = False,
    dump_stages: str | Path | None = None,
    progress: Progress = lambda message: None,
) -> tuple[Built, ...]:
    """Compile, rewrite, check, assemble and select; write ``out/<kernel>/`` for every kernel of ``target``.

    ``target`` is a file of Python, PTX, MLIR, LLVM IR or CUDA C++, the name of a Python module, or several of these;
    ``file:name`` picks one kernel. ``rewriter`` is a spec as ``--rewriter`` takes it; None means the recording that
    ships beside the file, if any. ``inputs`` is a file or a callable that gives example launches; ``budget`` bounds the
    asking for each kernel; with ``body`` the whole kernel is the one region. ``flags`` and ``ptxas`` are the
    assembler's. ``include`` and ``instantiate`` are for CUDA C++. ``fatbin`` and ``header`` put a fatbin and a C header
    into each bundle; ``single_file`` makes it ``out/<kernel>.zip``. ``minimise`` is how many texts may be checked to
    reduce each winner to the edits that matter. Regions too long for ``window`` tokens are cut (None: for what the
    rewriter says of itself).

    ``dump_stages`` is a folder for what each stage gave (stages.py).

    A kernel whose bundle was made from the same (incremental.py) is not built again, unless ``fresh``. ``jobs`` build
    in as many processes; on a machine with a GPU one after another, so that races do not disturb each other.
    Raises HybridccError for what keeps a baseline from being built; what happens to rewrites is in the records.
    """
    options = Options(
        accept, select, "", answers, seed=seed, assembler=assembler if ptxas is None else "ptxas", budget=budget,  # type: ignore[arg-type]
        body=body, flags=tuple(flags), ptxas=None if ptxas is None else Path(ptxas), minimise=minimise, window=window,
    )  # fmt: skip
    stages = None if dump_stages is None else Path(dump_stages)
    targets = (target,) if isinstance(target, str | Path) else tuple(target)
    asked = Request(
        tuple(map(str, targets)), Path(out), tuple(arch), options, Extra(fatbin, header, single_file, stages),
        rewriter, inputs, signature, entry, tuple(include), tuple(instantiate), jobs, fresh or stages is not None,
    )  # fmt: skip
    return carry_out(asked, progress)


def carry_out(asked: Request, progress: Progress) -> tuple[Built, ...]:
    """As ``build``."""
    folder.check_writable(asked.place)
    found = _sources(asked, progress)
    _check_places(found, asked)
    opened: dict[str, Opened] = {}
    built: list[Built | Job] = []
    apart = asked.jobs > 1 and len(found) > 1 and _may_run_apart(found, asked)
    for source in found:
        job = _job(source, asked)
        held = None if asked.fresh else incremental.reusable(job.place, job.key)
        if held is not None:
            built.append(Built(None, _up_to_date(held, job), reused=True))
        elif apart:
            built.append(job)
        else:
            if job.rewriter not in opened:
                opened[job.rewriter] = open_or_failure(job.rewriter)
            built.append(_built(run(job, opened[job.rewriter], progress)))
    waiting = [each for each in built if isinstance(each, Job)]
    done = iter(all_of(waiting, asked.jobs, progress) if waiting else ())
    return tuple(_built(next(done)) if isinstance(each, Job) else each for each in built)


def plan(asked: Request, progress: Progress = lambda message: None) -> tuple[Planned, ...]:
    """What ``carry_out`` would do: kernels are compiled to PTX; nothing is asked, assembled or written."""
    from hybridcc.asking import body_of, regions_of

    planned = []
    for source in _sources(asked, progress):
        job = _job(source, asked)
        held = incremental.held_at(job.place)
        why = () if held is None else incremental.changed(held, job.key)
        if held is not None and not why:
            lasting = incremental.reusable(job.place, job.key) is not None
            why = ("fresh",) if asked.fresh else () if lasting else ("altered, or a failure or a clock decided",)
        first = source.kernels[0]
        regions = body_of(first) if job.options.body else regions_of(first, job.options.regions)
        state = "new" if held is None else "changed" if why else "unchanged"
        count = 0 if job.rewriter == "none" else sum(region.eligible for region in regions)
        archs = tuple(kernel.arch for kernel in source.kernels)
        planned.append(Planned(source.name, str(job.place), archs, state, why, job.options.rewriter, count))
    return tuple(planned)


def check_required(built: Iterable[Built], require: Require) -> None:
    """Raises PolicyError where a kernel ships, on any architecture, what was not ``proved`` to be the same as its
    baseline (a selected rewrite), or was not ``measured`` to be faster. A baseline is neither."""
    short = []
    for each in built:
        for entry in each.bundle.manifest["architectures"]:
            selection = entry["selection"]
            chosen = next((c for c in entry["candidates"] if c["name"] == selection["variant"]), None)
            proved = chosen is not None and (chosen["verdict"] or {}).get("kind") == "proved"
            met = proved if require == "proved" else chosen is not None and selection["measured"]
            if not met:
                short.append(f"{each.bundle.name} {entry['arch']}: {selection['reason']}")
    if short:
        lines = "".join(f"\n  {line}" for line in short)
        raise PolicyError(
            f"no {require} rewrite is selected for:{lines}",
            next_step="`hybridcc inspect` shows what became of each; or build without --require",
        )


def _sources(asked: Request, progress: Progress) -> tuple[Source, ...]:
    from hybridcc.sources import load

    found: list[Source] = []
    for each in asked.targets:
        progress(f"compiling {each}")
        found += load(
            _place_of(each), asked.architectures, signature=asked.signature, entry=asked.entry, include=asked.include,
            instantiate=asked.instantiate,
        )  # fmt: skip
    return tuple(found)


def _place_of(target: str) -> str:
    """The file of a module that is named (``package.kernels``, ``package.kernels:name``); a file as it is."""
    from importlib.util import find_spec

    module, colon, name = target.partition(":")
    dotted = all(part.isidentifier() for part in module.split("."))
    if not dotted or Path(module).exists() or Path(target).exists() or Path(module).suffix in (".py", ".ptx", ".cu"):
        return target
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return target
    return target if spec is None or not spec.origin else f"{spec.origin}{colon}{name}"


def _check_places(sources: Sequence[Source], asked: Request) -> None:
    """No two kernels in one place, and none in a place that somebody else filled. Raises InputError, OutputError."""
    seen: dict[Path, str] = {}
    for source in sources:
        own = _bundle_place(source.name, asked)
        if own in seen:
            raise InputError(
                f"two kernels are called {source.name}: in {seen[own]} and in {source.path}",
                next_step="build them into different folders, one after another",
            )
        seen[own] = source.path
        if not asked.extra.single_file:
            bundle.check_replaceable(own)


def _bundle_place(name: str, asked: Request) -> Path:
    stem = bundle.folder_name(name)
    return asked.place / (f"{stem}.zip" if asked.extra.single_file else stem)


def _job(source: Source, asked: Request) -> Job:
    from hybridcc.runtime import device

    spec = asked.rewriter if asked.rewriter is not None else _shipped(source)
    launches = launches_of(source, asked.inputs)
    own = replace(asked.options, rewriter=portable(spec))
    key = incremental.key_of(source.kernels, own, asked.extra, spec, launches, device.available())
    return Job(source.kernels, launches, own, asked.extra, spec, _bundle_place(source.name, asked), key)


def _up_to_date(held: bundle.Bundle, job: Job) -> bundle.Bundle:
    from hybridcc.pipeline import source_of
    from hybridcc.runtime import toolchain

    tools = {name: version for name, version in toolchain.versions().items() if version}
    return incremental.brought_up_to_date(held, source_of(job.kernels[0]), tools)


def _built(done: Done) -> Built:
    return Built(done.record, done.bundle, done.error)


def _may_run_apart(sources: Sequence[Source], asked: Request) -> bool:
    """Not beside a GPU, and not with a model that each process would load for itself."""
    from hybridcc.runtime import device

    specs = [asked.rewriter if asked.rewriter is not None else _shipped(source) for source in sources]
    return device.available() is None and not any(spec.startswith("transformers:") for spec in specs)


def launches_of(source: Source, inputs: Inputs) -> tuple[Launch, ...]:
    """The example launches that ``inputs`` gives, else those of the source itself, if any."""
    if inputs is None and source.examples is None:
        return ()
    kernel = with_arguments(source.kernels[0])
    if callable(inputs):
        return example_launches.from_callable(inputs, kernel)
    if inputs is not None:
        return example_launches.from_file(inputs, kernel)
    assert source.examples is not None
    return example_launches.from_callable(source.examples, kernel, source.path)


def _shipped(source: Source) -> str:
    from hybridcc.passes.rewrite import recording

    found = recording.beside(source.path)
    return f"replay:{found}" if found else "none"


def portable(spec: str) -> str:
    """The spec without folders: a manifest is the same wherever it was made."""
    kind, colon, rest = spec.partition(":")
    return f"{kind}:{Path(rest).name}" if colon and kind in ("replay", "transformers") else spec

