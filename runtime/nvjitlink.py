"""nvJitLink behind a process boundary: its failures come back as answers, also when it ends its process."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hybridcc.errors import ToolchainError
from hybridcc.runtime import toolchain


@dataclass(frozen=True, slots=True)
class Answer:
    """``result`` is nvJitLink's code, 0 for success; ``stage`` is how far it came ("ended": the process died)."""

    result: int
    stage: str
    log: str
    code: bytes


def link(options: list[str], ptx: bytes, *, timeout_s: float) -> Answer:
    """Assemble ``ptx``. Raises ToolchainError only when nvJitLink is missing or its process cannot be started."""
    with _borrowed() as worker:
        return worker.ask(options, ptx, timeout_s)


class _Worker:
    """One child. It is used by one thread at a time and never again after it failed to answer."""

    def __init__(self) -> None:
        library = toolchain.find("nvjitlink").path
        script = Path(__file__).with_name("nvjitlink_worker.py")
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        self.owner = os.getpid()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script), str(library)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env=toolchain.environment(),
            )
        except OSError as error:
            raise ToolchainError(
                f"no process for nvJitLink could be started: {error}", next_step="check that Python can run itself"
            ) from error

    @property
    def usable(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, options: list[str], ptx: bytes, timeout_s: float) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watch = threading.Timer(timeout_s, self.process.kill)
        watch.daemon = True
        watch.start()
        try:
            self.process.stdin.write(json.dumps({"options": options, "size": len(ptx)}).encode() + b"\n" + ptx)
            self.process.stdin.flush()
            header = self.process.stdout.readline()
            if not header:
                return self._ended()
            told = json.loads(header)
            code = self.process.stdout.read(told["size"])
        except BrokenPipeError:
            return self._ended()
        except BaseException:  # an interrupt in mid-answer: the next reader would get the rest of this one
            self.process.kill()
            raise
        finally:
            watch.cancel()
        return Answer(told["result"], told["stage"], told["log"], code)

    def _ended(self) -> Answer:
        status = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode("utf-8", "replace").strip()
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        self.close()
        return Answer(-1, "ended", f"ptxas fatal   : nvJitLink ended its process {how}: {said}\n", b"")

    def close(self) -> None:
        if self.owner == os.getpid():
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    with _ignored_broken_pipe():
                        stream.close()
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
        self.errors.close()


@contextmanager
def _ignored_broken_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # closing flushes what a dead child will not read
        return


_idle: list[_Worker] = []
_lock = threading.Lock()


@contextmanager
def _borrowed() -> Iterator[_Worker]:
    """An idle child of this process, or a new one; it goes back unless it died."""
    worker = None
    with _lock:
        while _idle and worker is None:
            candidate = _idle.pop()
            worker = candidate if candidate.usable else _discard(candidate)
    worker = worker or _Worker()
    try:
        yield worker
    finally:
        if worker.usable:
            with _lock:
                _idle.append(worker)


def _discard(worker: _Worker) -> None:
    worker.close()


@atexit.register
def _close_all() -> None:
    with _lock:
        while _idle:
            _idle.pop().close()


os.register_at_fork(after_in_child=lambda: _lock.release() if _lock.locked() else None)
