"""The verbs are imported one by one, and the line that ``hybridcc --help`` has of each says what that verb says."""

import ast
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from hybridcc.cli import app
from hybridcc.cli.verbs import VERBS


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_introduces_itself_as_the_help_of_all_does(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    introduction = " ".join(shown.output.split("\n\n")[1].split())
    opening = " ".join(VERBS[name].summary.split()[:3]).rstrip(":,.")
    assert introduction.startswith(opening)


def test_help_imports_no_verb() -> None:
    code = (
        "import sys\nsys.argv = ['hybridcc', '--help']\nfrom hybridcc.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('hybridcc.')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    loaded = set(ast.literal_eval(shown.splitlines()[-1]))
    verbs = {f"hybridcc.cli.{verb.at.partition(':')[0]}" for verb in VERBS.values()}
    assert loaded
    assert not loaded & verbs
    for name, verb in VERBS.items():
        assert f"  {name} " in shown
        assert verb.summary in shown


def test_a_verb_that_is_not_there_is_answered_with_the_nearest() -> None:
    shown = CliRunner().invoke(app, ["buidl"])
    assert shown.exit_code == 2
    assert "'build'" in shown.output
