"""Tuning in a child process while the baseline serves: ``HYBRIDCC_TUNE=background``.

One thread of this process waits for one child at a time. The child gets the call as data in a folder, takes the GPU's
turn among all such children of this user, tunes, and puts what lasts into the store; this process then finds the
decision there and switches to it. The child ends when this process does.

Run as ``python -m hybridcc.background FOLDER`` it is that child.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import logging
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc.errors import DeviceError, HybridccError
from hybridcc.records import BASELINE, Failure, Selection
from hybridcc.runtime import store
from hybridcc.runtime.store import Decision

if TYPE_CHECKING:
    from hybridcc.decisions import Call
    from hybridcc.pipeline import Options
    from hybridcc.runtime.dispatcher import Configured

COMMAND: tuple[str, ...] = (sys.executable, "-m", "hybridcc.background")
BUDGET_S = 60.0
"""For racing; a child takes as long again and more for checking and proving."""

JOB, LAUNCH = "job.pickle", "launch.npz"

_log = logging.getLogger("hybridcc")


@dataclass(frozen=True, slots=True)
class Job:
    """``call`` goes without its launch, which is a file of its own; ``identity`` is the decision's."""

    call: Call
    options: Options
    spec: str
    identity: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Wish:
    """What this process does when the child is done."""

    configured: Configured
    types: tuple[Any, ...]
    folder: tempfile.TemporaryDirectory[str]
    job: Job
    begin: float


