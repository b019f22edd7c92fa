"""Batches: prompts out and answers in, as files in the OpenAI batch format, for machines without a network.

A line out is a batch request whose ``custom_id`` is the prompt's hash. A line in is a batch result, or just
``{"custom_id": …, "answer": …}`` as a person or a script without that service would write it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridcc.errors import ModelError
from hybridcc.passes.rewrite import recording
from hybridcc.passes.rewrite.prompt import Prompt, of_text
from hybridcc.passes.rewrite.recording import Recorded
from hybridcc.passes.rewrite.rewriter import DEFAULT_SAMPLING, Sampling

DEFAULT_MODEL = "MODEL"
"""Stands for the model until one is named: the batch service wants a name in every line."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought: the answers, and a sentence for each line that holds none."""

    answers: tuple[Recorded, ...]
    skipped: tuple[str, ...]


def export(
    prompts: Iterable[Prompt],
    path: str | Path,
    *,
    model: str = DEFAULT_MODEL,
    samples: int = 1,
    sampling: Sampling = DEFAULT_SAMPLING,
) -> int:
    """Write one batch request per distinct prompt; gives their number. Raises OutputError."""
    distinct = {p.hash: p for p in prompts}
    lines = (json.dumps(_request(p, model, samples, sampling), ensure_ascii=True) for p in distinct.values())
    recording.replace_file(path, "".join(line + "\n" for line in lines))
    return len(distinct)


def read_prompts(path: str | Path) -> dict[str, Prompt]:
    """The prompts of an exported file, by hash. Raises ModelError for a file that is none."""
    prompts: dict[str, Prompt] = {}
    for where, line in _lines(path, "the file that `hybridcc prompts` wrote"):
        try:
            prompt = of_text(line["body"]["messages"][-1]["content"])
        except (KeyError, IndexError, TypeError) as error:
            raise ModelError(
                "no batch request", where=where, next_step="export the prompts again with `hybridcc prompts`"
            ) from error
        if prompt.hash != line.get("custom_id"):
            raise ModelError(
                f"the prompt was changed: its hash is {prompt.hash[:12]}",
                where=where,
                next_step="export the prompts again, and leave them as they are",
            )
        prompts[prompt.hash] = prompt
    return prompts


def import_answers(
    results: str | Path, prompts: Mapping[str, Prompt], *, date: str, model: str = "", kind: str = recording.RECORDED
) -> Imported:
    """Answers to ``prompts`` from a batch's result file.

    ``model`` is the label to record, needed where a result does not name its model; ``date`` is YYYY-MM-DD.
    Raises ModelError for a file that cannot be read, and when no label is known.
    """
    answers: list[Recorded] = []
    skipped: list[str] = []
    for where, line in _lines(results, "the result file of a batch"):
        prompt = prompts.get(str(line.get("custom_id")))
        if prompt is None:
            skipped.append(f"{where}: answers no prompt of this export (custom_id {str(line.get('custom_id'))[:12]})")
            continue
        texts, named = _texts(line)
        if not texts:
            skipped.append(f"{where}: no answer in it ({_failure(line)})")
            continue
        label = model or named
        if not label:
            raise ModelError("no model is named", where=where, next_step="give the model's label with --model")
        answers += [
            Recorded(prompt.hash, prompt.template_version, label, date, text, kind, prompt.text, prompt.root)
            for text in texts
        ]
    return Imported(tuple(answers), tuple(skipped))


def _request(prompt: Prompt, model: str, samples: int, sampling: Sampling) -> dict[str, object]:
    return {
        "custom_id": prompt.hash,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": model,
            "messages": [{"role": "user", "content": prompt.text}],
            "n": samples,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        },
    }


def _lines(path: str | Path, what: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, each with its place."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot be read: {error}", where=str(path), next_step=f"name {what}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"not JSON: {error}", where=where, next_step=f"name {what}") from error
        if not isinstance(value, dict):
            raise ModelError("not a JSON object", where=where, next_step=f"name {what}")
        yield where, value


def _texts(line: Mapping[str, Any]) -> tuple[list[str], str]:
    """The answers in one result, and the model it names."""
    named = str(line.get("model") or "")
    if isinstance(line.get("answer"), str):
        return [line["answer"]], named
    try:
        body = line["response"]["body"]
        found = [choice["message"]["content"] for choice in body["choices"]]
    except (KeyError, TypeError):
        return [], named
    return [text for text in found if isinstance(text, str)], str(body.get("model") or named)


def _failure(line: Mapping[str, Any]) -> str:
    error = line.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("code"))
    response = line.get("response")
    return f"status {response.get('status_code')}" if isinstance(response, Mapping) else "no response"
