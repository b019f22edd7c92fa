"""PTX text to the tree of nodes.py, going on after an error.

Lossless by content: whatever ptxas accepts comes out of the printer meaning the same. A statement that the grammar
does not know is kept as Raw, never dropped. The grammar itself is in grammar/.
"""

from __future__ import annotations

from hybridcc.ptx.grammar import declarations, directives
from hybridcc.ptx.grammar.cursor import Cursor, Failure
from hybridcc.ptx.grammar.statements import labelled, statements
from hybridcc.ptx.lexer import COMMENT, DOTTED, MARKER, WORD
from hybridcc.ptx.nodes import Block, CallPrototype, Directive, Function, Item, Module, Statement, Variable
from hybridcc.ptx.source import Source


def parse(text: str, name: str = "<string>") -> Module:
    """A whole module. Raises PtxSyntaxError with every diagnostic found (at most 20)."""
    c = Cursor(Source(name, text))
    items = _items(c)
    c.raise_if_failed()
    return Module(tuple(items), c.source)


def parse_statements(text: str, name: str = "<statements>") -> tuple[Statement, ...]:
    """A piece of a function body. Raises PtxSyntaxError."""
    c = Cursor(Source(name, text))
    found = statements(c, closed=False)
    c.raise_if_failed()
    return found


def _items(c: Cursor) -> list[Item]:
    items: list[Item] = []
    while not c.at_end():
        first = c.at
        if c.kinds[first] in (COMMENT, MARKER):
            items.append(c.comment(c.trails(first)))
            c.skip()
            continue
        found = None
        try:
            found = _item(c, first)
        except Failure as failure:
            c.report(failure.message, failure.token)
            _recover(c, first)
        c.place(items, found)
    return items


def _item(c: Cursor, first: int) -> Item | None:
    text = c.texts[first]
    if text == ";":
        c.drop()
        return None
    if text == "@":
        return directives.dwarf_line(c)
    if c.kinds[first] == WORD and c.texts[c.after(first)] == ":":
        found = labelled(c)
        if isinstance(found, CallPrototype):
            return found
        raise c.fail("a label or table cannot stand outside a function", first)
    if c.kinds[first] != DOTTED:
        raise c.fail(f"expected a directive, found {c.shown()}")
    words = declarations.linkage(c)
    text = c.texts[c.at]
    if text in (".entry", ".func"):
        return _function(c, first, words)
    if text in declarations.SPACES:
        return declarations.variable(c, first, words)
    if words:
        raise c.fail(f"expected .entry, .func or a state space after {words[-1]}, found {c.shown()}")
    return directives.section(c) if text == ".section" else directives.directive(c)


def _function(c: Cursor, first: int, linkage: tuple[str, ...]) -> Function:
    kind = c.texts[c.at]
    c.step()
    early = _head_directives(c)
    returns: tuple[Variable, ...] = declarations.parameters(c) if c.sees("(") else ()
    name = c.word("the name of the function")
    parameters = declarations.parameters(c) if c.sees("(") else ()
    late = _head_directives(c)
    if c.take(";"):
        return Function(kind, name, parameters, returns, linkage, late, None, c.span(first), early)
    if not c.sees("{"):
        raise c.fail(f"expected '{{' or ';' after the head of {name}, found {c.shown()}")
    head_comments = c.take_hoisted()
    opened = c.at
    c.skip()
    inside = statements(c, closed=True)
    c.hoisted = head_comments
    body = Block(inside, c.span(opened))
    return Function(kind, name, parameters, returns, linkage, late, body, c.span(first), early)


def _head_directives(c: Cursor) -> tuple[Directive, ...]:
    found: list[Directive] = []
    while c.kinds[c.at] == DOTTED:
        found.append(directives.of_head(c))
    return tuple(found)


def _recover(c: Cursor, first: int) -> None:
    """Skips to after the next ``;`` or balanced ``}``, always at least one token."""
    c.at = max(c.at, min(first + 1, c.last))
    depth = 0
    while not c.at_end():
        text = c.texts[c.at]
        c.skip()
        if text == "{":
            depth += 1
        elif text == "}":
            depth -= 1
            if depth <= 0:
                return
        elif text == ";" and depth == 0:
            return
