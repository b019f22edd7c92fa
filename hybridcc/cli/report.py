"""``hybridcc report``: what a build, a folder of builds, or a run of the benchmark came to, in any format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hybridcc.cli.files import write_text


class Format(StrEnum):
    terminal = "terminal"
    markdown = "markdown"
    json = "json"
    html = "html"


def report(
    target: Annotated[str, typer.Argument(help="A bundle, a folder of bundles, or a result of the benchmark (.json).")],
    format_: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.terminal,
    out: Annotated[str | None, typer.Option("-o", "--out", help="A file in place of standard output.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Everything, also on the terminal.")] = False,
) -> None:
    """Show what was selected and why: verdicts, speeds, diffs, prompts and the fate of every answer."""
    from hybridcc.report.read import read
    from hybridcc.report.render import render

    text = render(read(Path(target)), format_.value, explain=explain)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(f"{out} written", err=True)
