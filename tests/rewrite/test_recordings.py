"""The recordings that ship with the examples: each answers the very prompt that the tool exports today."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hybridcc import sources
from hybridcc.asking import prompts_of, regions_of
from hybridcc.passes.rewrite import TEMPLATE_VERSION, answer, recording
from hybridcc.passes.rewrite.rewriter import RECORDED
from hybridcc.passes.splice import splice
from hybridcc.ptx import parse
from hybridcc.runtime.assemble import assemble

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if "@hybridcc.jit" in path.read_text())
ARCHITECTURES = ["sm_80", "sm_86", "sm_90"]
HOW = "the template, the regions or the facts changed: export the prompts, have a model answer, import, commit both"


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def example(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_every_recording_matches_the_prompts_of_today(example: Path) -> None:
    path = recording.beside(example)
    assert path is not None, f"{example} ships no recording"
    held = recording.read(path)
    asked = {p.hash: p for s in sources.load(str(example), ARCHITECTURES) for p in prompts_of(s)}
    assert {r.prompt_hash for r in held} == set(asked), HOW
    assert {r.template_version for r in held} == {TEMPLATE_VERSION}, HOW
    for prompt_hash, prompt in asked.items():
        texts = {r.prompt for r in held if r.prompt_hash == prompt_hash} - {""}
        assert texts == {prompt.text}, "the recording keeps the prompt that was asked, once"


def test_a_recording_says_what_it_is(example: Path) -> None:
    path = recording.beside(example)
    assert path is not None
    for recorded in recording.read(path):
        assert recorded.kind == RECORDED
        assert recorded.model
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", recorded.date)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_recorded_answer_goes_all_the_way_to_machine_code(example: Path, arch: str) -> None:
    path = recording.beside(example)
    assert path is not None
    (source,) = sources.load(str(example), [arch])
    (kernel,) = source.kernels
    (region,) = [r for r in regions_of(kernel) if r.eligible]
    module = parse(kernel.ptx)
    for recorded in recording.read(path):
        rewrite = answer.check(recorded.answer, region, arch)
        cubin = assemble(splice(module, region, rewrite.text).text, arch)
        assert cubin.bytes
        assert cubin.spill_stores == 0


def test_an_example_compiled_second_and_elsewhere_finds_its_recording(example: Path, tmp_path: Path) -> None:
    """The counter in Numba's mangled names has moved on, and nothing is where it was."""
    folder = tmp_path / "somewhere else"
    folder.mkdir()
    for path in (example, recording.beside(example)):
        assert path is not None
        shutil.copy(path, folder)
    script = (
        "import sys\n"
        "from hybridcc.asking import prompts_of\n"
        "from hybridcc.passes.rewrite import open_rewriter, recording\n"
        "from hybridcc.sources import load\n"
        "first, second = sys.argv[1:]\n"
        "load(first, ['sm_90'])\n"
        "rewriter = open_rewriter(f'replay:{recording.beside(second)}')\n"
        "(source,) = load(second, ['sm_86'])\n"
        "for prompt in prompts_of(source):\n"
        "    print(len(rewriter.propose(prompt, count=8, seed=0)))\n"
    )
    other = next(path for path in EXAMPLES if path != example)
    run = subprocess.run(
        [sys.executable, "-c", script, str(other), str(folder / example.name)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    counts = [int(word) for word in run.stdout.split()]
    assert counts
    assert min(counts) >= 1
