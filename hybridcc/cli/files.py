"""Reading and writing what the command line names; ``-`` is stdin or stdout."""

from __future__ import annotations

import sys
from pathlib import Path

from hybridcc.errors import InputError, OutputError


def read_text(path: str) -> tuple[str, str]:
    """(text, name to show). Raises InputError for a file that is missing, a folder, or not text."""
    if path == "-":
        return sys.stdin.read(), "<stdin>"
    try:
        return Path(path).read_text(encoding="utf-8"), path
    except FileNotFoundError:
        raise InputError("no such file", where=path, next_step="check the path") from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a file", where=path, next_step="name a file in it") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"not a text file (byte {error.start} is not UTF-8)", where=path, next_step="give PTX text"
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, next_step="check its permissions") from None


def write_text(path: str, text: str) -> None:
    """Raises OutputError for a place that cannot be written."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_bytes(path, text.encode())


def write_bytes(path: str, data: bytes) -> None:
    """Raises OutputError for a place that cannot be written."""
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise OutputError(
            f"cannot be written: {error.strerror}", where=path, next_step="choose a folder that you may write"
        ) from None
