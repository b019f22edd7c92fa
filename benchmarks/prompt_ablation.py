"""Which sections of the prompt earn their place: the ten golden prompts, whole and with one section left out at a time.

    python benchmarks/prompt_ablation.py --export prompts.jsonl [--samples 4]  # the OpenAI batch format
    python benchmarks/prompt_ablation.py --rewriter replay:FILE --out ablation.jsonl [--samples 4]
    python benchmarks/prompt_ablation.py --table --out ablation.jsonl             # what was done, nothing asked

``--rewriter`` is what `hybridcc build` takes: a recording made of the exported prompts (`hybridcc answers import`), an
endpoint, or a local model. No feedback is given: the first answers are counted. One line of JSON for each section and
kernel, so that a run that was stopped goes on. Rates have Wilson's intervals at 95 % (scipy).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import ROOT, use_checkout

use_checkout()

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.rewrite import Answer, Prompt, Rewriter
    from hybridcc.records import CandidateRecord

GOLDEN = ROOT / "tests" / "rewrite" / "golden" / "kernels.py"
ARCH = "sm_90"
NOTHING = "nothing"
"""The whole prompt."""
KEPT = frozenset({"TASK", "REGION", "OUTPUT"})
"""Without these there is no question."""
STAGES = ("parsed", "assembled", "verified")

_SECTION = re.compile(r"^# ([A-Z]+)\n.*?(?=^# [A-Z]+\n|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Without:
    """A rewriter that is shown every prompt without one section."""

    inner: Rewriter
    section: str

    @property
    def label(self) -> str:
        return f"{self.inner.label}, without {self.section}"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        return self.inner.propose(without(prompt, self.section), count=count, seed=seed)


def without(prompt: Prompt, section: str) -> Prompt:
    """The prompt with that section left out, under the hash of what is left."""
    from hybridcc.passes.rewrite.prompt import of_text

    return of_text(_SECTION.sub(lambda found: "" if found[1] == section else found[0], prompt.text))


def sections(prompt: Prompt) -> tuple[str, ...]:
    """Those that can be left out, in order."""
    return tuple(found[1] for found in _SECTION.finditer(prompt.text) if found[1] not in KEPT)


def cases(only: list[str]) -> Iterator[tuple[Kernel, tuple[Any, ...], bool, Prompt]]:
    """(kernel, its example launches, whether its whole body is the region, its prompt)."""
    from hybridcc import sources
    from hybridcc.asking import body_of, regions_of
    from hybridcc.building import launches_of
    from hybridcc.passes.rewrite import prompt as prompts

    for source in sources.load(str(GOLDEN), [ARCH]):
        (kernel,) = source.kernels
        if only and kernel.name not in only:
            continue
        eligible = [region for region in regions_of(kernel) if region.eligible]
        (region, *_) = eligible or [region for region in body_of(kernel) if region.eligible]
        yield kernel, launches_of(source, None), not eligible, prompts.build(region, kernel)


def stage_of(candidate: CandidateRecord, others: dict[str, CandidateRecord]) -> int:
    """How many of STAGES an answer reached. A copy of another answer reached what that one did."""
    from hybridcc.selection import accepted

    if candidate.fate.code == "DUPLICATE":
        return stage_of(others[candidate.fate.detail.rpartition(" ")[2]], others)
    if candidate.evidence is not None and accepted(candidate.evidence.verdict, "tested"):
        return 3
    if candidate.machine is not None:
        return 2
    return 0 if candidate.fate.detail.startswith("answer: ") else 1


def score(kernel: Kernel, examples: tuple[Any, ...], body: bool, rewriter: Rewriter, samples: int) -> list[int]:
    """How many answers there were, and how many reached each stage."""
    from hybridcc.pipeline import optimize
    from hybridcc.records import DEFAULT_BUDGET
    from hybridcc.work import Options

    budget = replace(DEFAULT_BUDGET, rounds=0)
    once = Options("tested", "proved", "ablation", samples, regions=1, body=body, budget=budget)
    record = optimize((kernel,), once, rewriter, examples)
    failed = [f for f in record.failures if f.stage == "rewrite"]
    (here,) = record.architectures
    failed += [f for f in here.failures if f.stage == "rewrite"]
    if failed:
        raise SystemExit(f"{kernel.name}: {failed[0].code}: {failed[0].message}")
    by_name = {candidate.name: candidate for candidate in here.candidates}
    reached = [stage_of(candidate, by_name) for candidate in here.candidates]
    return [len(reached), *(sum(one > stage for one in reached) for stage in range(len(STAGES)))]


def export(path: Path, samples: int, only: list[str]) -> int:
    from hybridcc.passes.rewrite import batch

    asked = {
        prompt.hash: prompt
        for *_, whole in cases(only)
        for section in (NOTHING, *sections(whole))
        for prompt in (without(whole, section),)
    }
    return batch.export(list(asked.values()), path, samples=samples)


def run(given: argparse.Namespace) -> None:
    from hybridcc.passes.rewrite import open_rewriter

    rewriter = open_rewriter(given.rewriter)
    done = {(row["without"], row["kernel"]) for row in read(given.out)}
    for kernel, examples, body, whole in cases(given.only):
        for section in (NOTHING, *sections(whole)):
            if (section, kernel.name) in done:
                continue
            counts = score(kernel, examples, body, Without(rewriter, section), given.samples)
            row = {"without": section, "kernel": kernel.name, "answers": counts[0]}
            row |= dict(zip(STAGES, counts[1:], strict=True)) | {"rewriter": rewriter.label}
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(*row.values(), flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    from scipy.stats import binomtest

    yield "| left out | kernels | answers | " + " | ".join(f"{stage}, %" for stage in STAGES) + " |"
    yield "| --- " * 6 + "|"
    for section in dict.fromkeys(row["without"] for row in rows):
        those = [row for row in rows if row["without"] == section]
        answers = sum(row["answers"] for row in those)
        cells = []
        for stage in STAGES:
            reached = sum(row[stage] for row in those)
            if not answers:
                cells.append("-")
                continue
            low, high = binomtest(reached, answers).proportion_ci(method="wilson")
            cells.append(f"{100 * reached / answers:.0f} ({100 * low:.0f} to {100 * high:.0f})")
        yield f"| {section} | {len(those)} | {answers} | " + " | ".join(cells) + " |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--export", type=Path, metavar="JSONL", help="write the prompts, ask nobody")
    options.add_argument("--rewriter", default="", help="who is asked")
    options.add_argument("--samples", type=int, default=4, help="answers for each prompt")
    options.add_argument("--only", nargs="*", default=[], help="kernels")
    options.add_argument("--out", type=Path, default=Path("ablation.jsonl"))
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    if given.export is not None:
        print(f"{export(given.export, given.samples, given.only)} prompts written to {given.export}")
        return 0
    if not given.table:
        if not given.rewriter:
            options.error("name a --rewriter, or --export the prompts")
        run(given)
    print(*table(read(given.out)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
