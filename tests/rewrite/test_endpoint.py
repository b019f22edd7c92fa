"""The OpenAI protocol over a real loopback socket: a recording served, and a server that is gone."""

from __future__ import annotations

import json
import socket
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from hybridcc.building import Built, build
from hybridcc.errors import InputError, ModelError
from hybridcc.passes.rewrite import open_rewriter, recording
from hybridcc.passes.rewrite.endpoint import EndpointRewriter
from hybridcc.passes.verdict import Tested
from tests.rewrite.made import prompt
from tests.rewrite.served import server


@pytest.fixture(autouse=True)
def _no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def impatient(url: str) -> EndpointRewriter:
    rewriter = open_rewriter(f"openai:some/model@{url}")
    assert isinstance(rewriter, EndpointRewriter)
    return replace(rewriter, retries=0, timeout_s=10.0, _clients=[])


def test_a_recording_served_over_http_answers_the_prompt() -> None:
    with server({prompt().text: ["first", "second"]}) as (url, seen):
        answers = open_rewriter(f"openai:some/model@{url}").propose(prompt(), count=2, seed=4)
    assert [a.text for a in answers] == ["first", "second"]
    assert [(a.model, a.prompt_tokens, a.answer_tokens) for a in answers] == [("some/model", 7, 3)] * 2
    assert [s["seed"] for s in seen] == [4, 5]
    assert {s["path"] for s in seen} == {"/v1/chat/completions"}


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    with server({prompt().text: ["a"]}) as (url, seen):
        impatient(url).propose(prompt(), count=1, seed=0)
    assert seen[0]["key"] == "Bearer the-key"


def test_a_server_killed_in_the_middle_gives_a_clear_reason() -> None:
    with server({prompt().text: ["a"]}) as (url, _):
        rewriter = impatient(url)
        assert len(rewriter.propose(prompt(), count=1, seed=0)) == 1
    with pytest.raises(ModelError, match=r"cannot be reached[\s\S]*next: start the server") as error:
        rewriter.propose(prompt(), count=1, seed=0)
    assert url in str(error.value)


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "OPENAI_API_KEY"), (404, "does not know the model"), (429, "429"), (500, "status 500"), (400, "refused by")],
)
def test_a_refusal_says_what_to_do(status: int, said: str) -> None:
    with server({}, status) as (url, _), pytest.raises(ModelError, match=said):
        impatient(url).propose(prompt(), count=1, seed=0)


def test_an_empty_reply_is_no_answer() -> None:
    with server({prompt().text: [""]}) as (url, _), pytest.raises(ModelError, match="holds no answer"):
        impatient(url).propose(prompt(), count=1, seed=0)


@pytest.mark.parametrize("streams", [True, False, None])
def test_a_server_may_stream_or_not(streams: bool | None) -> None:
    text = "an answer longer than one piece\n" * 3
    with server({prompt().text: [text]}, streams=streams) as (url, seen):
        (answer,) = impatient(url).propose(prompt(), count=1, seed=0)
    assert (answer.text, answer.prompt_tokens, answer.answer_tokens) == (text, 7, 3)
    assert [bool(s.get("stream")) for s in seen] == ([True, False] if streams is None else [True])


def test_an_answer_that_drips_is_given_up_in_time() -> None:
    with server({prompt().text: ["x" * 1000]}, pause=0.1) as (url, _):
        begin = time.monotonic()
        with pytest.raises(ModelError, match=r"sent \d+ characters in 0.5 s and was not done"):
            replace(impatient(url), timeout_s=0.5).propose(prompt(), count=1, seed=0)
        assert time.monotonic() - begin < 5


def test_requests_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDCC_REQUESTS_PER_MINUTE", "300")
    with server({prompt().text: ["a", "b", "c"]}) as (url, seen):
        impatient(url).propose(prompt(), count=1, seed=0)  # the first makes the connection
        begin = time.monotonic()
        impatient(url).propose(prompt(), count=3, seed=0)
    assert seen[-1]["at"] - begin > 0.4


def test_what_was_spent_is_in_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDCC_TOKEN_PRICES", "1000000,2000000")
    with server(recorded_answers()) as (url, _):
        made = built_over(url, tmp_path)
    usage = made.bundle.manifest["usage"]
    assert (usage["prompt_tokens"], usage["answer_tokens"], usage["cost"]) == (7, 3, 13.0)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HYBRIDCC_TOKEN_PRICES", "1"),
        ("HYBRIDCC_TOKEN_PRICES", "1,-2"),
        ("HYBRIDCC_TOKEN_PRICES", "nan,1"),
        ("HYBRIDCC_REQUESTS_PER_MINUTE", "0"),
        ("HYBRIDCC_REQUESTS_PER_MINUTE", "often"),
    ],
)
def test_settings_that_make_no_sense_are_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=variable):
        open_rewriter("openai:m@http://localhost:1/v1")


def test_naming_an_endpoint_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert "http://localhost:1/v1" in open_rewriter("openai:m@http://localhost:1/v1").label


EXAMPLE = Path(__file__).parents[2] / "examples" / "colsum.py"


def recorded_answers() -> dict[str, list[str]]:
    held: dict[str, list[str]] = defaultdict(list)
    path = recording.beside(EXAMPLE)
    assert path is not None
    texts: dict[str, str] = {}
    for each in recording.read(path):
        texts.setdefault(each.prompt_hash, each.prompt)
        held[texts[each.prompt_hash]].append(each.answer)
    return held


def built_over(url: str, out: Path) -> Built:
    (made,) = build(EXAMPLE, out, arch=["sm_80"], rewriter=f"openai:some/model@{url}", accept="tested", answers=1)
    return made


def test_a_build_runs_from_prompt_to_verdict_over_http(tmp_path: Path) -> None:
    with server(recorded_answers()) as (url, seen):
        made = built_over(url, tmp_path)
    assert len(seen) == 1
    (candidate,) = made.record.architectures[0].candidates
    assert candidate.evidence is not None
    assert isinstance(candidate.evidence.verdict, Tested)
    assert candidate.evidence.verdict.exercised > 0


def test_a_server_that_is_gone_leaves_a_finished_baseline_and_a_reason(tmp_path: Path) -> None:
    with server({}) as (url, _):
        pass
    made = built_over(url, tmp_path)
    assert isinstance(made.error, ModelError)
    assert "cannot be reached" in str(made.error)
    assert made.record.architectures[0].candidates == ()
    assert (tmp_path / "colsum" / "baseline.sm_80.cubin").stat().st_size > 0
    manifest = json.loads((tmp_path / "colsum" / "manifest.json").read_text())
    assert "cannot be reached" in json.dumps(manifest)


def test_a_page_in_place_of_a_reply_is_named() -> None:
    """A proxy's error page, with status 200."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>sign in first</html>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as page:
        threading.Thread(target=page.serve_forever, daemon=True).start()
        with pytest.raises(ModelError, match="not of the protocol"):
            impatient(f"http://127.0.0.1:{page.server_port}/v1").propose(prompt(), count=1, seed=0)
        page.shutdown()
