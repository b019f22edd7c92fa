"""Writes docs/reference.md from the code: every verb with its options, every public name with its docstring.

`make reference` runs it; a test compares what it gives with what is committed.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import typer

import hybridcc
from hybridcc.cli import app
from hybridcc.cli.verbs import VERBS

PAGE = Path(__file__).with_name("reference.md")
HEAD = """# Reference

Made from the code by `make reference`; change the code, not this page.

The verbs exit with the codes of [exit-codes.md](exit-codes.md). The settings in the environment are listed at the end.

## Command line
"""
ENVIRONMENT = {
    "HYBRIDCC": "what `@hybridcc.jit` does: `on` (the default), `baseline` (`optimize` reports, the baseline runs), "
    "`off`, `execute` (launches run on the CPU, every access checked)",
    "HYBRIDCC_CACHE": "where decisions of races are kept, else `~/.cache/hybridcc`",
    "HYBRIDCC_DEBUG": "`1`: tracebacks are shown",
    "HYBRIDCC_PTXAS": "which ptxas `hybridcc-ptxas` calls",
    "HYBRIDCC_PTXAS_LOG": "a file to which `hybridcc-ptxas` adds a line for every kernel",
    "HYBRIDCC_PTXAS_SECONDS": "how long `hybridcc-ptxas` may take before it lets ptxas go on alone",
    "HYBRIDCC_REQUESTS_PER_MINUTE": "at most so many requests to an endpoint",
    "HYBRIDCC_REWRITER": "which rewriter `optimize` and `hybridcc-ptxas` ask",
    "HYBRIDCC_TOKEN_PRICES": "prices per million tokens read and written, for the manifest's account",
    "HYBRIDCC_TUNE": "`background`: kernels are optimized in a child process while the baseline serves",
    "OPENAI_API_KEY": "the key for an endpoint",
}


def page() -> str:
    """The whole page."""
    verbs = "\n".join(_verb(name) for name in VERBS)
    names = "\n".join(_public(name) for name in sorted(hybridcc._HOMES))
    settings = "\n".join(f"| `{name}` | {text} |" for name, text in ENVIRONMENT.items())
    table = f"## Environment\n\n| variable | what it sets |\n| --- | --- |\n{settings}\n"
    return f"{HEAD}\n{verbs}\n## Python\n\n{names}\n{table}"


def _verb(name: str) -> str:
    group = typer.main.get_command(app)
    command: Any = group.commands[name]  # type: ignore[attr-defined]
    if hasattr(command, "commands"):
        inside = "\n".join(_command(f"{name} {inner}", command.commands[inner]) for inner in command.commands)
        return f"### hybridcc {name}\n\n{_text(command.help)}\n\n{inside}"
    return _command(name, command)


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["hybridcc", name, *(p.name.upper() for p in arguments)])
    rows = [f"| `{p.name.upper()}` | {_text(p.help)} |" for p in arguments]
    rows += [f"| {_spelled(p)} | {_text(p.help)}{_default(p)} |" for p in options]
    table = "\n".join(["| argument or option | |", "| --- | --- |", *rows]) + "\n" if rows else ""
    return f"### {usage}\n\n{_text(command.help)}\n\n{table}"


def _spelled(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    default = getattr(option.default, "value", option.default)
    return f" Default: `{default}`." if isinstance(default, (str, int, float)) and default not in ("", False) else ""


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _public(name: str) -> str:
    found = getattr(hybridcc, name)
    signature = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "...", str(inspect.signature(found)).replace("'", ""))
    return f"### hybridcc.{name}\n\n```python\nhybridcc.{name}{signature}\n```\n\n{inspect.getdoc(found)}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
