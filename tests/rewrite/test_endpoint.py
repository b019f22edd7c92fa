"""The OpenAI protocol over a real loopback socket: a recording served, and a server that is gone."""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from hybridcc.building import Built, build
from hybridcc.errors import ModelError
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
