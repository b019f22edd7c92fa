"""A compiler in a child process, so that one that aborts cannot end the user's program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hybridcc.errors import InputError, ToolchainError
from hybridcc.runtime import toolchain

TIMEOUT_S = 120


def ask(script: str, request: dict[str, Any], *, tool: str, where: str) -> tuple[dict[str, Any], str]:
    """(answer, what the tool printed). ``script`` is a file of this folder that reads one JSON object and writes one.

    Raises ToolchainError when the child ends without an answer.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(Path(__file__).with_name(script))],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            env=toolchain.environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(
            f"{tool} did not finish within {TIMEOUT_S} s", where=where, next_step="simplify the module"
        ) from error
    if done.returncode != 0 or not done.stdout:
        how = f"by signal {-done.returncode}" if done.returncode < 0 else f"with exit status {done.returncode}"
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise ToolchainError(f"{tool} ended {how}: {last}", where=where, next_step="simplify the module")
    return json.loads(done.stdout), done.stderr


def read(path: Path, language: str) -> bytes:
    """A source file. Raises InputError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", where=str(path), next_step="check the path") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error}", where=str(path), next_step=f"give a file of {language}") from error
