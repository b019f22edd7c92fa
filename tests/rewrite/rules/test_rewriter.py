"""The rules as a rewriter: what it says of itself, and a build with no model at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybridcc.cli import app
from hybridcc.errors import ModelError
from hybridcc.passes.rewrite import open_rewriter, prompt
from hybridcc.passes.rewrite.rewriter import RULES
from tests.rewrite.rules.test_counted import kernel

GOLDEN = Path(__file__).parents[1] / "golden"


def test_equal_prompts_give_equal_distinct_answers_that_say_rules() -> None:
    asked = prompt.build(kernel("conv1d").region, kernel("conv1d").kernel)
    rewriter = open_rewriter("rules")
    answers = rewriter.propose(asked, count=3, seed=0)
    assert len({a.text for a in answers}) == 3
    assert answers == rewriter.propose(asked, count=3, seed=7)
    assert answers[:1] == rewriter.propose(asked, count=1, seed=0)
    assert {a.kind for a in answers} == {RULES}
    assert all(a.model.startswith("rules: ") for a in answers)


def test_a_prompt_read_from_a_file_is_refused_with_what_to_do() -> None:
    asked = prompt.of_text(prompt.build(kernel("conv1d").region, kernel("conv1d").kernel).text)
    with pytest.raises(ModelError, match="--rewriter rules"):
        open_rewriter("rules").propose(asked, count=1, seed=0)


def test_a_build_with_rules_alone_is_proved(tmp_path: Path) -> None:
    options = ["--rewriter", "rules", "--answers", "1", "--arch", "sm_90", "--select", "proved", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, ["build", f"{GOLDEN / 'kernels.py'}:conv1d", *options])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "conv1d" / "manifest.json").read_text())
    (here,) = manifest["architectures"]
    assert [c["verdict"]["kind"] for c in here["candidates"]] == ["proved"]
    assert here["selection"]["variant"] == "r0-0"
    assert manifest["policy"]["rewriter"] == "rules"


def test_a_region_that_no_rule_knows_is_built_as_it_is_with_the_reason(tmp_path: Path) -> None:
    options = ["--rewriter", "rules", "--arch", "sm_90", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, ["build", f"{GOLDEN / 'kernels.py'}:mandelbrot", *options])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "mandelbrot" / "manifest.json").read_text())
    (here,) = manifest["architectures"]
    assert [(f["code"], f["message"].partition(":")[0]) for f in here["failures"]] == [("NO_RULE", "DATA_EXIT")]
    assert here["selection"]["variant"] == "baseline"
