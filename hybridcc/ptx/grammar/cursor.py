"""A place in the tokens of a source, with the messages found so far and the comments met on the way."""

from __future__ import annotations

from dataclasses import replace

from hybridcc.errors import PtxSyntaxError
from hybridcc.ptx.lexer import COMMENT, END, MARKER, STRING, WORD, tokenize
from hybridcc.ptx.nodes import Comment, Item, Statement
from hybridcc.ptx.source import Diagnostic, Source, Span

MOST_DIAGNOSTICS = 20


class Failure(Exception):
    """Internal: abandons the statement at hand; never leaves this package.

    ``certain`` says that no grammar would take the text, so it is not kept as a raw statement either.
    """

    def __init__(self, message: str, token: int, *, certain: bool = False) -> None:
        self.message = message
        self.token = token
        self.certain = certain


class Cursor:
    """``kinds``, ``texts`` and ``starts`` are the tokens (lexer.py), ``at`` the index of the next one."""

    __slots__ = ("at", "diagnostics", "dropped", "hoisted", "kinds", "last", "lexical", "source", "starts", "texts")

    def __init__(self, source: Source) -> None:
        tokens = tokenize(source)
        self.source = source
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.starts = tokens.starts
        self.last = len(tokens.kinds) - 1
        self.diagnostics = tokens.diagnostics
        self.lexical = len(tokens.diagnostics)
        self.at = 0
        self.dropped = -1
        self.hoisted: list[Comment] = []
        """Comments from the middle of statements, waiting for a place before or after them."""

    # --- messages ---------------------------------------------------------------------------------------

    def raise_if_failed(self) -> None:
        """Where characters belong to no token, what the grammar made of the rest is noise, and not told."""
        if self.diagnostics:
            ordered = sorted(self.diagnostics[: self.lexical or None], key=lambda d: d.span[0])
            raise PtxSyntaxError(tuple(ordered[:MOST_DIAGNOSTICS]))

    def report(self, message: str, token: int) -> None:
        if len(self.diagnostics) < MOST_DIAGNOSTICS:
            start = self.starts[token]
            span = (start, start + max(1, len(self.texts[token])))
            self.diagnostics.append(Diagnostic(message, span, self.source))

    def fail(self, message: str, token: int | None = None, *, certain: bool = False) -> Failure:
        return Failure(message, self.at if token is None else token, certain=certain)

    def shown(self) -> str:
        """The next token, for a message."""
        return repr(self.texts[self.at][:40]) if self.kinds[self.at] != END else "the end of the file"

    # --- moving -----------------------------------------------------------------------------------------

    def step(self) -> None:
        """To the next token of a statement; comments in between are kept for before the statement."""
        if self.at < self.last:
            self.at += 1
        kinds = self.kinds
        while kinds[self.at] == COMMENT or kinds[self.at] == MARKER:
            self.hoisted.append(self.comment(self.trails(self.at)))
            self.at += 1

    def skip(self) -> None:
        """Past the next token, whatever follows."""
        if self.at < self.last:
            self.at += 1

    def drop(self) -> None:
        """Past a semicolon that ends nothing: it leaves no node, so a comment cannot trail it."""
        self.dropped = self.at
        self.skip()

    def after(self, token: int) -> int:
        """The index of the first token after this one that is no comment."""
        at = min(token + 1, self.last)
        while self.kinds[at] in (COMMENT, MARKER):
            at += 1
        return at

    def at_end(self) -> bool:
        return self.kinds[self.at] == END

    def sees(self, text: str) -> bool:
        return self.texts[self.at] == text and self.kinds[self.at] != STRING

    def take(self, text: str) -> bool:
        if self.texts[self.at] == text:
            self.step()
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise self.fail(f"expected {text!r} before {self.shown()}")

    def word(self, what: str) -> str:
        if self.kinds[self.at] != WORD:
            raise self.fail(f"expected {what}, found {self.shown()}")
        text = self.texts[self.at]
        self.step()
        return text

    def balanced(self, opening: str, closing: str) -> int:
        """Past a bracketed text; gives the index of its closing token."""
        first = self.at
        depth = 0
        while True:
            if self.at_end():
                raise self.fail(f"this {opening!r} is never closed", first)
            text, here = self.texts[self.at], self.at
            depth += (text == opening) - (text == closing)
            self.step()
            if depth == 0:
                return here

    # --- texts and spans --------------------------------------------------------------------------------

    def span(self, first: int) -> Span:
        """From token ``first`` to the last token that was taken."""
        last = max(first, self.at - 1)
        while last > first and self.kinds[last] in (COMMENT, MARKER):
            last -= 1
        return self.starts[first], self.starts[last] + len(self.texts[last])

    def joined(self, first: int, last: int) -> str:
        """Tokens first to last-1 as text: source spelling, white space and comments reduced to one space."""
        parts: list[str] = []
        previous_end = None
        for i in range(first, last):
            if self.kinds[i] in (COMMENT, MARKER):
                continue
            if previous_end is not None and self.starts[i] > previous_end:
                parts.append(" ")
            parts.append(self.texts[i])
            previous_end = self.starts[i] + len(self.texts[i])
        return "".join(parts)

    # --- comments ---------------------------------------------------------------------------------------

    def comment(self, trailing: bool) -> Comment:
        start, text = self.starts[self.at], self.texts[self.at].rstrip()
        return Comment(text, trailing and "\n" not in text, (start, start + len(text)))

    def trails(self, token: int) -> bool:
        """Whether a comment stands on the line where the token before it ends."""
        if token == 0 or token - 1 == self.dropped or self.kinds[token] == MARKER:
            return False
        end = self.starts[token - 1] + len(self.texts[token - 1])
        return "\n" not in self.source.text[end : self.starts[token]]

    def take_hoisted(self) -> list[Comment]:
        found, self.hoisted = self.hoisted, []
        return found

    def place(self, target: list, node: Item | Statement | None) -> None:
        """Appends a node; comments from inside it go before it, those met after its last token follow it."""
        if not self.hoisted:
            if node is not None:
                target.append(node)
            return
        hoisted = self.take_hoisted()
        end = node.span[1] if node is not None else -1
        target.extend(replace(c, trailing=False) for c in hoisted if c.span[0] < end)
        if node is not None:
            target.append(node)
        target.extend(c for c in hoisted if c.span[0] >= end)
