"""The OpenAI protocol over a real loopback socket: a recording served, and a server that is gone."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hybridcc.errors import ModelError
from hybridcc.passes.rewrite import open_rewriter
from hybridcc.passes.rewrite.endpoint import EndpointRewriter
from tests.rewrite.made import prompt


@contextmanager
def server(answers: dict[str, list[str]], status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serves recorded answers by prompt text, picked by the request's seed; gives its URL and what it was sent."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({"path": self.path, "key": self.headers["Authorization"], **body})
            if status != 200:
                return self.reply(status, {"error": {"message": "refused by the test"}})
            held = answers[body["messages"][0]["content"]]
            text = held[body["seed"] % len(held)]
            message = {"role": "assistant", "content": text}
            self.reply(
                200,
                {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": body["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
                },
            )

        def reply(self, code: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/v1", seen
        finally:
            http.shutdown()
            thread.join()


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


def test_naming_an_endpoint_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert "http://localhost:1/v1" in open_rewriter("openai:m@http://localhost:1/v1").label
