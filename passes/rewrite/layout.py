"""Sentences as lines of a prompt."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

LINE = 118
"""Characters of a line at most."""


def listed(sentences: Iterable[str]) -> tuple[str, ...]:
    """Each as an item of a list, over as many lines as it takes; spaces before it set it in."""
    return tuple(_item(sentence) for sentence in sentences)


def filled(text: str) -> str:
    """A paragraph, over as many lines as it takes."""
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)


def _item(sentence: str) -> str:
    margin = " " * (len(sentence) - len(sentence.lstrip()))
    return textwrap.fill(
        sentence.lstrip(),
        LINE,
        initial_indent=f"{margin}- ",
        subsequent_indent=f"{margin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
