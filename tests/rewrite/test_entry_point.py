"""Rewriters of other packages: found by their entry point, and failing like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc.errors import InputError, ModelError
from hybridcc.passes.rewrite import Sampling, open_rewriter
from tests.rewrite.made import prompt

MODULE = """
from hybridcc.passes.rewrite import Answer

class Echo:
    def __init__(self, rest, sampling):
        self.label = f"echo of {rest} at {sampling.temperature}"
    def propose(self, prompt, *, count, seed):
        return tuple(Answer(f"{prompt.hash} {seed + k}", self.label) for k in range(count))

def broken(rest, sampling):
    raise RuntimeError("no licence")

def nothing(rest, sampling):
    return object()
"""
POINTS = """[hybridcc.rewriters]
echo = hybridcc_echo:Echo
broken = hybridcc_echo:broken
nothing = hybridcc_echo:nothing
gone = hybridcc_gone:Echo
"""


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution, as pip leaves one."""
    info = tmp_path / "hybridcc_echo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hybridcc-echo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "hybridcc_echo.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_rewriter_of_another_package_is_opened_by_its_name() -> None:
    rewriter = open_rewriter("echo:some/where", Sampling(temperature=0.5))
    assert rewriter.label == "echo of some/where at 0.5"
    assert [a.text for a in rewriter.propose(prompt(), count=2, seed=3)] == [f"{prompt().hash} 3", f"{prompt().hash} 4"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("broken:x", "cannot be opened: RuntimeError: no licence"),
        ("nothing:x", "has no label"),
        ("gone:x", "cannot be opened: ModuleNotFoundError"),
    ],
)
def test_one_that_fails_is_a_model_that_cannot_be_used(spec: str, said: str) -> None:
    with pytest.raises(ModelError, match=said) as error:
        open_rewriter(spec)
    assert "mend or remove the package" in str(error.value)


def test_a_name_that_nobody_brings_is_told_those_that_are() -> None:
    with pytest.raises(InputError, match=r"installed besides: .*echo:"):
        open_rewriter("ekho:x")
