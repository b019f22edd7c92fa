"""Ten prompts, word for word. Who changes one on purpose raises TEMPLATE_VERSION, writes them again with

python -m tests.rewrite.test_golden_prompts

and has a model answer every recorded prompt again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc import sources
from hybridcc.asking import body_of, regions_of
from hybridcc.passes.rewrite import prompt

GOLDEN = Path(__file__).parent / "golden"
LONGEST = 12_000
"""Characters of a prompt at most, the region's own text aside."""


def golden(arch: str = "sm_90") -> dict[str, str]:
    """The prompt of each kernel's hottest region, or of the whole kernel where no part may be rewritten by itself."""
    found = {}
    for source in sources.load(str(GOLDEN / "kernels.py"), [arch]):
        (kernel,) = source.kernels
        eligible = [r for r in regions_of(kernel) if r.eligible] or [r for r in body_of(kernel) if r.eligible]
        text = prompt.build(eligible[0], kernel).text
        assert len(text) - len(eligible[0].text) <= LONGEST, kernel.name
        found[kernel.name] = text
    return found


@pytest.fixture(scope="module")
def prompts() -> dict[str, str]:
    return golden()


def test_there_are_ten(prompts: dict[str, str]) -> None:
    assert len(prompts) == 10
    assert {f"{name}.prompt.txt" for name in prompts} == {path.name for path in GOLDEN.glob("*.prompt.txt")}


def test_each_is_word_for_word_what_is_kept(prompts: dict[str, str]) -> None:
    for name, text in prompts.items():
        assert text == (GOLDEN / f"{name}.prompt.txt").read_text(), name


def test_architectures_share_a_prompt_where_their_figures_agree(prompts: dict[str, str]) -> None:
    older, newer = golden("sm_80"), golden("sm_86")
    assert older["conv1d"] == prompts["conv1d"], "as many registers and warps, and as fast at integers"
    assert newer["conv1d"] != prompts["conv1d"], "fewer warps, so more registers for each"
    assert older["block_sum"] != prompts["block_sum"], "it uses shared memory, of which there is more"


if __name__ == "__main__":
    for name, text in golden().items():
        (GOLDEN / f"{name}.prompt.txt").write_text(text)
