"""Prompts of the suite out, a model's answers in: each to the recording of its kernel."""

import json

from benchmarks.__main__ import arguments
from benchmarks.suite import answers
from hybridcc.passes.rewrite import batch, recording


def test_what_the_examples_answer_is_not_asked_again():
    known = answers.held()
    assert {asked.kernel for asked in answers.unanswered(["conv1d", "matmul_naive"])} == set()
    for asked in answers.unanswered(["conv1d", "matmul_naive"], everything=True):
        assert answers.rewriter("recorded").propose(asked.prompt, count=1, seed=0)[0].text == (
            known[asked.prompt.hash][0].answer
        )


def test_answers_go_to_the_recordings_of_their_kernels_once(tmp_path, capsys):
    prompts, results = tmp_path / "prompts.jsonl", tmp_path / "results.jsonl"
    names = ["saxpy", "row_variance"]
    given = arguments().parse_args(["prompts", "--all", "-o", str(prompts), "--only", *names])
    assert given.action(given) == 0
    assert "3 prompts" in capsys.readouterr().out  # the body of saxpy, and two loops
    hashes = list(batch.read_prompts(prompts))
    lines = [{"custom_id": each, "answer": f"answer {k}"} for k, each in enumerate([*hashes, "0" * 64])]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told: list[str] = []
    for _ in range(2):
        told = answers.take_in(results, prompts, names, "2026-12-01", "a model", tmp_path)
    assert sum("no prompt of this export" in line for line in told) == 1
    found = {name: recording.read(tmp_path / f"{name}.answers.jsonl") for name in names}
    assert {name: len(each) for name, each in found.items()} == {"saxpy": 1, "row_variance": 2}
    assert {each.prompt_hash for kept in found.values() for each in kept} == set(hashes)
