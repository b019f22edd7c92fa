"""What a rewriter is told about an answer of its own that failed: the prompt again, the answer, and what is wrong.

A follow-up is a prompt like any other: a pure function of the first prompt, the answer and its failure, with a hash
of its own. So a recording holds later rounds as it holds first ones, and replays them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hybridcc.errors import AnswerRejected
from hybridcc.passes.rewrite.extract import code_of
from hybridcc.passes.rewrite.prompt import Prompt, digest, template
from hybridcc.passes.rewrite.sections import scrub

TEMPLATE = "feedback.j2"
LONGEST_ANSWER = 24_000
"""Characters of an answer that are quoted; where one is longer, its end is left out."""
LONGEST_LESSON = 4_000

_SPLICED = re.compile(r"([%$])hcc\d+_")
"""What the splicer puts before a rewrite's own names."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Why an answer failed: a stable code, and for the rewriter the whole of what is known, over as many lines as
    it takes."""

    code: str
    text: str

    @property
    def summary(self) -> str:
        """The code and the first line."""
        return f"{self.code}: {self.text.splitlines()[0] if self.text else ''}"


def follow_up(base: Prompt, answer: str, lesson: Lesson, earlier: Sequence[Lesson] = ()) -> Prompt:
    """The prompt that asks again. ``base`` is the first prompt; ``earlier`` are the lessons of the rounds between."""
    text = template(TEMPLATE).render(
        base=base.text.rstrip("\n"),
        root=base.hash,
        round=len(earlier) + 1,
        answer=_quoted(answer),
        code=lesson.code,
        text=_cut(_plain(lesson.text), LONGEST_LESSON),
        earlier=[_plain(each.summary) for each in earlier],
    )
    ascii_text = text.encode("ascii", "backslashreplace").decode("ascii")
    return Prompt(ascii_text, digest(ascii_text), base.template_version, base.region, base.hash)


def _quoted(answer: str) -> str:
    """The code of an answer, or all of it where no code can be made out."""
    try:
        text = code_of(answer)
    except AnswerRejected:
        text = answer
    return _cut(text.strip("\n"), LONGEST_ANSWER)


def _plain(text: str) -> str:
    """In the rewriter's own names, and without any that differ between processes."""
    return _SPLICED.sub(r"\1", scrub(text))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n... ({len(text) - most} characters more)"
