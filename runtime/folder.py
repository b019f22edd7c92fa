"""Put a folder of files in place at once: whoever looks sees the old folder or the new one, never a part."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hybridcc.errors import OutputError

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_AT_FDCWD = -100
_MARK = ".hybridcc-"
"""In the names of what is swept away: nobody else's."""


def replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files`` (relative path -> bytes) as the whole content of ``target``.

    The files are written and flushed to a hidden sibling, which then takes the target's name in one step. A kill
    leaves at most that sibling, which the next call sweeps away once its process is gone. Raises OutputError.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_dir():
            raise OutputError("is a file, not a folder", where=str(target), next_step="name another folder with -o")
        _sweep(target)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}{_MARK}{os.getpid()}.", dir=target.parent))
        try:
            _fill(staging, files)
            _put_in_place(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise _not_writable(error, target) from None


def replace_file(target: Path, content: bytes) -> None:
    """The same for one file. Raises OutputError."""
    partial = target.with_name(f".{target.name}{_MARK}{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise _not_writable(error, target) from None


def check_writable(folder: Path) -> None:
    """Raise OutputError now rather than after minutes of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".probe{_MARK}", dir=folder) as probe:
            (Path(probe) / "probe").write_bytes(b"")
    except OSError as error:
        raise _not_writable(error, folder) from None


def _not_writable(error: OSError, target: Path) -> OutputError:
    return OutputError(
        f"cannot be written: {error.strerror or error}",
        where=str(error.filename or target),
        next_step="choose a folder that you may write, with -o",
    )


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.chmod(0o755)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())


def _put_in_place(staging: Path, target: Path) -> None:
    for _ in range(3):
        if target.exists() and _exchange(staging, target):
            return
        if target.exists():
            # No exchange on this file system: between these two steps the target is absent, never partial.
            aside = staging.with_name(staging.name + ".old")
            target.rename(aside)
            staging.rename(target)
            shutil.rmtree(aside, ignore_errors=True)
            return
        with contextlib.suppress(FileExistsError):
            staging.rename(target)
            return
    raise OSError(f"{target} kept changing while it was replaced")


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step (Linux 3.15; not every file system); False where that cannot be done."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0


def _sweep(target: Path) -> None:
    """Remove what killed processes left beside ``target``."""
    prefix = f".{target.name}{_MARK}"
    for stale in target.parent.iterdir():
        owner = stale.name.removeprefix(prefix).split(".")[0] if stale.name.startswith(prefix) else ""
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(stale, ignore_errors=True)
