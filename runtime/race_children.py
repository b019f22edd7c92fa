"""The processes that a race runs in: each started afresh, with a context of its own, gone when it has misbehaved.

A child takes one job after another (race_worker). Starting one costs a second or two, so a caller with many races keeps
some: ``Children`` holds one per place, hands it out, and takes it back only when its last job ended well.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from hybridcc.errors import DeviceError

SILENCE_S = 60.0
"""A child that says nothing for so long is in an endless kernel."""

WORKER: tuple[str, ...] = (sys.executable, "-m", "hybridcc.runtime.race_worker")

MOST_JOBS = 50
"""So many, and the child is replaced: what a process happens to have (its address layout) is to be drawn anew."""


class Child:
    """One racing process."""

    def __init__(self) -> None:
        """Raises DeviceError when Python cannot be started."""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self.jobs = 0
        try:
            self._process = subprocess.Popen(
                WORKER,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "PYTHONPATH": python_path()},
            )
        except OSError as error:
            self._errors.close()
            raise DeviceError(
                f"no process to race in could be started: {error}", next_step="check that Python can run itself"
            ) from error

    def run(self, folder: Path) -> Iterator[dict[str, Any] | None]:
        """The job's messages as they come, up to and with ``end``; None, and no more, once it has been silent for
        SILENCE_S. They stop early when the process ends."""
        self.jobs += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{folder}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:  # it has ended: there is nothing to hear
            return
        for message in self._messages():
            yield message
            if message is None or message.get("event") == "end":
                return

    def last_words(self) -> str:
        """How the process ended, for a person. Waits for it."""
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"the process ended with {code}: {said[-1] if said else ''}"

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._errors):
            if stream is not None:
                stream.close()
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:  # what was not written is for a process that is gone
                return

    def _messages(self) -> Iterator[dict[str, Any] | None]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        pending = b""
        last = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                if not selector.select(timeout=max(0.0, SILENCE_S - (time.monotonic() - last))):
                    yield None
                    return
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    return
                last = time.monotonic()
                *lines, pending = (pending + piece).split(b"\n")
                yield from (json.loads(line) for line in lines if line.startswith(b"{"))


class Children:
    """Racing processes by place: the first process of every race is the child at place 0, the second that at 1."""

    def __init__(self) -> None:
        self._idle: dict[int, Child] = {}

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, places: int) -> None:
        """Have a child at each place, so that they start up side by side; none touches the GPU before its job."""
        for place in range(places):
            if place not in self._idle:
                self._idle[place] = Child()

    def take(self, place: int) -> Child:
        return self._idle.pop(place, None) or Child()

    def give_back(self, place: int, child: Child) -> None:
        """Keep it for the next race. Only for one whose job ended well."""
        if child.jobs >= MOST_JOBS or place in self._idle:
            child.close()
        else:
            self._idle[place] = child

    def close(self) -> None:
        while self._idle:
            self._idle.popitem()[1].close()


def python_path() -> str:
    """With the place where ``import hybridcc`` found it ahead, so that the child finds the same."""
    import hybridcc

    root = str(Path(hybridcc.__file__).resolve().parents[1])
    return os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
