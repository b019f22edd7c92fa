"""All cases built, in processes of their own: judging an answer takes a processor for seconds."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.suite import built_file
from benchmarks.suite.building import Built, build
from benchmarks.suite.case import load

NONE = "none"


def build_all(
    names: Sequence[str],
    arch: str,
    rewriter: str,
    *,
    jobs: int,
    seconds: float,
    samples: int,
    progress: Callable[[str], None],
) -> tuple[dict[str, Built], dict[str, str]]:
    """(what was built by name, why some could not be). A case that is not judged after so many seconds is built without
    answers, which its ``failures`` say."""
    deadline = time.monotonic() + seconds
    found: dict[str, Built] = {}
    failed: dict[str, str] = {}
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(names))) as pool:
        pending = {name: pool.apply_async(_one, (name, arch, rewriter, samples)) for name in names}
        while pending and time.monotonic() < deadline:
            time.sleep(0.05)
            for name in [name for name, result in pending.items() if result.ready()]:
                _take(name, pending.pop(name), found, failed)
                progress(f"{name}: {_told(name, found, failed)}")
    for name in pending:
        progress(f"{name}: not judged after {seconds:.0f} s, built without answers")
        try:
            bare = build(load(name), arch, rewriter=NONE)
        except Exception as error:  # as in the processes: one case must not take the others with it
            failed[name] = f"{type(error).__name__}: {error}"
        else:
            found[name] = replace(bare, failures=(f"build: TIME: its answers were not judged in {seconds:.0f} s",))
    return {name: found[name] for name in names if name in found}, failed


def read_all(names: Sequence[str], folder: Path) -> tuple[dict[str, Built], dict[str, str]]:
    """What lies in a folder that ``build`` wrote. Raises InputError for a file that cannot be read."""
    present = {name: folder / f"{name}.json" for name in names}
    found = {name: built_file.read(path) for name, path in present.items() if path.exists()}
    return found, {name: f"no {name}.json in {folder}" for name in names if name not in found}


def _one(name: str, arch: str, rewriter: str, samples: int) -> Built:
    return build(load(name), arch, rewriter=rewriter, samples=samples)


def _take(name: str, result: Any, found: dict[str, Built], failed: dict[str, str]) -> None:
    try:
        found[name] = result.get()
    except Exception as error:  # whatever a process raises is that case's failure, and is reported as such
        failed[name] = f"{type(error).__name__}: {error}"


def _told(name: str, found: dict[str, Built], failed: dict[str, str]) -> str:
    if name in failed:
        return f"FAILED: {failed[name].splitlines()[0]}"
    built = found[name]
    verdicts = [variant.verdict for variant in built.variants]
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in sorted(set(verdicts))) or "nothing passed"
    return f"{built.answers} answers, {counts} ({built.seconds} s)"
