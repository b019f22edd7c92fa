"""``hybridcc build`` as a function: targets in, one bundle per kernel out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hybridcc.errors import DEBUG_VARIABLE, HybridccError, debugging
from hybridcc.manifest import files_of, manifest_of, proof_seconds
from hybridcc.passes.verify import examples as example_launches
from hybridcc.passes.verify.bare import with_arguments
from hybridcc.passes.verify.launch import Launch
from hybridcc.pipeline import Options, Progress, optimize
from hybridcc.racing import race_here
from hybridcc.records import DEFAULT_BUDGET, Accept, Budget, Failure, KernelRecord, Select
from hybridcc.runtime import bundle, folder
from hybridcc.shipping import shipped

if TYPE_CHECKING:
    from hybridcc.passes.rewrite import Answer, Prompt, Rewriter
    from hybridcc.sources import Source

ARCHITECTURES = ("sm_80", "sm_86", "sm_90")


@dataclass(frozen=True, slots=True)
class Built:
    """One kernel's record and the bundle it was written to. ``error`` is the rewriter's own, where it kept every
    prompt of this kernel from being answered; the bundle then holds the baseline."""

    record: KernelRecord
    bundle: bundle.Bundle
    error: HybridccError | None = None


@dataclass(frozen=True, slots=True)
class Extra:
    """Which files a bundle has beside its own, and whether it is one file itself."""

    fatbin: bool = False
    header: bool = False
    single_file: bool = False


def build(
    target: str | Path,
    out: str | Path = "out",
    *,
    arch: Sequence[str] = ARCHITECTURES,
    rewriter: str | None = None,
    accept: Accept = "proved",
    select: Select = "measured",
    inputs: str | Path | Callable[[], object] | None = None,
    signature: str | None = None,
    entry: str | None = None,
    assembler: str = "nvjitlink",
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
    progress: Progress = lambda message: None,
) -> tuple[Built, ...]:
    """Compile, rewrite, check, assemble and select; write ``out/<kernel>/`` for every kernel of ``target``.

    ``target`` is a file of Python, PTX, MLIR, LLVM IR or CUDA C++; ``file:name`` picks one. ``rewriter`` is a spec
    as ``--rewriter`` takes it; None means the recording that ships beside the file, if any. ``inputs`` is a file or a
    callable that gives example launches; ``budget`` bounds the asking for each kernel; with
    ``body`` the whole kernel is the one region. ``include`` and ``instantiate`` are for CUDA C++. ``fatbin`` and
    ``header`` put a fatbin and a C header into each bundle; ``single_file`` makes it ``out/<kernel>.zip``;
    ``minimise`` is how many texts may be checked to reduce each winner to the edits that matter; regions too
    long for ``window`` tokens are cut (None: for what the rewriter says of itself).

    Raises HybridccError for what keeps a baseline from being built; what happens to rewrites is in the records.
    """
    from hybridcc.passes.rewrite.rewriter import window_of
    from hybridcc.sources import load

    place = Path(out)
    folder.check_writable(place)
    progress(f"compiling {target}")
    sources = load(str(target), arch, signature=signature, entry=entry, include=include, instantiate=instantiate)
    for source in sources:
        bundle.check_replaceable(place / bundle.folder_name(source.name))
    spec = rewriter if rewriter is not None else _shipped(sources)
    opened, failure = open_or_failure(spec)
    options = Options(
        accept, select, portable(spec), answers, seed=seed, assembler=assembler, budget=budget, body=body,  # type: ignore[arg-type]
        minimise=minimise, window=window if window is not None else window_of(opened),
    )  # fmt: skip
    extra = Extra(fatbin, header, single_file)
    return tuple(_one(source, place, options, opened, failure, inputs, extra, progress) for source in sources)


def _one(
    source: Source,
    place: Path,
    options: Options,
    rewriter: Rewriter | None,
    failure: tuple[Failure, HybridccError] | None,
    inputs: str | Path | Callable[[], object] | None,
    extra: Extra,
    progress: Progress,
) -> Built:
    begin = time.monotonic()
    launches = launches_of(source, inputs)
    asked = None if rewriter is None else _Listening(rewriter)
    before = (failure[0],) if failure else ()
    race = race_here(launches, progress, options.seed)
    record = optimize(source.kernels, options, asked, launches, progress, before, race)
    progress(f"{source.name}: writing")
    log = {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.monotonic() - begin, 3),
        "proofs": proof_seconds(record),
    }
    stem = bundle.folder_name(source.name)
    manifest, files = manifest_of(record), files_of(record)
    files |= shipped(manifest, files, stem, fatbin=extra.fatbin, header=extra.header)
    if extra.single_file:
        written = bundle.write_file(place / f"{stem}.zip", manifest, files)
    else:
        written = bundle.write(place / stem, manifest, files, log)
    unanswered = asked.error if asked is not None and not asked.answered else None
    return Built(record, written, failure[1] if failure else unanswered)


def launches_of(source: Source, inputs: str | Path | Callable[[], object] | None) -> tuple[Launch, ...]:
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


def _shipped(sources: Sequence[Source]) -> str:
    from hybridcc.passes.rewrite import recording

    found = recording.beside(sources[0].path) if sources else None
    return f"replay:{found}" if found else "none"


def portable(spec: str) -> str:
    """The spec without folders: a manifest is the same wherever it was made."""
    kind, colon, rest = spec.partition(":")
    return f"{kind}:{Path(rest).name}" if colon and kind in ("replay", "transformers") else spec


def open_or_failure(spec: str) -> tuple[Rewriter | None, tuple[Failure, HybridccError] | None]:
    """The rewriter, or why there is none: a model that cannot be used does not keep the baseline from being built."""
    from hybridcc.passes.rewrite import open_rewriter

    try:
        return open_rewriter(spec), None
    except HybridccError as error:
        return None, (Failure("rewriter", error.code, str(error)), error)
    except Exception as error:
        if debugging():
            raise
        fault = HybridccError(
            f"{type(error).__name__}: {error}", next_step=f"run again with {DEBUG_VARIABLE}=1 and report the traceback"
        )
        return None, (Failure("rewriter", fault.code, str(fault)), fault)


@dataclass(slots=True)
class _Listening:
    """A rewriter that remembers whether anything was answered, and the first failure."""

    inner: Rewriter
    answered: int = 0
    error: HybridccError | None = None

    @property
    def label(self) -> str:
        return self.inner.label

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        try:
            answers = self.inner.propose(prompt, count=count, seed=seed)
        except HybridccError as error:
            self.error = self.error or error
            raise
        self.answered += len(answers)
        return answers
