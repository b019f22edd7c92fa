"""The command line: verbs over files, stdin and stdout. Each verb is one function in a module beside this, and its
line of `hybridcc.cli.verbs.VERBS`.

Nothing heavy is imported before a verb runs, so that ``hybridcc --help`` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hybridcc import __version__
from hybridcc.cli.verbs import LazyGroup

app = typer.Typer(
    name="hybridcc",
    cls=LazyGroup,
    help="Make GPU kernels faster: a language model proposes PTX, checks decide, the fastest verified cubin runs.",
    epilog="Exit codes: 0 done, 1 policy violated, 2 bad usage or input, 3 toolchain or device failure, "
    "4 unknown or inconclusive where an answer was required, 125 untestable (git bisect), 130 interrupted.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # rich would double the time of --help
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"hybridcc {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options of every verb."""


def main() -> None:
    """The entry point of the ``hybridcc`` script."""
    app()
