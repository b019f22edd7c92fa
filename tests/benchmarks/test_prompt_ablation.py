"""benchmarks/prompt_ablation.py: sections go one at a time, and answers are counted by the stage that they reached."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from hybridcc.passes.rewrite import Answer, Prompt
from hybridcc.passes.rewrite.recording import read

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "prompt_ablation.py"
RIGHT = next(
    r.answer
    for r in read(ROOT / "tests" / "rewrite" / "golden" / "kernels.answers.jsonl")
    if "0f3F800000" in r.answer and "add.s64 %y, %y, %bytes;" in r.answer
)
"""A model's answer to the golden prompt of gridstride."""
ANSWERS = (
    RIGHT,
    RIGHT,  # a copy reaches what the first one reaches
    "I would unroll it.",
    RIGHT.replace("%bytes, %x, %y;", "%bytes, %x;"),  # parses, and declares no %y
    RIGHT.replace("shl.b64 %bytes, %step, 2;", "shl.b64 %bytes, %step, 3;"),  # assembles, and skips every other element
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prompt_ablation", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    sys.path.insert(0, str(SCRIPT.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path.remove(str(SCRIPT.parent))
    return module


@dataclass
class Recites:
    label: str = "recites"
    asked: list[Prompt] = field(default_factory=list)

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        self.asked.append(prompt)
        return tuple(Answer(text, self.label) for text in ANSWERS[:count])


def test_a_section_is_left_out_and_answers_are_counted_by_stage(script: ModuleType) -> None:
    ((kernel, examples, body, whole),) = script.cases(["gridstride"])
    assert set(script.sections(whole)) >= {"ROLE", "FACTS", "PROFILE", "HARDWARE", "CONSTRAINTS", "EXAMPLES"}
    rewriter = Recites()
    counts = script.score(kernel, examples, body, script.Without(rewriter, "FACTS"), len(ANSWERS))
    assert counts == [5, 4, 3, 2]
    (asked,) = rewriter.asked
    assert "# FACTS" not in asked.text
    assert "# HARDWARE" in asked.text
    assert asked.hash != whole.hash
    assert script.without(whole, script.NOTHING).hash == whole.hash


def test_the_table_has_intervals_and_counts_every_answer(script: ModuleType) -> None:
    row = {"kernel": "k", "answers": 10, "parsed": 10, "assembled": 8, "verified": 5}
    lines = list(script.table([{"without": "nothing", **row}, {"without": "FACTS", **row, "verified": 0}]))
    assert lines[2] == "| nothing | 1 | 10 | 100 (72 to 100) | 80 (49 to 94) | 50 (24 to 76) |"
    assert lines[3].endswith("| 0 (0 to 28) |")


def test_prompts_are_exported_for_any_model(tmp_path: Path) -> None:
    out = tmp_path / "prompts.jsonl"
    words = [sys.executable, str(SCRIPT), "--export", str(out), "--only", "saxpy", "--samples", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert f"{len(lines)} prompts written" in done.stdout
    assert len({line["custom_id"] for line in lines}) == len(lines) == 7
