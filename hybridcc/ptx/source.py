"""Where a piece of PTX came from, and how a message about it is shown."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Half-open character offsets into Source.text. A plain tuple: one is made for every node."""

WIDEST = 160
"""Characters of a line that a message shows."""
NO_SPAN: Span = (0, 0)


@dataclass(frozen=True, eq=False)
class Source:
    """A text with a name; positions are 1-based lines and columns."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of a character offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line end."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")

    def excerpt(self, span: Span) -> str:
        """The line a span begins on, with carets below the span (as far as that line reaches); of a long line, the part
        around the span."""
        number, column = self.position(span[0])
        text = self.line(number)
        if len(text) > WIDEST:
            first = max(0, min(column - 1 - WIDEST // 2, len(text) - WIDEST))
            text, column = text[first : first + WIDEST], column - first
        width = max(1, min(span[1] - span[0], len(text) - column + 1))
        lead = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
        return f"  {text}\n  {lead}{'^' * width}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place in a source."""

    message: str
    span: Span
    source: Source

    @property
    def place(self) -> str:
        line, column = self.source.position(self.span[0])
        return f"{self.source.name}:{line}:{column}"

    def __str__(self) -> str:
        return f"{self.place}: error: {self.message}\n{self.source.excerpt(self.span)}"
