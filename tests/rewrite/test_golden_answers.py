"""The recorded answers of a language model to the ten golden prompts, through the whole pipeline with no GPU."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybridcc.cli import app

GOLDEN = Path(__file__).parent / "golden"
RECORDING = GOLDEN / "kernels.answers.jsonl"
BODY = {"saxpy", "stencil"}
MENDED = ("saxpy", "stencil", "block_sum")
"""Whose first answer failed, and whose second, told why, is proved."""
OTHERS = ("conv1d", "colsum", "matmul_naive", "gridstride", "dot_rows", "nbody", "mandelbrot")
VERIFIED = 8


@dataclass(frozen=True)
class Answered:
    """The strongest verdict of an answer, and whether it came only after feedback."""

    verdict: str
    mended: bool


def built(name: str, folder: Path) -> Answered:
    options = ["--rewriter", f"replay:{RECORDING}", "--arch", "sm_90", "--select", "proved", "-o", str(folder)]
    options += ["--region", "body" if name in BODY else "loops"]
    done = CliRunner().invoke(app, ["build", f"{GOLDEN / 'kernels.py'}:{name}", *options])
    assert done.exit_code == 0, done.output
    manifest = json.loads((folder / name / "manifest.json").read_text())
    (here,) = manifest["architectures"]
    proved = [c for c in here["candidates"] if c["verdict"] and c["verdict"]["kind"] == "proved"]
    if not proved:
        return Answered("not proved", False)
    return Answered("proved", all(c["after"] for c in proved) and any(t["mended"] for t in manifest["learned"]))


@pytest.mark.parametrize("name", MENDED)
def test_an_answer_that_failed_is_mended_when_told_why(name: str, tmp_path: Path) -> None:
    assert built(name, tmp_path) == Answered("proved", True)


@pytest.mark.slow
def test_of_ten_golden_prompts_eight_are_answered_with_a_proved_rewrite(tmp_path: Path) -> None:
    found = {name: built(name, tmp_path) for name in (*MENDED, *OTHERS)}
    assert len(found) == 10
    assert sum(one.verdict == "proved" for one in found.values()) >= VERIFIED, found
    assert sum(one.mended for one in found.values()) >= 2, found
