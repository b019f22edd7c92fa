"""The drop-in itself. The last thing it does is to become ptxas, with the arguments, the input and the streams that it
was given; only a rewrite that was proved and that ptxas has assembled stands before that.

    HYBRIDCC_REWRITER        as ``--rewriter`` takes it; without it nothing is rewritten, and nothing is said
    HYBRIDCC_PTXAS           the ptxas to call; without it the one of NVIDIA's wheel
    HYBRIDCC_PTXAS_SECONDS   how long a rewrite may take, SECONDS without it
    HYBRIDCC_PTXAS_LOG       a file that gets one line of JSON for each input that was tried
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from hybridcc.dropin.command_line import STDIN, Command, Straight, read
from hybridcc.errors import HybridccError, InputError, ToolchainError, debugging

NAME = "hybridcc-ptxas"
REWRITER, PTXAS, SECONDS_VARIABLE, LOG = (
    "HYBRIDCC_REWRITER",
    "HYBRIDCC_PTXAS",
    "HYBRIDCC_PTXAS_SECONDS",
    "HYBRIDCC_PTXAS_LOG",
)
RUNNING = "HYBRIDCC_PTXAS_RUNNING"
"""Set for whoever is called from here: a ptxas that is this program again is not called a second time."""

SECONDS = 300.0
ASSEMBLY_S = 300.0
WORKER: tuple[str, ...] = (sys.executable, "-P", "-m", "hybridcc.dropin.worker")


def main() -> NoReturn:
    """The entry point of the ``hybridcc-ptxas`` script."""
    prefixed, arguments = _without_prefix(sys.argv[1:])
    real = prefixed or _find()
    try:
        with_rewrites(real, arguments)
    except KeyboardInterrupt:
        _die_of(signal.SIGINT)
    except Exception as error:
        note(f"passed through: {_first_line(error)}")
        if debugging():
            traceback.print_exc()
    become(real, arguments)


def with_rewrites(real: str, arguments: Sequence[str]) -> None:
    """Assemble a proved rewrite and end the process; return, after a note, where there is none."""
    rewriter = os.environ.get(REWRITER, "none")
    if rewriter in ("", "none") or os.environ.get(RUNNING):
        return
    command = read(arguments)
    if isinstance(command, Straight):
        if command.reason:
            note(f"passed through: {command.reason}")
        return
    ptx = _content(command.input)
    answer = _ask_worker(command, ptx, real, rewriter)
    for line in answer["notes"]:
        note(f"{command.input}: {line}")
    _log(command, answer)
    if answer["ptx"] is not None:
        _assemble(real, command, answer["ptx"])


def become(real: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by ptxas. Python had two signals ignored, and ptxas would inherit that."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(real, [real, *arguments], {**os.environ, RUNNING: "1"})
    except OSError as error:
        note(f"error: {real} cannot be run: {error.strerror}")
        sys.exit(127)


def note(text: str) -> None:
    if sys.stderr is not None:
        print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def _without_prefix(arguments: list[str]) -> tuple[str | None, list[str]]:
    """``nvcc --ptxas-prefix=hybridcc-ptxas`` puts this program before its own ptxas, as it would put ``time``."""
    first = arguments[0] if arguments else ""
    if os.path.basename(first) == "ptxas" and (found := shutil.which(first)) and not _is_this_program(found):
        return found, arguments[1:]
    return None, arguments


def _find() -> str:
    """The ptxas to call. Without one there is nothing to pass anything to."""
    named = os.environ.get(PTXAS)
    if named and not os.environ.get(RUNNING):
        found = shutil.which(named)
        if found and not _is_this_program(found):
            return os.path.abspath(found)
        note(f"{PTXAS} names no ptxas: {named}")
    from hybridcc.runtime.toolchain import find

    try:
        return str(find("ptxas").path)
    except ToolchainError as missing:
        for folder in os.get_exec_path():
            candidate = os.path.join(folder, "ptxas")
            if os.access(candidate, os.X_OK) and not _is_this_program(candidate) and not os.environ.get(RUNNING):
                return candidate
        note(f"error: there is no ptxas to call: {missing}\n  or name one in {PTXAS}")
        sys.exit(127)


def _is_this_program(path: str) -> bool:
    return os.path.exists(sys.argv[0]) and os.path.samefile(path, sys.argv[0])


def _content(name: str) -> str:
    """The input as text. Stdin is put back for ptxas to read; a pipe by any other name is left alone."""
    if name == STDIN:
        return _read_stdin().decode()
    mode = os.stat(name).st_mode
    if not stat.S_ISREG(mode):
        raise InputError(f"{name} is no regular file", next_step="give a file, or - for stdin")
    return Path(name).read_bytes().decode()


def _read_stdin() -> bytes:
    """All of stdin, which is then a file in memory that begins where stdin began."""
    copy = os.memfd_create("stdin")
    try:
        while piece := os.read(0, 1 << 20):
            while piece:
                piece = piece[os.write(copy, piece) :]
    finally:  # what was read is not lost, whatever stopped it
        os.lseek(copy, 0, os.SEEK_SET)
        os.dup2(copy, 0)
    return os.pread(0, os.fstat(0).st_size, 0)


def _ask_worker(command: Command, ptx: str, real: str, rewriter: str) -> dict[str, Any]:
    """What worker.improve returns. Raises HybridccError for a worker that failed, was killed or took too long."""
    seconds = float(os.environ.get(SECONDS_VARIABLE) or SECONDS)
    task = {
        "ptx": ptx,
        "name": command.input,
        "arch": command.arch,
        "flags": command.flags,
        "ptxas": real,
        "rewriter": rewriter,
        "seconds": seconds,
    }
    process = subprocess.Popen(
        WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": _python_path(), RUNNING: "1"},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(json.dumps(task).encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise HybridccError(
            f"no rewrite within {seconds:g} s", next_step=f"give more time with {SECONDS_VARIABLE}"
        ) from None
    finally:
        _kill_all_of(process)
    if process.returncode != 0:
        said = err.decode("utf-8", "replace").strip().splitlines()
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit status {process.returncode}"
        raise HybridccError(
            f"the worker ended with {how}{f': {said[-1]}' if said else ''}", next_step="report this with the PTX"
        )
    return json.loads(out)


def _kill_all_of(process: subprocess.Popen[bytes]) -> None:
    """The worker with its children (provers, assemblers), which share its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            stream.close()


