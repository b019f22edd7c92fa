"""Verbs on PTX text alone: no toolchain, no GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from hybridcc.cli.files import read_text, write_text


def fmt(
    file: Annotated[str, typer.Argument(help="PTX file; - is stdin.")] = "-",
    out: Annotated[str, typer.Option("-o", "--out", help="Where to write; - is stdout.")] = "-",
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if the text would change.")] = False,
) -> None:
    """Print a PTX module in the one layout of hybridcc's printer."""
    text, name = read_text(file)
    from hybridcc.ptx import parse

    printed = str(parse(text, name=name))
    if not check:
        write_text(out, printed)
    elif printed != text:
        typer.echo(f"{name}: would change", err=True)
        raise typer.Exit(1)
