"""Prompts of real kernels: one text for every process and folder, with all that a model needs in it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hybridcc import sources
from hybridcc.asking import prompts_of
from hybridcc.errors import ModelError
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Ineligible, Region, find
from hybridcc.passes.rewrite import prompt as prompts
from hybridcc.passes.rewrite.sections import scrub, without_declarations

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if "@hybridcc.jit" in p.read_text())
ARCHITECTURES = ("sm_80", "sm_86", "sm_90")


@pytest.fixture(scope="module", params=EXAMPLES)
def source(request: pytest.FixtureRequest) -> sources.Source:
    (found,) = sources.load(str(ROOT / "examples" / f"{request.param}.py"), ARCHITECTURES)
    return found


@pytest.fixture(scope="module")
def kernel(source: sources.Source) -> Kernel:
    return source.kernels[0]


@pytest.fixture(scope="module")
def region(kernel: Kernel) -> Region:
    return next(r for r in find(kernel) if r.eligible)


def by_section(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# ([A-Z]+)$(.*?)(?=^# [A-Z]+$|\Z)", text, re.MULTILINE | re.DOTALL))


def test_architectures_whose_figures_agree_share_a_prompt_and_others_differ_in_figures_alone(
    source: sources.Source,
) -> None:
    eighty, eighty_six, ninety = (prompts_of(replace(source, kernels=(kernel,))) for kernel in source.kernels)
    assert [p.hash for p in eighty] == [p.hash for p in ninety]
    assert len(prompts_of(source)) == len({p.hash for p in (*eighty, *eighty_six)})
    for one, other in zip(eighty, eighty_six, strict=True):
        mine, theirs = by_section(one.text), by_section(other.text)
        assert {name for name in mine if mine[name] != theirs[name]} == {"HARDWARE"}


def test_the_prompt_is_the_same_in_another_process_folder_and_place_in_the_file(
    source: sources.Source, tmp_path: Path
) -> None:
    name = Path(source.path).name
    copy = tmp_path / "another folder" / name
    copy.parent.mkdir()
    text = Path(source.path).read_text()
    copy.write_text(text.replace("import hybridcc\n", "import hybridcc\n\n# further down\n", 1))
    other = next(n for n in EXAMPLES if n != copy.stem)
    script = (
        "import sys; from hybridcc.sources import load; from hybridcc.asking import prompts_of\n"
        "load(sys.argv[1], ['sm_90'])\n"  # so that the counter in the mangled names has moved on
        "load(sys.argv[2], ['sm_86'])\n"
        "print(*[p.hash for s in load(sys.argv[2], ['sm_86']) for p in prompts_of(s)])\n"
    )
    arguments = [str(ROOT / "examples" / f"{other}.py"), str(copy)]
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    (here,) = (k for k in source.kernels if k.arch == "sm_86")
    assert run.stdout.split() == [p.hash for p in prompts_of(replace(source, kernels=(here,)))]


def test_nothing_of_one_machine_process_or_measurement_is_in_it(source: sources.Source) -> None:
    for kernel, found in zip(source.kernels, [prompts_of(source)] * 3, strict=True):
        for each in found:
            assert each.text.isascii()
            assert kernel.entry not in each.text
            assert not re.search(r"_Z\w|sm_\d|\.target|\.version|/home|/tmp", each.text)
            assert source.path not in each.text
            assert "- Estimated from the text, not measured: the region is hot" in each.text


def test_every_section_is_there_in_order(source: sources.Source) -> None:
    for each in prompts_of(source):
        heads = re.findall(r"^# (\w+)$", each.text, re.MULTILINE)
        assert heads == [
            "ROLE", "TASK", "REGION", "FACTS", "PROFILE", "HARDWARE", "CONSTRAINTS", "EXAMPLES", "OUTPUT",
        ]  # fmt: skip
        assert each.text.startswith(f"hybridcc rewrite prompt, template {prompts.TEMPLATE_VERSION}\n")
        assert "{{" not in each.text
        assert prompts.of_text(each.text) == replace(each, region="")


def test_interface_facts_and_loops_are_those_of_the_region(region: Region, kernel: Kernel) -> None:
    text = prompts.build(region, kernel).text
    assert without_declarations(region.text).strip() in text
    for k, port in enumerate(region.live_in):
        row = re.search(rf"^  %in{k} +{re.escape(port.type)} +(.*)$", text, re.MULTILINE)
        assert row is not None
        assert port.origin_note in row.group(1)
    for k, port in enumerate(region.live_out):
        assert re.search(rf"^  %out{k} +{re.escape(port.type)}", text, re.MULTILINE)
    assert region.facts
    for fact in region.facts:
        assert f"  {fact}  [{fact.origin.value}]\n" in text
    for label in re.findall(r"^  (\$L\d+): \d+ instructions", text, re.MULTILINE):
        assert f"{label}:\n" in region.text
    assert "carries %out0 (.f32)" in text


def test_facts_and_weight_are_in_the_hash_and_a_little_of_the_share_is_not(region: Region, kernel: Kernel) -> None:
    asked = prompts.build(region, kernel)
    assert prompts.build(replace(region, share=region.share - 0.001), kernel).hash == asked.hash
    assert prompts.build(replace(region, share=0.123), kernel).hash != asked.hash
    assert prompts.build(replace(region, facts=region.facts[1:]), kernel).hash != asked.hash
    assert prompts.build(replace(region, weight="warm"), kernel).hash != asked.hash


def test_a_region_that_must_not_be_rewritten_has_no_prompt(region: Region, kernel: Kernel) -> None:
    refused = replace(region, text="", ineligible=Ineligible("CALL", "it calls a function"))
    with pytest.raises(ModelError, match="it calls a function"):
        prompts.build(refused, kernel)


def test_mangled_names_are_not_repeated() -> None:
    assert scrub("data pointer of _ZN8__main__6conv1dB2v7B92cw51_param_11") == "data pointer of param11"
    assert scrub("variable _ZN08NumbaEnv8__main__6conv1dB2v7") == "variable symbol"
    assert scrub("x.shape[0]") == "x.shape[0]"
