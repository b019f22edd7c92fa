"""From an exception to one clear message and an exit code: a user never meets a traceback."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from hybridcc.errors import DEBUG_VARIABLE, HybridccError, code_of, debugging

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130


def guarded(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb with every failure turned into a message on stderr and a documented exit code.

    ``HYBRIDCC_DEBUG=1`` lets the traceback through.
    """

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except HybridccError as error:
            _show_traceback_if_asked()
            sys.stdout.flush()
            typer.echo(f"hybridcc: error [{code_of(error)}]: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:
            # The reader (head, less) has gone: nothing is wrong, and nothing more can be said to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("hybridcc: interrupted; nothing was left half-written", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError:
            typer.echo("hybridcc: error [MEMORY]: out of memory\n  next: use smaller inputs", err=True)
            raise typer.Exit(3) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            # The last net: a fault of hybridcc itself, said in one line with what to do about it.
            _show_traceback_if_asked()
            typer.echo(
                f"hybridcc: error [INTERNAL]: {type(error).__name__}: {error}\n"
                f"  next: run again with {DEBUG_VARIABLE}=1 and report the traceback, with the input",
                err=True,
            )
            raise typer.Exit(3) from None

    return run


def _show_traceback_if_asked() -> None:
    if debugging():
        raise  # called inside an except clause only
