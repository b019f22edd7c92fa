"""Statements of a function's body: instructions, labels, scopes (PTX ISA 9.0, section 4.3 and chapter 9)."""

from __future__ import annotations

from hybridcc.ptx.grammar import declarations, directives
from hybridcc.ptx.grammar.cursor import Cursor, Failure
from hybridcc.ptx.grammar.operands import operands
from hybridcc.ptx.lexer import COMMENT, DOTTED, END, MARKER, WORD
from hybridcc.ptx.nodes import Block, BranchTargets, CallPrototype, Guard, Instruction, Label, Raw, Statement

_TARGET_LISTS = frozenset({".branchtargets", ".calltargets"})


def statements(c: Cursor, *, closed: bool) -> tuple[Statement, ...]:
    """Statements to the closing brace of this body (taken), or to the end if ``closed`` is false.

    Scopes are kept on a stack of our own: their depth is the input's, and must not exhaust Python's.
    """
    stack: list[tuple[int, list[Statement]]] = []
    current: list[Statement] = []
    opened = c.at - 1
    while True:
        kind, text = c.kinds[c.at], c.texts[c.at]
        if kind == END:
            if closed or stack:
                c.report("this '{' is never closed", stack[-1][0] if stack else opened)
            break
        if kind in (COMMENT, MARKER):
            current.append(c.comment((bool(current) or c.at > 0) and c.trails(c.at)))
            c.skip()
        elif text == "{":
            stack.append((c.at, current))
            current = []
            c.skip()
        elif text == "}":
            if not stack and closed:
                c.skip()
                return tuple(current)
            if not stack:
                c.report("this '}' closes nothing", c.at)
                c.skip()
                continue
            c.skip()
            current = _close(c, stack, current)
        else:
            _one(c, current)
    while stack:
        current = _close(c, stack, current)
    return tuple(current)


def _close(c: Cursor, stack: list[tuple[int, list[Statement]]], inner: list[Statement]) -> list[Statement]:
    begin, outer = stack.pop()
    outer.append(Block(tuple(inner), c.span(begin)))
    return outer


def _one(c: Cursor, current: list[Statement]) -> None:
    first = c.at
    try:
        found = _statement(c, first)
    except Failure as failure:
        c.report(failure.message, failure.token)
        c.at = max(c.at, min(first + 1, c.last))
        while not c.at_end() and c.texts[c.at] not in (";", "}"):
            c.skip()
        if c.texts[c.at] == ";":
            c.skip()
        found = None
    c.place(current, found)


def _statement(c: Cursor, first: int) -> Statement | None:
    kind, text = c.kinds[first], c.texts[first]
    if kind == WORD:
        return labelled(c) if c.texts[c.after(first)] == ":" else _instruction(c, first, None)
    if text == "@":
        return _guarded(c, first)
    if text == ";":
        c.drop()
        return None
    if kind != DOTTED:
        raise c.fail(f"expected a statement, found {c.shown()}")
    if text == ".reg":
        return declarations.registers(c)
    if text in declarations.SPACES or text in declarations.LINKAGES:
        return declarations.variable(c, first, declarations.linkage(c))
    if text in (".section", ".entry", ".func"):
        raise c.fail(f"{text} cannot stand in a body")
    return directives.directive(c)


def labelled(c: Cursor) -> Label | BranchTargets | CallPrototype:
    """A label, or a table or prototype under its label."""
    first = c.at
    name = c.texts[first]
    c.step()
    following = c.texts[c.after(c.at)]
    if following in _TARGET_LISTS:
        c.step()
        c.step()
        targets = [c.word("a label")]
        while c.take(","):
            targets.append(c.word("a label"))
        c.need(";")
        return BranchTargets(name, following, tuple(targets), c.span(first))
    if following == ".callprototype":
        c.step()
        c.step()
        begin = c.at
        while not c.sees(";"):
            if c.at_end() or c.texts[c.at] in ("{", "}"):
                raise c.fail("this prototype never ends", first)
            c.step()
        text = c.joined(begin, c.at)
        c.step()
        return CallPrototype(name, text, c.span(first))
    c.skip()
    return Label(name, c.span(first))


def _guarded(c: Cursor, first: int) -> Instruction | Raw:
    c.step()
    negated = c.take("!")
    name = c.word("a predicate after '@'")
    guard = Guard(name, negated, c.span(first))
    if c.kinds[c.at] != WORD or c.texts[c.after(c.at)] == ":":
        raise c.fail(f"expected an instruction after the guard, found {c.shown()}")
    return _instruction(c, first, guard)


def _instruction(c: Cursor, first: int, guard: Guard | None) -> Instruction | Raw:
    texts, kinds = c.texts, c.kinds
    opcode = texts[c.at]
    c.step()
    modifiers: list[str] = []
    while kinds[c.at] == DOTTED:
        modifiers.append(texts[c.at])
        c.step()
    try:
        given = operands(c, opcode)
    except Failure as failure:
        if failure.certain:
            raise
        return _raw(c, first, failure)
    c.skip()
    start = c.starts[first]
    return Instruction(opcode, tuple(modifiers), given, guard, (start, c.starts[c.at - 1] + 1))


def _raw(c: Cursor, first: int, failure: Failure) -> Raw:
    """An instruction whose operands this grammar does not know, word for word.

    It must end by ``;`` on brace depth 0, and nothing that only begins a statement may stand before that: otherwise
    a semicolon was forgotten, and that is what the message says.
    """
    at, depth = first, 0
    while True:
        text = c.texts[at]
        if c.kinds[at] == END or (text == "}" and depth == 0) or (at > first + 1 and text == "@"):
            raise failure
        if text == ";" and depth == 0:
            break
        depth += (text == "{") - (text == "}")
        if at > first and depth == 0 and c.kinds[at] == WORD and _begins_line(c, at) and c.texts[at - 1] != ",":
            raise failure
        at += 1
    c.at = first
    c.hoisted.clear()
    while c.at < at:
        c.step()
    text = c.joined(first, at)
    c.skip()
    return Raw(text, (c.starts[first], c.starts[at] + 1))


def _begins_line(c: Cursor, token: int) -> bool:
    return "\n" in c.source.text[c.starts[token - 1] + len(c.texts[token - 1]) : c.starts[token]]
