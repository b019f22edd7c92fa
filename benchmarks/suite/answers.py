"""The suite's recordings: which prompts its kernels have, which of them are answered, and how answers come in.

``kernels/<name>.answers.jsonl`` lies where ``hybridcc build kernels/<name>.py`` looks for it too. The examples'
recordings count as well: some kernels are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.suite.case import FOLDER, Case, load
from hybridcc.passes.rewrite import recording
from hybridcc.passes.rewrite.recording import Recorded

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite import Prompt, Rewriter

RECORDED = "recorded"
"""The rewriter that gives what the suite's recordings hold."""

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt and the kernel that it is about."""

    kernel: str
    prompt: Prompt


def regions_of(kernel: Kernel) -> tuple[tuple[Region, ...], bool]:
    """What is asked about, and whether it is the whole kernel: where no hot part may be rewritten by itself."""
    from hybridcc import asking

    found = tuple(region for region in asking.regions_of(kernel) if region.eligible)
    if found:
        return found, False
    return tuple(region for region in asking.body_of(kernel) if region.eligible), True


def compiled(case: Case, arch: str = "sm_90") -> Kernel:
    from hybridcc.frontends import numba

    return numba.compile(case.kernel, case.kernel.signatures[0], arch)


def prompts_of(case: Case) -> tuple[Asked, ...]:
    from hybridcc.passes.rewrite import prompt

    kernel = compiled(case)
    regions, _ = regions_of(kernel)
    return tuple(Asked(case.name, prompt.build(region, kernel)) for region in regions)


def held() -> dict[str, tuple[Recorded, ...]]:
    """All recorded answers, by the hash of their prompt. Raises ModelError for a recording that cannot be read."""
    found: dict[str, tuple[Recorded, ...]] = {}
    for path in (*sorted(FOLDER.glob(f"*{recording.SUFFIX}")), *sorted(EXAMPLES.glob(f"*{recording.SUFFIX}"))):
        for answer in recording.read(path):
            found[answer.prompt_hash] = (*found.get(answer.prompt_hash, ()), answer)
    return found


def rewriter(spec: str) -> Rewriter:
    """``recorded``, or whatever ``hybridcc build --rewriter`` takes. Raises InputError and ModelError as that does."""
    from hybridcc.passes.rewrite import open_rewriter
    from hybridcc.passes.rewrite.replay import ReplayRewriter

    return ReplayRewriter(f"suite{recording.SUFFIX}", held()) if spec == RECORDED else open_rewriter(spec)


def unanswered(names: Sequence[str], *, everything: bool = False) -> tuple[Asked, ...]:
    """The prompts of these kernels that have no answer yet, or all of them."""
    known = held()
    found = (asked for name in names for asked in prompts_of(load(name)))
    return tuple(asked for asked in found if everything or asked.prompt.hash not in known)


def take_in(
    results: str | Path, prompts: str | Path, names: Sequence[str], date: str, model: str, folder: Path = FOLDER
) -> list[str]:
    """Add answers to the recordings of their kernels; a line for each recording and for each result that was left
    out. ``results`` and ``prompts`` are files as `hybridcc answers import` takes them. Raises ModelError."""
    from hybridcc.passes.rewrite import batch

    brought = batch.import_answers(results, batch.read_prompts(prompts), date=date, model=model)
    told = list(brought.skipped)
    by_hash = {asked.prompt.hash: asked.kernel for name in names for asked in prompts_of(load(name))}
    for kernel in sorted({by_hash[root_of(a)] for a in brought.answers if root_of(a) in by_hash}):
        new = [answer for answer in brought.answers if by_hash.get(root_of(answer)) == kernel]
        told.append(f"{len(new)} answers for {kernel}: {_append(folder / f'{kernel}{recording.SUFFIX}', new)}")
    strange = [answer for answer in brought.answers if root_of(answer) not in by_hash]
    told += [f"{answer.prompt_hash[:12]}: no kernel has this prompt now" for answer in strange]
    return told


def root_of(answer: Recorded) -> str:
    """The hash of the prompt that the conversation began with."""
    return answer.root or answer.prompt_hash


def _append(path: Path, answers: Iterable[Recorded]) -> str:
    kept = recording.read(path) if path.exists() else ()
    known = {(answer.prompt_hash, answer.answer) for answer in kept}
    recording.write(path, (*kept, *(a for a in answers if (a.prompt_hash, a.answer) not in known)))
    return path.name
