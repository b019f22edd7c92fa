"""The documentation says what the code says: the reference, the guides' commands, the links."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer

from hybridcc.cli import app
from hybridcc.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
COMMANDS = sorted(
    {
        (page.name, line)
        for page in DOCS.glob("guide-*.md")
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
        if line
    }
)


def reference():
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_that_of_the_code() -> None:
    assert reference().page() == (DOCS / "reference.md").read_text(), "run `make reference`"


def test_every_setting_of_the_environment_is_in_the_reference() -> None:
    text = "".join(
        path.read_text()
        for folder in ("hybridcc", "passes", "runtime", "frontends")
        for path in (ROOT / folder).rglob("*.py")
    )
    read = set(re.findall(r"\"(HYBRIDCC(?:_[A-Z]+)*)\"", text)) - {"HYBRIDCC_PTXAS_RUNNING"}  # its own, for its child
    assert read | {"OPENAI_API_KEY"} == set(reference().ENVIRONMENT)


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_guide_shows_commands_that_there_are(page: str, line: str) -> None:
    program, verb, *words = shlex.split(line)
    assert program == "hybridcc"
    assert verb in VERBS
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    command.make_context(verb, words, resilient_parsing=False)
    for word in words:
        if "/" in word and not word.startswith(("out", "-")):
            assert (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|^ {4}.*?$|`[^`]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
