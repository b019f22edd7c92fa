"""What a verb writes to: results on stdout, progress and failures on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from hybridcc.errors import HybridccError


def stdout_console() -> Console:
    """rich reads NO_COLOR and COLUMNS itself; a pipe gets plain text, and lines wide enough not to fold tables."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """rich itself would end the process with exit code 1; ``guard.py`` knows that nothing is wrong."""
            raise BrokenPipeError

    return Output(highlight=False) if sys.stdout.isatty() else Output(highlight=False, width=_piped_width())


def _piped_width() -> int:
    import os

    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) > 0 else 120


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being done, while it is being done; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda message: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("") as status:
        yield lambda message: status.update(message)


def stderr_message(error: HybridccError, lead: str = "") -> None:
    """The one message of a failure, as every verb gives it."""
    typer.echo(f"hybridcc: error [{error.code}]: {lead + ': ' if lead else ''}{error}", err=True)
