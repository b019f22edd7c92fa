"""One kernel's build once its PTX is there, here or in a process of its own (``python -m hybridcc.build_job``)."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc import stages
from hybridcc.errors import DEBUG_VARIABLE, HybridccError, NoRule, debugging
from hybridcc.manifest import files_of, manifest_of, proof_seconds
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verify.launch import Launch
from hybridcc.pipeline import Options, Progress, optimize
from hybridcc.racing import race_here
from hybridcc.records import Failure, KernelRecord
from hybridcc.runtime import bundle
from hybridcc.shipping import shipped

if TYPE_CHECKING:
    from hybridcc.passes.rewrite import Answer, Prompt, Rewriter

Opened = tuple["Rewriter | None", "tuple[Failure, HybridccError] | None"]


@dataclass(frozen=True, slots=True)
class Extra:
    """Which files a bundle has beside its own, and whether it is one file itself. ``stages`` is a folder for what each
    stage gave, which is no part of the bundle."""

    fatbin: bool = False
    header: bool = False
    single_file: bool = False
    stages: Path | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """``place`` is where the bundle goes, ``rewriter`` the spec as it was asked for, ``key`` what it is made from."""

    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    options: Options
    extra: Extra
    rewriter: str
    place: Path
    key: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """``error`` is the rewriter's own, where it kept every prompt from being answered."""

    bundle: bundle.Bundle
    record: KernelRecord | None = None
    error: HybridccError | None = None


def run(job: Job, opened: Opened, progress: Progress) -> Done:
    """Optimize and write. Raises HybridccError for whatever keeps a baseline from being built."""
    begin = time.monotonic()
    rewriter, failure = opened
    asked = None if rewriter is None else _Listening(rewriter)
    race = race_here(job.launches, progress, job.options.seed)
    before = (failure[0],) if failure else ()
    options = _windowed(job.options, rewriter)
    record = optimize(job.kernels, options, asked, job.launches, progress, before, race)
    if job.extra.stages is not None:
        stages.dump(job.extra.stages, job.kernels, record, options)
    progress(f"{record.name}: writing")
    log = {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.monotonic() - begin, 3),
        "proofs": proof_seconds(record),
    }
    manifest, files = {**manifest_of(record), "key": dict(job.key)}, files_of(record)
    stem = job.place.name.removesuffix(".zip") if job.extra.single_file else job.place.name
    files |= shipped(manifest, files, stem, fatbin=job.extra.fatbin, header=job.extra.header)
    if job.extra.single_file:
        written = bundle.write_file(job.place, manifest, files)
    else:
        written = bundle.write(job.place, manifest, files, log)
    unanswered = asked.error if asked is not None and not asked.answered else None
    return Done(written, record, failure[1] if failure else unanswered)


def _windowed(options: Options, rewriter: Rewriter | None) -> Options:
    """What nobody asked for, the rewriter says of itself."""
    from hybridcc.passes.rewrite.rewriter import window_of

    return options if options.window is not None else replace(options, window=window_of(rewriter))


def open_or_failure(spec: str) -> Opened:
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


# --- in a process of its own ---

WORKER: tuple[str, ...] = (sys.executable, "-P", "-m", "hybridcc.build_job")


def run_apart(job: Job) -> Done:
    """The same in a child process. Raises what it raised, and HybridccError for a child that was ended."""
    import os

    from hybridcc.runtime.race_children import python_path

    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(WORKER, input=pickle.dumps(job), capture_output=True, env=environment, check=False)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        raise HybridccError(
            f"the process that built {job.kernels[0].name} ended with {how}{f': {said[-1]}' if said else ''}",
            next_step="build with -j 1",
        )
    told = json.loads(done.stdout)
    if told["failed"] is not None:
        raise _raised(told["failed"])
    return Done(bundle.load(job.place), None, None if told["error"] is None else _raised(told["error"]))


def main() -> None:
    answer = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is no part of the answer
    job = pickle.load(sys.stdin.buffer)
    told: dict[str, Any] = {"failed": None, "error": None}
    try:
        done = run(job, open_or_failure(job.rewriter), lambda message: None)
        told["error"] = None if done.error is None else _told(done.error)
    except HybridccError as error:
        told["failed"] = _told(error)
    json.dump(told, answer)
    answer.flush()


def _told(error: HybridccError) -> dict[str, Any]:
    from hybridcc.errors import code_of

    return {
        "code": code_of(error), "exit_code": error.exit_code, "what": error.what, "where": error.where,
        "next_step": error.next_step,
    }  # fmt: skip


def _raised(told: Mapping[str, Any]) -> HybridccError:
    """With the code and exit code of the error as it was: its class has a form of its own."""
    kind = type("Apart", (HybridccError,), {"code": told["code"], "exit_code": told["exit_code"]})
    return kind(told["what"], where=told["where"], next_step=told["next_step"])


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
        except NoRule:
            raise  # a reason for the record, and no failure of the rewriter
        except HybridccError as error:
            self.error = self.error or error
            raise
        self.answered += len(answers)
        return answers


def all_of(jobs: Sequence[Job], most: int, progress: Progress) -> list[Done]:
    """In as many processes at once, in the order given. The first failure is raised when the others have ended."""
    from concurrent.futures import ThreadPoolExecutor

    finished = 0

    def one(job: Job) -> Done:
        nonlocal finished
        done = run_apart(job)
        finished += 1
        progress(f"{finished} of {len(jobs)}: {job.kernels[0].name}")
        return done

    with ThreadPoolExecutor(most) as threads:
        futures = [threads.submit(one, job) for job in jobs]
    return [future.result() for future in futures]


if __name__ == "__main__":
    main()
