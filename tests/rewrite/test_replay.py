"""Recordings: what is written is read, what was recorded is replayed, and nothing else ever answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.errors import InputError, ModelError, OutputError, RecordingMismatch
from hybridcc.passes.rewrite import open_rewriter, recording
from hybridcc.passes.rewrite.recording import Recorded
from hybridcc.passes.rewrite.rewriter import RECORDED, NoRewriter
from tests.rewrite.made import prompt


def recorded(answer: str, text: str = "add one to %in0") -> Recorded:
    p = prompt(text)
    return Recorded(p.hash, p.template_version, "a model", "2026-01-02", answer, prompt=p.text)


def test_answers_come_back_in_order_word_for_word(tmp_path: Path) -> None:
    path = tmp_path / "k.answers.jsonl"
    recording.write(path, [recorded("first\n"), recorded("other", "something else"), recorded("second")])
    rewriter = open_rewriter(f"replay:{path}")
    answers = rewriter.propose(prompt(), count=8, seed=0)
    assert [a.text for a in answers] == ["first\n", "second"]
    assert {a.kind for a in answers} == {RECORDED}
    assert rewriter.propose(prompt(), count=1, seed=99)[0].text == "first\n"
    assert "a model" in rewriter.label
    assert "k.answers.jsonl" in rewriter.label


def test_a_prompt_is_kept_once_for_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "k.answers.jsonl"
    recording.write(path, [recorded("a"), recorded("b")])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert ["prompt" in line for line in lines] == [True, False]
    assert [line["kind"] for line in lines] == [RECORDED, RECORDED]


@given(st.text(), st.text())
def test_any_text_survives_a_recording(tmp_path_factory: pytest.TempPathFactory, answer: str, text: str) -> None:
    path = tmp_path_factory.mktemp("recording") / "k.answers.jsonl"
    made = recorded(answer, text.encode("utf-8", "replace").decode())
    if "\ud800" <= max(answer, default="") <= "\udfff":
        answer = answer.encode("utf-8", "replace").decode()
    recording.write(path, [made])
    assert recording.read(path) == (made,)


def test_a_prompt_that_was_not_recorded_says_which_are_and_how_to_record(tmp_path: Path) -> None:
    path = tmp_path / "k.answers.jsonl"
    recording.write(path, [recorded("a", "an older wording")])
    asked = prompt("the wording of today")
    with pytest.raises(RecordingMismatch) as error:
        open_rewriter(f"replay:{path}").propose(asked, count=1, seed=0)
    message = str(error.value)
    assert asked.hash[:12] in message
    assert prompt("an older wording").hash[:12] in message
    assert "hybridcc prompts" in message
    assert "hybridcc answers import" in message
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{not json}\n", "not JSON"),
        ('["a"]\n', "missing"),
        ('{"prompt_hash": "00", "template_version": "1", "model": "m", "date": "d"}\n', "answer missing"),
    ],
)
def test_a_broken_recording_names_file_and_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "k.answers.jsonl"
    path.write_text("\n" + content)
    with pytest.raises(ModelError, match=said) as error:
        open_rewriter(f"replay:{path}")
    assert f"{path}:2" in str(error.value)


def test_an_edited_prompt_in_a_recording_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "k.answers.jsonl"
    recording.write(path, [recorded("a")])
    path.write_text(path.read_text().replace("add one", "add two"))
    with pytest.raises(ModelError, match="hash"):
        recording.read(path)


def test_a_recording_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        open_rewriter(f"replay:{tmp_path / 'none.jsonl'}")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        recording.write(tmp_path / "no such folder" / "k.answers.jsonl", [])


def test_the_recording_beside_a_source(tmp_path: Path) -> None:
    assert recording.beside(tmp_path / "k.py") is None
    recording.write(tmp_path / "k.answers.jsonl", [])
    assert recording.beside(tmp_path / "k.py") == tmp_path / "k.answers.jsonl"


def test_none_proposes_nothing() -> None:
    rewriter = open_rewriter("none")
    assert rewriter == NoRewriter()
    assert rewriter.propose(prompt(), count=4, seed=0) == ()


@pytest.mark.parametrize("spec", ["", "replay", "replay:", "openai:model", "openai:m@ftp://x", "llama:x", "none:x"])
def test_a_spec_of_no_known_form_is_refused_with_the_forms(spec: str) -> None:
    with pytest.raises(InputError, match=r"next: give .*openai:"):
        open_rewriter(spec)
