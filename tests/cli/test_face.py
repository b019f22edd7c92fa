"""What a user meets first: the import, the help, the way failures are told."""

import subprocess
import sys

import pytest
import typer

from hybridcc.cli.guard import guarded
from hybridcc.errors import InputError, NoDevice, PolicyError

HEAVY = ("numpy", "numba", "networkx", "scipy", "torch", "rich", "typer", "jinja2", "cuda", "openai")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


def test_import_loads_no_heavy_library():
    code = f"import sys, hybridcc; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"


def test_help_loads_no_heavy_library():
    code = (
        "import sys\nsys.argv = ['hybridcc', '--help']\nimport hybridcc.cli\n"
        "try: hybridcc.cli.main()\nexcept SystemExit: pass\n"
        f"print([m for m in {[h for h in HEAVY if h != 'typer']!r} if m in sys.modules])"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "[]"


def test_unknown_attribute_is_named():
    import hybridcc

    with pytest.raises(AttributeError, match="'hybridcc' has no attribute 'jitt'"):
        _ = hybridcc.jitt
    assert {"jit", "build", "execute"} <= set(dir(hybridcc))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad", where="x.py:3", next_step="mend it"), 2),
        (NoDevice("no GPU", where="here", next_step="go elsewhere"), 3),
        (PolicyError("refuted", where="k", next_step="look at the report"), 1),
    ],
)
def test_every_known_error_is_one_message_with_its_exit_code(error, code, capsys):
    def verb() -> None:
        raise error

    with pytest.raises(typer.Exit) as exit_info:
        guarded(verb)()
    assert exit_info.value.exit_code == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"hybridcc: error [{error.code}]: {error}\n"
    assert error.next_step in told.err


def test_an_unexpected_exception_is_one_line_and_how_to_report(capsys, monkeypatch):
    def verb() -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.delenv("HYBRIDCC_DEBUG", raising=False)
    with pytest.raises(typer.Exit) as exit_info:
        guarded(verb)()
    assert exit_info.value.exit_code == 3
    told = capsys.readouterr().err
    assert "ZeroDivisionError: boom" in told
    assert "HYBRIDCC_DEBUG=1" in told
    assert "Traceback" not in told

    monkeypatch.setenv("HYBRIDCC_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        guarded(verb)()


def test_bad_usage_is_exit_code_2():
    run = python("-m", "hybridcc", "no-such-verb")
    assert run.returncode == 2
    assert "no-such-verb" in run.stderr
    assert python("-m", "hybridcc", "fmt", "no-such-file.ptx").returncode == 2
