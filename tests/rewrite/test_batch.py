"""Prompts out, answers in: the files of an air-gapped site or a paid batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hybridcc.errors import ModelError
from hybridcc.passes.rewrite import batch, open_rewriter, recording
from tests.rewrite.made import prompt


def result(hash_: str, *texts: str, model: str = "served-model") -> str:
    """A line as OpenAI's batch service writes it."""
    choices = [{"index": i, "message": {"role": "assistant", "content": t}} for i, t in enumerate(texts)]
    body = {"id": "x", "object": "chat.completion", "model": model, "choices": choices}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return json.dumps({"id": "b", "custom_id": hash_, "response": response, "error": None}) + "\n"


def exported(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    assert batch.export([prompt("a"), prompt("b"), prompt("a")], path, samples=2) == 2
    return path


def test_an_export_is_a_batch_of_chat_requests(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in exported(tmp_path).read_text().splitlines()]
    assert [line["custom_id"] for line in lines] == [prompt("a").hash, prompt("b").hash]
    for line in lines:
        assert (line["method"], line["url"], line["body"]["n"]) == ("POST", "/v1/chat/completions", 2)
    assert lines[0]["body"]["messages"] == [{"role": "user", "content": prompt("a").text}]


def test_a_batch_result_becomes_a_recording_that_replays(tmp_path: Path) -> None:
    prompts = batch.read_prompts(exported(tmp_path))
    results = tmp_path / "results.jsonl"
    results.write_text(result(prompt("b").hash, "one", "two"))
    found = batch.import_answers(results, prompts, date="2026-01-02")
    assert found.skipped == ()
    assert {a.model for a in found.answers} == {"served-model"}
    recording.write(tmp_path / "k.answers.jsonl", found.answers)
    rewriter = open_rewriter(f"replay:{tmp_path / 'k.answers.jsonl'}")
    assert [a.text for a in rewriter.propose(prompt("b"), count=4, seed=0)] == ["one", "two"]


def test_answers_written_by_hand_are_taken_with_a_label(tmp_path: Path) -> None:
    prompts = batch.read_prompts(exported(tmp_path))
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps({"custom_id": prompt("a").hash, "answer": "by hand"}) + "\n")
    with pytest.raises(ModelError, match="no model is named"):
        batch.import_answers(results, prompts, date="2026-01-02")
    found = batch.import_answers(results, prompts, date="2026-01-02", model="a person")
    assert [(a.answer, a.model, a.date) for a in found.answers] == [("by hand", "a person", "2026-01-02")]


def test_lines_without_an_answer_are_named_and_the_others_are_kept(tmp_path: Path) -> None:
    prompts = batch.read_prompts(exported(tmp_path))
    failed = {"custom_id": prompt("a").hash, "response": None, "error": {"code": "expired", "message": "too late"}}
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps(failed) + "\n" + result("unknown", "x") + result(prompt("b").hash, "one"))
    found = batch.import_answers(results, prompts, date="2026-01-02")
    assert [a.answer for a in found.answers] == ["one"]
    assert len(found.skipped) == 2
    assert "too late" in found.skipped[0]
    assert f"{results}:2" in found.skipped[1]


def test_a_changed_prompt_is_not_taken_for_the_one_exported(tmp_path: Path) -> None:
    path = exported(tmp_path)
    path.write_text(path.read_text().replace("\\n\\na\\n", "\\n\\nz\\n"))
    with pytest.raises(ModelError, match="the prompt was changed") as error:
        batch.read_prompts(path)
    assert f"{path}:1" in str(error.value)


@pytest.mark.parametrize("content", ["no json\n", "[]\n", '{"custom_id": "x"}\n'])
def test_a_file_that_is_no_export(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    with pytest.raises(ModelError, match="next: "):
        batch.read_prompts(path)
