"""The loop: an answer that fails goes back with its failure, within budgets, with every rewriter alike."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hybridcc import sources
from hybridcc.errors import ModelError
from hybridcc.manifest import manifest_of
from hybridcc.passes.rewrite.feedback import Lesson, follow_up
from hybridcc.passes.rewrite.prompt import Prompt, of_text
from hybridcc.passes.rewrite.rewriter import Answer
from hybridcc.pipeline import Options, optimize
from hybridcc.records import ArchitectureRecord, Budget, KernelRecord
from hybridcc.runtime import bundle
from hybridcc.sources import Source
from tests.build.test_whole_path import KERNEL, SIGNATURE, hybridcc, pointer_walk
from tests.rewrite.made import prompt

RIGHT, WRONG, PROSE = pointer_walk(4), pointer_walk(4, last=1), "I would unroll the loop."
UNDECLARED = RIGHT.replace(".reg .pred %p;\n", "")


@dataclass
class Scripted:
    """A rewriter that answers the first prompt with ``first`` and every follow-up as ``then`` says."""

    first: tuple[str, ...]
    then: Callable[[Prompt], str | None] = lambda prompt: None
    asked: list[Prompt] = field(default_factory=list)
    label: str = "scripted"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        self.asked.append(prompt)
        texts = list(self.first) if not prompt.root else [self.then(prompt)]
        return tuple(Answer(t, "scripted", prompt_tokens=100, answer_tokens=10) for t in texts if t is not None)[:count]

    @property
    def follow_ups(self) -> list[Prompt]:
        return [p for p in self.asked if p.root]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("feedback") / "conv1d.py"
    path.write_text(KERNEL)
    (found,) = sources.load(str(path), ["sm_80", "sm_90"], signature=SIGNATURE)
    return found


def run(source: Source, rewriter: Scripted, architectures: int = 1, **budget: Any) -> KernelRecord:
    options = Options("tested", "proved", launches=24, budget=Budget(**budget))
    return optimize(source.kernels[:architectures], options, rewriter)


def fates(record: ArchitectureRecord) -> dict[str, str]:
    return {c.name: c.fate.code for c in record.candidates}


def test_a_follow_up_holds_the_prompt_the_answer_and_the_failure() -> None:
    base = prompt()
    first = Lesson("SYNTAX", "the code is no PTX\n  add %in0\n      ^^^^")
    asked = follow_up(base, "```ptx\nadd %in0\n```\n", first)
    assert asked.text.startswith(base.text.rstrip("\n"))
    for part in ("```ptx\nadd %in0\n```", "SYNTAX: the code is no PTX", "      ^^^^"):
        assert part in asked.text
    assert asked.root == base.hash
    assert of_text(asked.text) == asked
    again = follow_up(base, "x", Lesson("REFUTED", "y[0] differs"), (first,))
    assert "- SYNTAX: the code is no PTX" in again.text
    assert len({base.hash, asked.hash, again.hash}) == 3


def test_a_follow_up_speaks_in_the_rewriters_own_names() -> None:
    text = follow_up(prompt(), "x", Lesson("ASSEMBLY", "add.s64 %hcc0_p, $hcc12_END of _Z3fooPf_param_2")).text
    assert "add.s64 %p, $END of param2" in text


def test_an_answer_that_fails_is_mended_after_it_was_told_why(source: Source) -> None:
    rewriter = Scripted((WRONG,), lambda asked: RIGHT)
    record = run(source, rewriter)
    (architecture,) = record.architectures
    assert fates(architecture) == {"r0-0": "REFUTED", "r0-1": "UNMEASURED"}
    mended = architecture.candidates[1]
    assert (mended.round, mended.after) == (1, "r0-0")
    (asked,) = rewriter.follow_ups
    assert "REFUTED: y[0] is" in asked.text
    (told,) = record.told
    assert (told.about, told.code, told.answers, told.mended) == (0, "REFUTED", (1,), True)
    manifest = manifest_of(record)
    assert manifest["learned"][0]["mended"]
    assert manifest["usage"]["samples"] == 2
    assert manifest["usage"]["answer_tokens"] == 20
    assert [p["about"] for p in manifest["prompts"]] == [None, 0]


def test_each_failure_has_three_more_tries_and_each_try_its_own_reason(source: Source) -> None:
    answers = iter([UNDECLARED, "```ptx\nret;\n```", PROSE + PROSE, RIGHT])
    rewriter = Scripted((PROSE,), lambda asked: next(answers))
    record = run(source, rewriter)
    assert fates(record.architectures[0]) == {
        "r0-0": "SYNTAX",
        "r0-1": "UNDECLARED",
        "r0-2": "LEAVES",
        "r0-3": "SYNTAX",
    }
    assert [c.round for c in record.architectures[0].candidates] == [0, 1, 2, 3]
    first, second, third = (asked.text for asked in rewriter.follow_ups)
    assert "SYNTAX: the code is no PTX" in first
    assert "^" in first.partition("# WHAT IS WRONG")[2]
    assert "UNDECLARED: " in second
    assert "- SYNTAX: " in second
    assert "LEAVES: " in third
    assert "- UNDECLARED: " in third
    assert not any(told.mended for told in record.told)


def test_a_copy_of_an_answer_is_not_checked_again(source: Source) -> None:
    def renamed(asked: Prompt) -> str:
        return WRONG.replace("%px", "%pointer").replace("$MAIN", "$TOP")

    rewriter = Scripted((RIGHT, RIGHT.replace("%off", "%bytes"), WRONG), renamed)
    (architecture,) = run(source, rewriter, rounds=1).architectures
    assert fates(architecture) == {
        "r0-0": "UNMEASURED",
        "r0-1": "DUPLICATE",
        "r0-2": "REFUTED",
        "r0-3": "DUPLICATE",
    }
    assert architecture.candidates[1].fate.detail.endswith("r0-0")
    assert len(rewriter.follow_ups) == 1, "a copy of what passed needs no telling"


def test_a_copy_of_what_failed_is_told_so(source: Source) -> None:
    rewriter = Scripted((WRONG,), lambda asked: WRONG)
    run(source, rewriter, rounds=2)
    assert "you gave an answer that had failed already" in rewriter.follow_ups[1].text


def test_one_conversation_serves_every_architecture(source: Source) -> None:
    rewriter = Scripted((WRONG,), lambda asked: RIGHT)
    record = run(source, rewriter, architectures=2)
    assert [fates(a) for a in record.architectures] == [{"r0-0": "REFUTED", "r0-1": "UNMEASURED"}] * 2
    assert len(rewriter.asked) == 2
    assert [r.answers for a in record.architectures for r in a.regions] == [2, 2]


@pytest.mark.parametrize(
    ("budget", "asked", "spent"),
    [
        ({"rounds": 0}, 1, ""),
        ({"samples": 2}, 2, "2 answers"),
        ({"tokens": 150}, 2, "150 tokens"),
        ({"seconds": 0.0}, 0, "0 s"),
    ],
)
def test_budgets_end_the_asking_and_not_the_build(
    source: Source, budget: dict[str, Any], asked: int, spent: str
) -> None:
    rewriter = Scripted((PROSE,), lambda asked: PROSE)
    record = run(source, rewriter, **budget)
    assert len(rewriter.asked) == asked
    assert record.spent == spent
    assert record.architectures[0].selection.variant == "baseline"


def test_a_rewriter_that_dies_between_rounds_leaves_what_it_gave(source: Source) -> None:
    def die(asked: Prompt) -> str:
        raise ModelError("the server is gone", next_step="start it")

    record = run(source, Scripted((WRONG, RIGHT, PROSE), die))
    (architecture,) = record.architectures
    assert architecture.selection.variant == "r0-1"
    assert [(f.stage, f.code) for f in architecture.failures] == [("feedback", "MODEL")], "said once"
    assert record.spent == "the rewriter failed"


def test_a_recorded_session_of_two_rounds_replays(tmp_path: Path) -> None:
    """Prompts out, answers in, twice, as files; then the whole session from the recording."""
    kernel, recorded, out = tmp_path / "conv1d.py", tmp_path / "conv1d.answers.jsonl", tmp_path / "out"
    kernel.write_text(KERNEL)
    chosen = ("--signature", SIGNATURE)

    def answered(target: object, answer: str, *options: str) -> str:
        prompts, results = tmp_path / "prompts.jsonl", tmp_path / "results.jsonl"
        asked = hybridcc("prompts", target, *options, "-o", prompts)
        assert asked.returncode == 0, asked.stderr
        (line,) = map(json.loads, prompts.read_text().splitlines())
        results.write_text(json.dumps({"custom_id": line["custom_id"], "answer": answer}) + "\n")
        imported = hybridcc(
            "answers", "import", results, "--prompts", prompts, "--model", "by hand", "--append", "-o", recorded
        )
        assert imported.returncode == 0, imported.stderr
        return line["body"]["messages"][0]["content"]

    def build() -> bundle.Bundle:
        made = hybridcc("build", kernel, *chosen, "--arch", "sm_90", "--accept", "tested", "-o", out)
        assert made.returncode == 0, made.stderr
        return bundle.load(out / "conv1d")

    first = answered(kernel, WRONG, *chosen, "--arch", "sm_90")
    assert [c["fate"]["code"] for c in build().entry("sm_90")["candidates"]] == ["REFUTED"]
    second = answered(out / "conv1d", RIGHT)
    assert second.startswith(first.rstrip("\n"))
    assert "REFUTED: y[0] is" in second
    found = build()
    assert [(c["name"], c["after"]) for c in found.entry("sm_90")["candidates"]] == [("r0-0", ""), ("r0-1", "r0-0")]
    assert found.entry("sm_90")["candidates"][1]["verdict"]["kind"] == "tested"
    (told,) = found.manifest["learned"]
    assert told["mended"]
    nothing = hybridcc("prompts", out / "conv1d", "-o", tmp_path / "none.jsonl")
    assert "0 prompts written" in nothing.stdout
    assert "every answer" in nothing.stderr


def test_lines_of_a_recording_say_which_round_they_are_of(tmp_path: Path) -> None:
    from hybridcc.passes.rewrite import batch, recording

    asked = follow_up(prompt(), "x", Lesson("SYNTAX", "no"))
    batch.export([asked], tmp_path / "p.jsonl")
    (tmp_path / "r.jsonl").write_text(json.dumps({"custom_id": asked.hash, "answer": "a", "model": "m"}) + "\n")
    found = batch.import_answers(tmp_path / "r.jsonl", batch.read_prompts(tmp_path / "p.jsonl"), date="2026-01-02")
    recording.write(tmp_path / "k.answers.jsonl", found.answers)
    assert [r.root for r in recording.read(tmp_path / "k.answers.jsonl")] == [prompt().hash]


def test_asking_loads_nothing_heavy() -> None:
    script = (
        "import sys, hybridcc.passes.rewrite.feedback\n"
        "print([m for m in ('openai', 'torch', 'numba') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"
