"""PTX text to tokens: one regular expression, three parallel lists (a token object each would cost the time).

PTX ISA 9.0, section 4 (Syntax). Text is ASCII only: ptxas refuses anything else, also in comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hybridcc.ptx.source import Diagnostic, Source

COMMENT, WORD, DOTTED, NUMBER, STRING, PUNCTUATION, MARKER, END = range(8)

_TOKEN = re.compile(
    r"""[ \t\r\n\f\v]+
    |(//[^\n]*|/\*(?s:.*?)\*/)
    |([A-Za-z_$%][A-Za-z0-9_$]*)
    |(\.[A-Za-z0-9_$]+(?:::[A-Za-z0-9_$]+)*)
    |(0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}(?![0-9a-fA-F])|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+U?)
    |("(?:[^"\\\n]|\\.)*")
    |(<<|>>|<=|>=|==|!=|&&|\|\||::|/(?!\*)|[{}()\[\];,:@!<>|+\-*%&^~?=])
    |((?m:^)\#[^\n]*)""",
    re.VERBOSE,
)


@dataclass(slots=True)
class Tokens:
    """Parallel lists, closed by one END token; ``diagnostics`` holds characters that belong to no token."""

    kinds: list[int]
    texts: list[str]
    starts: list[int]
    diagnostics: list[Diagnostic]


def tokenize(source: Source) -> Tokens:
    """All tokens of a source; never raises."""
    text = source.text
    kinds: list[int] = []
    texts: list[str] = []
    starts: list[int] = []
    diagnostics: list[Diagnostic] = []
    scan = _TOKEN.match
    at, end = 0, len(text)
    while at < end:
        found = scan(text, at)
        if found is None:
            at = _reject(source, at, diagnostics)
            continue
        group = found.lastindex
        if group is not None:
            kinds.append(group - 1)
            texts.append(found.group())
            starts.append(at)
        at = found.end()
    kinds.append(END)
    texts.append("")
    starts.append(end)
    if not text.isascii():
        diagnostics[:0] = _non_ascii(source)
    return Tokens(kinds, texts, starts, diagnostics)


def _reject(source: Source, at: int, diagnostics: list[Diagnostic]) -> int:
    text = source.text
    if text.startswith("/*", at):
        diagnostics.append(Diagnostic("this comment never ends", (at, at + 2), source))
        return len(text)
    if text[at] == '"':
        diagnostics.append(Diagnostic("this string never ends on its line", (at, at + 1), source))
        line_end = text.find("\n", at)
        return len(text) if line_end < 0 else line_end
    if text[at].isascii() and len(diagnostics) < 20:
        diagnostics.append(Diagnostic(f"{text[at]!r} belongs to no PTX token", (at, at + 1), source))
    return at + 1


def _non_ascii(source: Source) -> list[Diagnostic]:
    at = next(i for i, c in enumerate(source.text) if not c.isascii())
    what = "a byte-order mark" if source.text[at] == "\ufeff" else f"the character {source.text[at]!a}"
    message = f"{what} is not ASCII; PTX allows ASCII only, in comments too"
    return [Diagnostic(message, (at, at + 1), source)]
