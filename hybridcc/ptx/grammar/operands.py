"""Operands of instructions, and constant expressions (PTX ISA 9.0, chapter 6 and section 4.5)."""

from __future__ import annotations

from dataclasses import replace

from hybridcc.ptx.grammar.cursor import Cursor, Failure
from hybridcc.ptx.lexer import DOTTED, NUMBER, PUNCTUATION, WORD
from hybridcc.ptx.nodes import (
    Address,
    ArgumentList,
    BracketList,
    Immediate,
    Indexed,
    Member,
    Name,
    Not,
    Operand,
    Pair,
    SymbolOffset,
    Vector,
)

DEEPEST = 32
"""Deeper nesting of braces and brackets inside one operand is no PTX; it bounds the recursion."""

_ENDS_OPERAND = frozenset(",;]})")
_ENDS_CONSTANT = frozenset("{}[];,@=")


def operands(c: Cursor, opcode: str) -> tuple[Operand, ...]:
    """Operands to the semicolon, which is not taken."""
    if c.texts[c.at] == ";":
        return ()
    one = _of_call if opcode == "call" else operand
    found = [one(c, 0)]
    while c.texts[c.at] == ",":
        c.step()
        found.append(one(c, 0))
    if c.texts[c.at] != ";":
        starts_operand = c.kinds[c.at] in (WORD, NUMBER) or c.texts[c.at] in ("[", "{", "(")
        raise c.fail(f"expected ',' or ';' before {c.shown()}", certain=starts_operand)
    return tuple(found)


def operand(c: Cursor, depth: int) -> Operand:
    first = c.at
    kind, text = c.kinds[first], c.texts[first]
    if kind == WORD:
        return _named(c, first)
    if kind == NUMBER:
        return immediate(c)
    if depth > DEEPEST:
        raise c.fail("operands are nested too deep", certain=True)
    match text:
        case "[":
            return _bracket(c, depth)
        case "{":
            c.step()
            return Vector(_list_to(c, "}", depth), c.span(first))
        case "(":
            return _parenthesis(c, depth)
        case "!":
            return _negated(c)
        case "-" | "+" | "~":
            return immediate(c)
    raise c.fail(f"expected an operand, found {c.shown()}", certain=text in (",", ";", ")", "]", "}"))


def _of_call(c: Cursor, depth: int) -> Operand:
    """Of a call, where ``(1)`` is a list of one argument."""
    if c.texts[c.at] != "(":
        return operand(c, depth)
    first = c.at
    c.step()
    return ArgumentList(_list_to(c, ")", depth), c.span(first))


def immediate(c: Cursor) -> Immediate:
    """A literal or constant expression."""
    first = c.at
    constant(c)
    return Immediate(c.joined(first, c.at), c.span(first))


def constant(c: Cursor) -> None:
    """Takes a constant expression: to the next token that cannot belong to one."""
    depth = 0
    conditional = valued = False
    while True:
        kind, text = c.kinds[c.at], c.texts[c.at]
        if kind == PUNCTUATION:
            if text == "(":
                depth += 1
            elif text == ")":
                if depth == 0:
                    break
                depth -= 1
            elif text in _ENDS_CONSTANT or (text == ":" and not conditional):
                break
            conditional |= text == "?"
        elif kind == NUMBER or (kind == WORD and text == "WARP_SZ"):
            valued = True
        elif not (kind == DOTTED and text in (".s64", ".u64") and depth > 0):
            break
        c.step()
    if depth or not valued:
        raise c.fail(f"expected a constant before {c.shown()}")


def _named(c: Cursor, first: int) -> Operand:
    """What begins with a name: a register, a member, an element, an address constant, a pair."""
    text = c.texts[first]
    if text == "WARP_SZ":
        return immediate(c)
    c.step()
    start = c.starts[first]
    span = (start, start + len(text))
    following = c.texts[c.at]
    if following in _ENDS_OPERAND:
        return Name(text, span)
    found: Operand
    if c.kinds[c.at] == DOTTED:
        c.step()
        found = Member(text, following[1:], c.span(first))
    elif following == "[":
        found = _indexed(c, text, first)
    elif following in ("+", "-"):
        c.step()
        begin = c.at
        constant(c)
        return SymbolOffset(text, following + c.joined(begin, c.at), c.span(first))
    else:
        found = Name(text, span)
    return _pair(c, found, first) if c.texts[c.at] == "|" else found


def _indexed(c: Cursor, name: str, first: int) -> Indexed:
    c.step()
    begin = c.at
    constant(c)
    index = c.joined(begin, c.at)
    c.need("]")
    return Indexed(name, index, c.span(first))


def _pair(c: Cursor, left: Operand, first: int) -> Pair:
    c.step()
    if c.kinds[c.at] != WORD:
        raise c.fail(f"expected a register after '|', found {c.shown()}")
    start = c.starts[c.at]
    name = c.texts[c.at]
    c.step()
    return Pair(left, Name(name, (start, start + len(name))), c.span(first))


def _negated(c: Cursor) -> Operand:
    first = c.at
    if c.kinds[c.after(first)] != WORD or c.texts[c.after(first)] == "WARP_SZ":
        return immediate(c)
    c.step()
    start = c.at
    name = c.word("a predicate after '!'")
    return Not(Name(name, c.span(start)), c.span(first))


def _list_to(c: Cursor, closing: str, depth: int) -> tuple[Operand, ...]:
    items: list[Operand] = []
    if c.take(closing):
        return ()
    while True:
        items.append(operand(c, depth + 1))
        if c.take(closing):
            return tuple(items)
        c.need(",")


def _bracket(c: Cursor, depth: int) -> Address | BracketList:
    first = c.at
    c.step()
    items: list[Operand] = [_address(c, depth)]
    if c.take("]"):
        only = items[0]
        return replace(only, span=c.span(first)) if isinstance(only, Address) else BracketList((only,), c.span(first))
    while c.take(","):
        items.append(operand(c, depth + 1))
    c.need("]")
    plain = tuple(i.base if isinstance(i, Address) and i.offset is None else i for i in items)
    return BracketList(plain, c.span(first))


def _address(c: Cursor, depth: int) -> Operand:
    """The first thing in brackets: mostly ``base`` or ``base+offset``."""
    start = c.at
    text = c.texts[start]
    if c.kinds[start] == WORD and text != "WARP_SZ":
        c.step()
        base = Name(text, (c.starts[start], c.starts[start] + len(text)))
        if c.kinds[c.at] == DOTTED:
            selector = c.texts[c.at][1:]
            c.step()
            return Member(text, selector, c.span(start))
        if c.sees("["):
            return _indexed(c, text, start)
        if c.take("+"):
            return Address(base, immediate(c))
        if c.sees("-"):
            raise c.fail("PTX has no [register-constant]; write [register+-constant]", certain=True)
        return Address(base)
    if c.kinds[start] in (NUMBER, WORD) or text in ("-", "(", "+", "~"):
        return Address(immediate(c))
    return operand(c, depth + 1)


def _parenthesis(c: Cursor, depth: int) -> Operand:
    """``(a, b)`` of a call, or a constant expression that begins with a parenthesis."""
    first = c.at
    inner = c.after(first)
    if c.kinds[inner] == NUMBER or c.texts[inner] in ("(", "-", "~", "+", "!", ".s64", ".u64", "WARP_SZ"):
        hoisted = len(c.hoisted)
        try:
            return immediate(c)
        except Failure:
            c.at = first
            del c.hoisted[hoisted:]
    c.step()
    return ArgumentList(_list_to(c, ")", depth), c.span(first))
