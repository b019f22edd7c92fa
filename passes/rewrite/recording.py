"""Recordings: prompts and the answers a language model gave to them, one JSON object a line.

Fields of a line: ``prompt_hash`` (SHA-256 of the prompt's text), ``template_version``, ``model`` (a label),
``date`` (YYYY-MM-DD), ``kind``, ``answer`` (word for word), and optionally ``prompt`` (the text that was asked;
written once for each hash) and ``root`` (of an answer in a later round: the hash of the first prompt). Answers that
failed a check stay in: a recording is evidence, not a selection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hybridcc.errors import ModelError, OutputError
from hybridcc.passes.rewrite.prompt import digest
from hybridcc.passes.rewrite.rewriter import RECORDED

SUFFIX = ".answers.jsonl"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer and what it answers."""

    prompt_hash: str
    template_version: str
    model: str
    date: str
    answer: str
    kind: str = RECORDED
    prompt: str = ""
    root: str = ""


def beside(source: str | Path) -> Path | None:
    """The recording that ships with a source file (``conv1d.py``: ``conv1d.answers.jsonl``), if there is one."""
    path = Path(source).with_suffix(SUFFIX)
    return path if path.is_file() else None


def read(path: str | Path) -> tuple[Recorded, ...]:
    """The answers in a recording, in its order.

    Raises ModelError, with file and line, for a file that cannot be read, a line that is no recorded answer,
    and a prompt that does not have the hash it stands under.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"the recording cannot be read: {error}",
            where=str(path),
            next_step="name a JSONL file written by `hybridcc answers import`",
        ) from error
    return tuple(
        _parse(line, f"{path}:{number}")
        for number, line in enumerate(text.split("\n"), start=1)  # not splitlines: answers may hold U+2028
        if line.strip()
    )


def write(path: str | Path, answers: Iterable[Recorded]) -> None:
    """Write a recording at once or not at all; each prompt is kept once. Raises OutputError."""
    shown: set[str] = set()
    lines: list[str] = []
    for answer in answers:
        fields = asdict(answer)
        if not answer.prompt or answer.prompt_hash in shown:
            del fields["prompt"]
        else:
            shown.add(answer.prompt_hash)
        if not answer.root:
            del fields["root"]
        lines.append(json.dumps(fields, ensure_ascii=True) + "\n")
    replace_file(path, "".join(lines))


def replace_file(path: str | Path, text: str) -> None:
    """Put ``text`` at ``path`` in one step, so that a kill leaves the old file or the new one."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise OutputError(
            f"cannot be written: {error.strerror or error}",
            where=str(target),
            next_step="give a file in a folder that you may write to",
        ) from error


def _parse(line: str, where: str) -> Recorded:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"not JSON: {error}", where=where, next_step="mend or delete the line; a recording has one object a line"
        ) from error
    names = ("prompt_hash", "template_version", "model", "date", "answer")
    missing = [n for n in names if not isinstance(fields, Mapping) or not isinstance(fields.get(n), str)]
    if missing:
        raise ModelError(
            f"no recorded answer: {', '.join(missing)} missing, or no text",
            where=where,
            next_step="write recordings with `hybridcc answers import`",
        )
    prompt = fields.get("prompt") or ""
    if prompt and digest(prompt) != fields["prompt_hash"]:
        raise ModelError(
            f"the prompt's hash is {digest(prompt)[:12]}, not {fields['prompt_hash'][:12]} as the line says",
            where=where,
            next_step="the line was edited: record the answer again",
        )
    return Recorded(
        *(fields[n] for n in names),
        kind=str(fields.get("kind") or RECORDED),
        prompt=prompt,
        root=str(fields.get("root") or ""),
    )