def _python_path() -> str:
    """With the place where ``import hybridcc`` found it ahead, so that the worker finds the same."""
    import hybridcc

    root = str(Path(hybridcc.__file__).resolve().parents[1])
    return os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)


def _assemble(real: str, command: Command, ptx: str) -> None:
    """ptxas on the rewritten text; what it writes is ours to pass on once it succeeded."""
    done = subprocess.run(
        [real, *command.with_input(STDIN)], input=ptx.encode(), capture_output=True, timeout=ASSEMBLY_S, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HybridccError(
            f"ptxas did not take the rewritten PTX: {said[0] if said else done.returncode}",
            next_step="report this with the PTX",
        )
    for stream, data in ((1, done.stdout), (2, done.stderr)):
        _write_all(stream, re.sub(rb"\S*tmpxft\w*-\d+_stdin\b", lambda _: os.fsencode(command.input), data))
    sys.stdout.flush()
    os._exit(0)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _log(command: Command, answer: dict[str, Any]) -> None:
    place = os.environ.get(LOG)
    if not place:
        return
    entry = {"input": command.input, "arch": command.arch, "flags": command.flags, "kernels": answer["kernels"]}
    line = {**entry, "rewritten": answer["ptx"] is not None, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _write_all(descriptor, (json.dumps(line, sort_keys=True) + "\n").encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        note(f"{LOG} cannot be written: {error.strerror}")


def _first_line(error: Exception) -> str:
    if isinstance(error, HybridccError):
        return error.what.splitlines()[0]
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _die_of(number: signal.Signals) -> NoReturn:
    """As ptxas would have ended, so that a build stops."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
