"""From prompt to verdicts over HTTP: transformers' own OpenAI-compatible server on the loopback interface.

It serves a model that was never trained, whose answers fail the checks, and one that knows two answers by heart: a
wrong one to a first prompt, and a right one to a follow-up.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hybridcc.building import Built, build
from hybridcc.passes.rewrite.rejection import NEXT_STEPS
from tests.build.test_whole_path import KERNEL, SIGNATURE, pointer_walk

for needed in ("torch", "transformers", "fastapi", "uvicorn"):
    pytest.importorskip(needed, reason=f"{needed}, of the extras 'model' and 'test', is not installed")

from tests.rewrite.recited import reciting, untrained  # noqa: E402

STARTS_WITHIN_S = 180
WRONG, RIGHT = pointer_walk(4, last=1), pointer_walk(8)


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def rewriter(self, model: Path) -> str:
        return f"openai:{model}@{self.url}/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [
        *(sys.executable, "-m", "transformers.cli.transformers", "serve"),
        *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu"),
    ]
    if (script := shutil.which("transformers", path=str(Path(sys.executable).parent))) is not None:
        command[:3] = [script]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    started = Server(process, f"http://127.0.0.1:{port}", log)
    try:
        _wait(started)
        yield started
    finally:
        process.kill()
        process.wait()


def _wait(server: Server) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end and server.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"the server did not start:\n{server.log.read_text()[-2000:]}")


@pytest.fixture(autouse=True)
def _no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reciting(tmp_path_factory.mktemp("by_heart"), {"<first>": WRONG, "<again>": RIGHT})


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained(tmp_path_factory.mktemp("untrained"))


def built(tmp_path: Path, rewriter: str, **options: object) -> Built:
    path = tmp_path / "conv1d.py"
    path.write_text(KERNEL)
    (made,) = build(
        path, tmp_path / "out", arch=["sm_90"], signature=SIGNATURE, accept="tested", select="proved", answers=1,
        rewriter=rewriter, **options,  # type: ignore[arg-type]
    )  # fmt: skip
    return made


def test_a_recording_as_a_model_is_mended_after_one_follow_up(server: Server, by_heart: Path, tmp_path: Path) -> None:
    made = built(tmp_path, server.rewriter(by_heart))
    (architecture,) = made.record.architectures
    assert [(c.name, c.fate.code, c.after) for c in architecture.candidates] == [
        ("r0-0", "REFUTED", ""),
        ("r0-1", "UNMEASURED", "r0-0"),
    ]
    assert [c.answer for c in architecture.candidates] == [WRONG, RIGHT]
    assert architecture.selection.variant == "r0-1"
    usage = made.record.usage
    assert (usage.requests, usage.samples) == (2, 2)
    assert (usage.prompt_tokens or 0) > 2000, "the server counted the prompts' words"
    assert "REFUTED" in made.record.exchanges[1].prompt
    assert made.error is None


def test_a_model_that_was_never_trained_costs_nothing_but_its_answers(
    server: Server, random: Path, tmp_path: Path
) -> None:
    made = built(tmp_path, server.rewriter(random))
    (architecture,) = made.record.architectures
    assert architecture.selection.variant == "baseline"
    assert architecture.candidates
    assert {c.fate.code for c in architecture.candidates} <= set(NEXT_STEPS)
    assert len(architecture.candidates) == 4, "one answer and three follow-ups"
    assert made.bundle.cubin("sm_90") == made.bundle.cubin("sm_90", "baseline")


def test_a_server_killed_in_the_middle_leaves_the_baseline_and_the_reason(
    server: Server, by_heart: Path, tmp_path: Path
) -> None:
    """The last test of this module: the server does not come back."""

    def kill_after_the_first_answer(message: str) -> None:
        if message.endswith(": r0-0"):
            server.process.kill()
            server.process.wait()

    made = built(tmp_path, server.rewriter(by_heart), progress=kill_after_the_first_answer)
    (architecture,) = made.record.architectures
    assert [c.fate.code for c in architecture.candidates] == ["REFUTED"]
    assert architecture.selection.variant == "baseline"
    (failure,) = architecture.failures
    assert (failure.stage, failure.code) == ("feedback", "MODEL")
    assert "cannot be reached" in failure.message
    assert "start the server" in failure.message
    assert made.record.spent == "the rewriter failed"
    assert made.bundle.cubin("sm_90") == made.bundle.cubin("sm_90", "baseline")
    never = built(tmp_path, server.rewriter(by_heart))
    assert never.record.architectures[0].selection.variant == "baseline"
    assert never.error is not None
    assert "cannot be reached" in str(never.error)