class _Waiting:
    """The wishes of this process, and the thread that sees to them; both are made at the first one."""

    def __init__(self) -> None:
        self.wishes: queue.SimpleQueue[_Wish] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.child: subprocess.Popen[str] | None = None
        self.done = threading.Condition()
        self.open = 0

    def add(self, wish: _Wish) -> None:
        with self.done:
            self.open += 1
        self.wishes.put(wish)
        with self.lock:
            if self.thread is None:
                atexit.register(self.stop)
                self.thread = threading.Thread(target=self.serve, name="hybridcc-background", daemon=True)
                self.thread.start()

    def serve(self) -> None:
        while True:
            wish = self.wishes.get()
            try:
                _see_to(wish, self)
            except Exception as error:  # whatever it is, the next wish has its turn, and the baseline serves
                _log.warning("%s: tuning in the background failed: %s", wish.job.call.kernel.name, error)
            finally:
                wish.folder.cleanup()
                with self.done:
                    self.open -= 1
                    self.done.notify_all()

    def stop(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.kill()


_waiting = _Waiting()


def _after_fork() -> None:
    """The thread is the parent's."""
    global _waiting
    _waiting = _Waiting()


os.register_at_fork(after_in_child=_after_fork)


def start(configured: Configured, call: Call, types: tuple[Any, ...], spec: str) -> None:
    """Tune this call when its turn comes, and switch to what wins. Raises HybridccError, for instance where the
    temporary folder is full."""
    from hybridcc import decisions
    from hybridcc.building import portable
    from hybridcc.passes.verify import stored
    from hybridcc.pipeline import Options

    assert call.launch is not None
    options = Options(rewriter=portable(spec))
    situation = decisions.situation(call.kernel, call.device, call.shape, options)
    rewriter = decisions.rewriter_identity(spec)
    identity = decisions.decision_identity(situation, decisions.region_keys(call.kernel), options, rewriter)
    job = Job(replace(call, launch=None), options, spec, identity)
    folder = tempfile.TemporaryDirectory(prefix="hybridcc-tune-")
    try:
        Path(folder.name, LAUNCH).write_bytes(stored.to_bytes(call.launch, call.kernel.arguments))
        Path(folder.name, JOB).write_bytes(pickle.dumps(job))
    except OSError as error:
        folder.cleanup()
        raise HybridccError(f"no room for the arguments: {error}", next_step="set TMPDIR to a larger folder") from error
    _waiting.add(_Wish(configured, types, folder, job, time.monotonic()))


def wait(timeout: float | None = None) -> bool:
    """Until everything that was started is done; False if ``timeout`` seconds pass before."""
    with _waiting.done:
        return _waiting.done.wait_for(lambda: _waiting.open == 0, timeout)


def _see_to(wish: _Wish, waiting: _Waiting) -> None:
    from hybridcc.optimizing import Outcome, switch
    from hybridcc.runtime.driver import make_current

    told, complaint = _in_child(wish.folder.name, waiting)
    name = wish.job.call.kernel.name
    if told is None:
        raise DeviceError(f"the child ended: {complaint}", next_step="call optimize to see why")
    found = store.find(store.key_of(wish.job.identity))
    selection = Selection(told["variant"], told["code"], told["reason"])
    if found is not None:
        selection = Selection(found.variant, found.code, found.reason, measured=True)
        make_current(wish.job.call.device.ordinal)
        switch(wish.configured, wish.job.call, wish.types, found.cubin)
    elif selection.variant != BASELINE:  # it cannot be had from the store
        selection = Selection(BASELINE, "NOT_KEPT", "baseline selected: the store could not keep the variant")
    failures = tuple(Failure(**each) for each in told["failures"])
    seconds = time.monotonic() - wish.begin
    text = f"{name}: tuned in the background\n{told['text']}"
    wish.configured.dispatcher.outcomes.append(Outcome(name, selection, None, None, text, seconds, failures))
    _log.info("%s: %s", name, selection.reason)


def _in_child(folder: str, waiting: _Waiting) -> tuple[dict[str, Any] | None, str]:
    """(what the child told, empty) or (None, its last line on standard error)."""
    import hybridcc

    root = str(Path(hybridcc.__file__).resolve().parents[1])
    paths = [path for path in (root, os.environ.get("PYTHONPATH", "")) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HYBRIDCC_TUNE": "manual"}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [*COMMAND, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        )
        waiting.child = child
        assert child.stdout is not None
        assert child.stdin is not None
        with child.stdin, child.stdout:  # the child ends itself when its stdin is closed
            lines = child.stdout.read().splitlines()
            status = child.wait()
        waiting.child = None
        if status == 0 and lines:
            return json.loads(lines[-1]), ""
        errors.seek(0)
        return None, (errors.read().strip().splitlines() or [f"exit status {status}"])[-1]


# --- the child ---


def work(folder: Path) -> dict[str, object]:
    """Tune the job in the folder and keep what lasts; what is to be told. Raises HybridccError."""
    from hybridcc.building import open_or_failure
    from hybridcc.passes.verify import examples
    from hybridcc.tuning import tune

    job: Job = pickle.loads((folder / JOB).read_bytes())
    (launch,) = examples.from_file(folder / LAUNCH, job.call.kernel)
    call = replace(job.call, launch=replace(launch, family="given"))
    failures: list[Failure] = []
    with _turn(call.device.uuid):
        earlier = store.find(store.key_of(job.identity))
        if earlier is not None:  # another process has tuned the same meanwhile
            return _told(earlier, earlier.reason, failures)
        rewriter, failure = open_or_failure(job.spec)
        if failure is not None:
            failures.append(failure[0])
        tuned = tune(call, job.options, job.identity, rewriter, (launch,), failures, budget_s=BUDGET_S)
    if tuned is None:
        first = failures[-1]
        return _told(Selection(BASELINE, first.code, f"{first.stage} failed"), "", failures)
    if tuned.rows:
        store.save(*tuned.rows)
    return _told(tuned.selection, tuned.text, failures)


def _told(selection: Selection | Decision, text: str, failures: list[Failure]) -> dict[str, object]:
    return {
        "variant": selection.variant,
        "code": selection.code,
        "reason": selection.reason,
        "text": text,
        "failures": [{"stage": f.stage, "code": f.code, "message": f.message} for f in failures],
    }


@contextlib.contextmanager
def _turn(uuid: str) -> Iterator[None]:
    """The one child that races on that GPU in the background; a kill gives the turn to the next."""
    folder = store.default_path().parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"tuning-{uuid}.lock", "ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(4)


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(10)
    try:
        told = work(Path(sys.argv[1]))
    except HybridccError as error:
        print(error.what, file=sys.stderr)
        sys.exit(error.exit_code)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    from hybridcc import background  # under its own name, so that what was pickled is found

    background.main()
