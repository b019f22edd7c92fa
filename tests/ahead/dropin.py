"""The drop-in and ptxas side by side, each in a folder of its own with the same arguments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hybridcc.runtime.toolchain import find

ROOT = Path(__file__).parents[2]
DROPIN = (sys.executable, "-m", "hybridcc.dropin")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: bytes
    err: bytes
    files: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


def ptxas(folder: Path, *arguments: str, stdin: bytes | None = None) -> Outcome:
    return outcome([str(find("ptxas").path), *arguments], folder, {}, stdin)


def dropin(
    folder: Path,
    *arguments: str,
    stdin: bytes | None = None,
    command: Sequence[str] = DROPIN,
    **variables: str,
) -> Outcome:
    """Variables are given in lower case and without ``HYBRIDCC_``."""
    named = {f"HYBRIDCC_{name.upper()}": value for name, value in variables.items()}
    return outcome([*command, *arguments], folder, named, stdin)


def outcome(command: Sequence[str], folder: Path, variables: Mapping[str, str], stdin: bytes | None) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    before = {path.name for path in folder.iterdir()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HYBRIDCC_")}
    environment |= {"PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300, input=stdin or b"")
    lines = done.stderr.splitlines(keepends=True)
    notes = tuple(line.decode().strip() for line in lines if line.startswith(b"hybridcc-ptxas: "))
    said = b"".join(line for line in lines if not line.startswith(b"hybridcc-ptxas: "))
    assert b"Traceback" not in said
    made = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in before}
    return Outcome(done.returncode, _steady(done.stdout), _steady(said), made, notes)


def _steady(said: bytes) -> bytes:
    """Without process numbers and times."""
    return re.sub(rb"tmpxft_\w+-\d+_stdin|= [\d.]+ ms", b"", said)


def same(one: Outcome, other: Outcome) -> bool:
    """Whether nobody but a reader of notes can tell them apart."""
    return (one.code, one.out, one.err, one.files) == (other.code, other.out, other.err, other.files)
