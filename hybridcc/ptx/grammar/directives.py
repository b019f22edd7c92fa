"""Directives that declare nothing: versions, files and lines, launch bounds, pragmas (PTX ISA 9.0, chapter 11)."""

from __future__ import annotations

from hybridcc.ptx.grammar.cursor import Cursor
from hybridcc.ptx.lexer import DOTTED, NUMBER, PUNCTUATION, STRING, WORD
from hybridcc.ptx.nodes import Directive, Section

_OF_HEADS = frozenset(
    {
        ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn", ".pragma",
        ".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters", ".abi_preserve",
        ".abi_preserve_control",
    }
)  # fmt: skip
"""Directives that stand between the head of a function and its body."""


def directive(c: Cursor) -> Directive:
    """One that stands by itself, at module level or in a body."""
    first = c.at
    name = c.texts[first]
    c.step()
    begin = c.at
    match name:
        case ".loc":
            _location(c)
        case ".version" | ".address_size" | ".minnctapersm" | ".maxnreg":
            _one_of(c, (NUMBER, DOTTED), f"a number after {name}")
        case ".target":
            _list(c)
        case ".file":
            _file(c)
        case ".pragma" | ".alias":
            _to_semicolon(c, name, first)
        case _:
            _to_line_end(c, first)
    text = c.joined(begin, c.at)
    return Directive(name, text, c.take(";"), c.span(first))


def dwarf_line(c: Cursor) -> Directive:
    """``@@DWARF …`` of PTX 1.x: word for word to the end of its line."""
    start = c.starts[c.at]
    end = c.source.text.find("\n", start)
    end = len(c.source.text) if end < 0 else end
    text = c.source.text[start:end].rstrip()
    if not text.startswith("@@"):
        raise c.fail("expected a directive, found '@'")
    while not c.at_end() and c.starts[c.at] < end:
        c.skip()
    return Directive("@@", text[2:], False, (start, start + len(text)))


def of_head(c: Cursor) -> Directive:
    """A directive in the head of a function; ends where the next begins."""
    first = c.at
    name = c.texts[first]
    c.step()
    begin = c.at
    if name == ".attribute":
        c.balanced("(", ")")
    elif name in _OF_HEADS:
        while c.kinds[c.at] in (NUMBER, STRING) or c.sees(","):
            c.step()
    else:
        _unknown_of_head(c)
    text = c.joined(begin, c.at)
    ends = name == ".pragma" and c.sees(";") and _head_goes_on(c)
    if ends:
        c.step()
    return Directive(name, text, ends, c.span(first))


def _head_goes_on(c: Cursor) -> bool:
    following = c.texts[c.after(c.at)]
    return following == "{" or following in _OF_HEADS


def _unknown_of_head(c: Cursor) -> None:
    while c.kinds[c.at] in (NUMBER, STRING, PUNCTUATION) and c.texts[c.at] not in ("{", ";", ")", "}"):
        if c.sees("("):
            c.balanced("(", ")")
        else:
            c.step()


def section(c: Cursor) -> Section:
    first = c.at
    c.step()
    if c.kinds[c.at] not in (DOTTED, WORD):
        raise c.fail(f"expected the name of the section, found {c.shown()}")
    begin = c.at
    while c.kinds[c.at] in (DOTTED, WORD):
        c.step()
    name = c.joined(begin, c.at)
    before = len(c.hoisted)
    if not c.sees("{"):
        raise c.fail(f"expected '{{' after .section {name}, found {c.shown()}")
    opened = c.starts[c.at] + 1
    closing = c.balanced("{", "}")
    text = c.source.text[opened : c.starts[closing]].replace("\r", "").lstrip("\n").rstrip()
    end = c.starts[closing] + 1
    # Comments inside stay in the text; those around it are kept as comments.
    c.hoisted[:] = [k for i, k in enumerate(c.hoisted) if i < before or k.span[0] >= end]
    return Section(name, text, (c.starts[first], end))


def _to_semicolon(c: Cursor, name: str, first: int) -> None:
    while not c.sees(";"):
        if c.at_end() or c.texts[c.at] in ("{", "}"):
            raise c.fail(f"expected ';' after {name}", first)
        c.step()


def _to_line_end(c: Cursor, first: int) -> None:
    """A directive this grammar has no rule for: to its semicolon, or to the end of its line."""
    line_end = c.source.text.find("\n", c.starts[first])
    line_end = len(c.source.text) if line_end < 0 else line_end
    while not c.at_end() and c.starts[c.at] < line_end and c.texts[c.at] not in (";", "}", "{"):
        c.step()


def _one_of(c: Cursor, kinds: tuple[int, ...], what: str) -> None:
    if c.kinds[c.at] not in kinds:
        raise c.fail(f"expected {what}, found {c.shown()}")
    c.step()


def _list(c: Cursor) -> None:
    _one_of(c, (WORD,), "a target")
    while c.take(","):
        _one_of(c, (WORD,), "a target")


def _file(c: Cursor) -> None:
    _one_of(c, (NUMBER,), "the number of the file")
    _one_of(c, (STRING,), "the name of the file")
    while c.take(","):
        _one_of(c, (NUMBER,), "a number")


def _location(c: Cursor) -> None:
    """``file line column[, function_name label[+offset]][, inlined_at file line column]``"""
    _numbers(c, 3)
    while c.sees(",") and c.texts[c.after(c.at)] in ("function_name", "inlined_at"):
        c.step()
        word = c.texts[c.at]
        c.step()
        if word == "inlined_at":
            _numbers(c, 3)
            continue
        c.word("a label after function_name")
        if c.take("+"):
            _numbers(c, 1)


def _numbers(c: Cursor, count: int) -> None:
    for _ in range(count):
        _one_of(c, (NUMBER,), "a number")
