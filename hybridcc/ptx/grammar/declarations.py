"""Registers, variables and parameters (PTX ISA 9.0, chapter 5)."""

from __future__ import annotations

from dataclasses import replace

from hybridcc.ptx.grammar.cursor import Cursor
from hybridcc.ptx.lexer import DOTTED, NUMBER, PUNCTUATION, WORD
from hybridcc.ptx.nodes import Declarator, RegisterDeclaration, Variable

SPACES = frozenset({".const", ".global", ".local", ".shared", ".param", ".tex", ".sreg"})
LINKAGES = frozenset({".extern", ".visible", ".weak", ".common"})
_VECTORS = frozenset({".v2", ".v4", ".v8"})
_OTHER_TYPES = frozenset(
    {".texref", ".samplerref", ".surfref", ".bf16", ".bf16x2", ".tf32", ".e4m3x2", ".e5m2x2", ".pred"}
)
_MOST_DIGITS = 9
"""Of a count: no machine has registers beyond."""


def linkage(c: Cursor) -> tuple[str, ...]:
    words: list[str] = []
    while c.texts[c.at] in LINKAGES:
        words.append(c.texts[c.at])
        c.step()
    return tuple(words)


def variable(c: Cursor, first: int, words: tuple[str, ...]) -> Variable:
    """``.global .align 4 .b8 a[8], b;`` after its linkage."""
    head = one_variable(c, first, words)
    if not head.names:
        raise c.fail(f"expected a name, found {c.shown()}")
    names = list(head.names)
    while c.take(","):
        names.append(_declarator(c))
    c.need(";")
    return replace(head, names=tuple(names), span=c.span(first))


def parameters(c: Cursor) -> tuple[Variable, ...]:
    c.need("(")
    found: list[Variable] = []
    while not c.take(")"):
        found.append(one_variable(c, c.at, ()))
        if not c.sees(")"):
            c.need(",")
    return tuple(found)


def one_variable(c: Cursor, first: int, words: tuple[str, ...]) -> Variable:
    """Space, qualifiers, type and at most one name."""
    space = c.texts[c.at]
    if space not in SPACES and space != ".reg":
        raise c.fail(f"expected a state space, found {c.shown()}")
    c.step()
    given: list[str] = []
    while c.kinds[c.at] == DOTTED:
        given.append(qualifier(c))
    at = next((i for i, w in enumerate(given) if _is_type(w)), None)
    if at is None:
        raise c.fail(f"expected a type after {space}, found {c.shown()}")
    vector = next((w for w in given if w in _VECTORS), "")
    prefix = tuple(w for w in given[:at] if w != vector)
    suffix = tuple(w for w in given[at + 1 :] if w != vector)
    names = (_declarator(c),) if c.kinds[c.at] == WORD else ()
    return Variable(space, given[at], names, words, prefix, vector, suffix, c.span(first))


def qualifier(c: Cursor) -> str:
    """``.align 8``, ``.attribute(.managed)``, ``.ptr``, ``.f32``, ``.v4`` as one word."""
    begin = c.at
    text = c.texts[begin]
    c.step()
    if text == ".align":
        if c.kinds[c.at] != NUMBER:
            raise c.fail(f"expected an alignment, found {c.shown()}")
        number = c.texts[c.at]
        c.step()
        return f".align {number}"
    if text == ".attribute" and c.sees("("):
        c.balanced("(", ")")
        return c.joined(begin, c.at)
    return text


def registers(c: Cursor) -> RegisterDeclaration:
    first = c.at
    c.step()
    words: list[str] = []
    while c.kinds[c.at] == DOTTED:
        words.append(c.texts[c.at])
        c.step()
    vector = next((w for w in words if w in _VECTORS), "")
    types = [w for w in words if w not in _VECTORS]
    if len(types) != 1:
        raise c.fail("expected one type after .reg")
    names = [_register(c)]
    while c.take(","):
        names.append(_register(c))
    c.need(";")
    return RegisterDeclaration(types[0], tuple(names), vector, c.span(first))


def _register(c: Cursor) -> tuple[str, int | None]:
    name = c.word("a register name")
    return (name, _count(c, "a register count")) if c.take("<") else (name, None)


def _count(c: Cursor, what: str) -> int:
    """The number of a family ``r<12>``, with its closing bracket."""
    text = c.texts[c.at]
    if c.kinds[c.at] != NUMBER or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise c.fail(f"expected {what}, found {c.shown()}")
    c.step()
    c.need(">")
    return int(text)


def _declarator(c: Cursor) -> Declarator:
    name = c.word("a name")
    if c.take("<"):
        name = f"{name}<{_count(c, 'a count of variables')}>"
    dims: list[str] = []
    while c.take("["):
        begin = c.at
        while not c.sees("]"):
            if c.kinds[c.at] not in (NUMBER, WORD, PUNCTUATION) or c.texts[c.at] in (";", "[", "{", "}", "="):
                raise c.fail(f"expected ']' before {c.shown()}")
            c.step()
        dims.append(c.joined(begin, c.at))
        c.step()
    return Declarator(name, tuple(dims), _initializer(c, name) if c.take("=") else "")


def _initializer(c: Cursor, name: str) -> str:
    begin = c.at
    depth = 0
    while True:
        text = c.texts[c.at]
        if depth == 0 and text in (",", ";"):
            break
        if c.at_end() or text == ";" or (text == "}" and depth == 0):
            raise c.fail(f"the initialiser of {name} never ends", begin)
        depth += text in ("{", "(")
        depth -= text in ("}", ")")
        c.step()
    text = c.joined(begin, c.at)
    if not text:
        raise c.fail(f"expected a value after '=', found {c.shown()}")
    return text


def _is_type(word: str) -> bool:
    return word in _OTHER_TYPES or (word[1:2] in "busf" and word[2:].isdigit()) or word in (".f16x2", ".f32x2")
