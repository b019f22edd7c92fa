"""PTX text to the tree of nodes.py: recursive descent over tokens, going on after an error.

Lossless by content: whatever ptxas accepts comes out of the printer meaning the same. A statement that this
grammar does not know is kept as Raw, never dropped. Scopes are parsed with an explicit stack, so that no depth
of braces can exhaust Python's.
"""

from __future__ import annotations

from dataclasses import replace

from hybridcc.errors import PtxSyntaxError
from hybridcc.ptx.lexer import COMMENT, DOTTED, END, MARKER, NUMBER, PUNCTUATION, STRING, WORD, tokenize
from hybridcc.ptx.nodes import (
    Address,
    ArgumentList,
    Block,
    BracketList,
    BranchTargets,
    CallPrototype,
    Comment,
    Declarator,
    Directive,
    Function,
    Guard,
    Immediate,
    Instruction,
    Item,
    Label,
    Member,
    Module,
    Name,
    Not,
    Operand,
    Pair,
    Raw,
    RegisterDeclaration,
    Section,
    Statement,
    SymbolOffset,
    Variable,
    Vector,
)
from hybridcc.ptx.source import Diagnostic, Source

_SPACES = frozenset({".const", ".global", ".local", ".shared", ".param", ".tex", ".sreg"})
_LINKAGES = frozenset({".extern", ".visible", ".weak", ".common"})
_VECTORS = frozenset({".v2", ".v4", ".v8"})
_TARGET_LISTS = frozenset({".branchtargets", ".calltargets"})
_OPERAND_DEPTH = 32
"""Deeper nesting of braces and brackets inside one operand is no PTX; it bounds the recursion."""
_MOST_DIAGNOSTICS = 20


class _Failure(Exception):
    """Internal: abandons the statement at hand; never leaves this module."""

    def __init__(self, message: str, token: int) -> None:
        self.message = message
        self.token = token


def parse(text: str, name: str = "<string>") -> Module:
    """A whole module. Raises PtxSyntaxError with every diagnostic found (at most 20)."""
    parser = _Parser(Source(name, text))
    items = parser.module()
    parser.raise_if_failed()
    return Module(tuple(items), parser.source)


def parse_statements(text: str, name: str = "<statements>") -> tuple[Statement, ...]:
    """A piece of a function body. Raises PtxSyntaxError."""
    parser = _Parser(Source(name, text))
    statements = parser.statements(closed=False)
    parser.raise_if_failed()
    return statements


class _Parser:
    def __init__(self, source: Source) -> None:
        tokens = tokenize(source)
        self.source = source
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.starts = tokens.starts
        self.diagnostics = tokens.diagnostics
        self.at = 0
        self.hoisted: list[Comment] = []

    # --- messages ---------------------------------------------------------------------------------------

    def raise_if_failed(self) -> None:
        if self.diagnostics:
            ordered = sorted(self.diagnostics, key=lambda d: d.span[0])
            raise PtxSyntaxError(tuple(ordered[:_MOST_DIAGNOSTICS]))

    def report(self, message: str, token: int) -> None:
        if len(self.diagnostics) < _MOST_DIAGNOSTICS:
            start = self.starts[token]
            self.diagnostics.append(Diagnostic(message, (start, start + max(1, len(self.texts[token]))), self.source))

    def shown(self) -> str:
        return repr(self.texts[self.at][:40]) if self.kinds[self.at] != END else "the end of the file"

    # --- tokens -----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Moves to the next token of a statement; comments in between are kept for before the statement."""
        self.at += 1
        while self.kinds[self.at] in (COMMENT, MARKER):
            self.hoisted.append(self.comment(self.trails(self.at)))
            self.at += 1

    def comment(self, trailing: bool = False) -> Comment:
        start, text = self.starts[self.at], self.texts[self.at].rstrip("\r ")
        return Comment(text, trailing, (start, start + len(text)))

    def is_(self, text: str) -> bool:
        return self.texts[self.at] == text and self.kinds[self.at] != STRING

    def take(self, text: str) -> bool:
        if self.texts[self.at] == text:
            self.step()
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise _Failure(f"expected {text!r} before {self.shown()}", self.at)

    def word(self, what: str) -> str:
        if self.kinds[self.at] != WORD:
            raise _Failure(f"expected {what}, found {self.shown()}", self.at)
        text = self.texts[self.at]
        self.step()
        return text

    def span(self, first: int) -> tuple[int, int]:
        """From token ``first`` to the last token that was taken."""
        last = max(first, self.at - 1)
        while last > first and self.kinds[last] in (COMMENT, MARKER):
            last -= 1
        return self.starts[first], self.starts[last] + len(self.texts[last])

    def joined(self, first: int, last: int) -> str:
        """Tokens first..last-1 as text: source spelling, white space and comments reduced to one space."""
        parts: list[str] = []
        previous_end = None
        for i in range(first, last):
            if self.kinds[i] == COMMENT:
                continue
            if previous_end is not None and self.starts[i] > previous_end:
                parts.append(" ")
            parts.append(self.texts[i])
            previous_end = self.starts[i] + len(self.texts[i])
        return "".join(parts)

    # --- module -----------------------------------------------------------------------------------------

    def module(self) -> list[Item]:
        items: list[Item] = []
        while self.kinds[self.at] != END:
            first = self.at
            if self.kinds[first] in (COMMENT, MARKER):
                items.append(self.comment(self.trails(first)))
                self.at += 1
                continue
            try:
                item = self.item()
            except _Failure as failure:
                self.report(failure.message, failure.token)
                self.recover(first)
                item = None
            self.place(items, item)
        return items

    def take_hoisted(self) -> list[Comment]:
        found, self.hoisted = self.hoisted, []
        return found

    def place(self, target: list, node: Item | Statement | None) -> None:
        """Appends a node; comments from inside it go before it, those met after its last token follow it."""
        hoisted = self.hoisted
        if not hoisted:
            if node is not None:
                target.append(node)
            return
        self.hoisted = []
        end = node.span[1] if node is not None else -1
        target.extend(replace(c, trailing=False) for c in hoisted if c.span[0] < end)
        if node is not None:
            target.append(node)
        target.extend(c for c in hoisted if c.span[0] >= end)

    def trails(self, token: int) -> bool:
        """Whether a comment stands on the line where the token before it ends."""
        if token == 0:
            return False
        end = self.starts[token - 1] + len(self.texts[token - 1])
        return "\n" not in self.source.text[end : self.starts[token]]

    def recover(self, first: int) -> None:
        """Skips to after the next ``;`` or balanced ``}``, always at least one token."""
        self.at = max(self.at, first + 1)
        depth = 0
        while self.kinds[self.at] != END:
            text = self.texts[self.at]
            self.at += 1
            if text == "{":
                depth += 1
            elif text == "}":
                depth -= 1
                if depth <= 0:
                    return
            elif text == ";" and depth == 0:
                return

    def item(self) -> Item | None:
        first = self.at
        text = self.texts[first]
        if text == ";":
            self.step()
            return None
        if text == "@":
            return self.dwarf_line(first)
        if self.kinds[first] == WORD and self.texts[first + 1] == ":":
            return self.labelled(first)  # type: ignore[return-value]
        if self.kinds[first] != DOTTED:
            raise _Failure(f"expected a directive, found {self.shown()}", first)
        linkage: list[str] = []
        while self.texts[self.at] in _LINKAGES:
            linkage.append(self.texts[self.at])
            self.step()
        text = self.texts[self.at]
        if text in (".entry", ".func"):
            return self.function(first, tuple(linkage))
        if text in _SPACES:
            return self.variable(first, tuple(linkage))
        if linkage:
            raise _Failure(
                f"expected .entry, .func or a state space after {linkage[-1]}, found {self.shown()}", self.at
            )
        if text == ".section":
            return self.section(first)
        return self.directive(first)

    def dwarf_line(self, first: int) -> Directive:
        """``@@DWARF …`` of PTX 1.x: word for word to the end of its line."""
        start = self.starts[first]
        end = self.source.text.find("\n", start)
        end = len(self.source.text) if end < 0 else end
        while self.kinds[self.at] != END and self.starts[self.at] < end:
            self.at += 1
        text = self.source.text[start:end].rstrip()
        if not text.startswith("@@"):
            raise _Failure("expected a directive, found '@'", first)
        return Directive("@@", text[2:], False, (start, end))

    def function(self, first: int, linkage: tuple[str, ...]) -> Function:
        kind = self.texts[self.at]
        self.step()
        early: list[Directive] = []
        while self.kinds[self.at] == DOTTED:
            early.append(self.attribute())
        returns: tuple[Variable, ...] = ()
        if self.is_("("):
            returns = self.parameters()
        name = self.word("the name of the function")
        parameters = self.parameters() if self.is_("(") else ()
        attributes = early
        while self.kinds[self.at] == DOTTED:
            attributes.append(self.attribute())
        if self.take(";"):
            return Function(kind, name, parameters, returns, linkage, tuple(attributes), None, self.span(first))
        if not self.is_("{"):
            raise _Failure(f"expected '{{' or ';' after the head of {name}, found {self.shown()}", self.at)
        head_comments = self.take_hoisted()
        opened = self.at
        self.at += 1
        statements = self.statements(closed=True)
        self.hoisted = head_comments
        body = Block(statements, self.span(opened))
        return Function(kind, name, parameters, returns, linkage, tuple(attributes), body, self.span(first))

    def attribute(self) -> Directive:
        """A directive between a function's head and its body; ends where the next begins."""
        first = self.at
        name = self.texts[first]
        self.step()
        begin = self.at
        depth = 0
        while self.kinds[self.at] in (NUMBER, STRING, PUNCTUATION, WORD):
            text = self.texts[self.at]
            if depth == 0 and (text in ("{", ";") or (text == "(" and not name.startswith(".attribute"))):
                break
            if depth == 0 and self.kinds[self.at] == WORD and name not in (".abi_preserve", ".pragma"):
                break
            depth += (text == "(") - (text == ")")
            self.step()
        return Directive(name, self.joined(begin, self.at), False, self.span(first))

    def parameters(self) -> tuple[Variable, ...]:
        self.need("(")
        found: list[Variable] = []
        while not self.take(")"):
            first = self.at
            found.append(self.one_variable(first, ()))
            if not self.is_(")"):
                self.need(",")
        return tuple(found)

    # --- declarations -----------------------------------------------------------------------------------

    def variable(self, first: int, linkage: tuple[str, ...]) -> Variable:
        head = self.one_variable(first, linkage)
        names = list(head.names)
        while self.take(","):
            names.append(self.declarator())
        self.need(";")
        return replace(head, names=tuple(names), span=self.span(first))

    def one_variable(self, first: int, linkage: tuple[str, ...]) -> Variable:
        space = self.texts[self.at]
        if space not in _SPACES and space != ".reg":
            raise _Failure(f"expected a state space, found {self.shown()}", self.at)
        self.step()
        words: list[str] = []
        while self.kinds[self.at] == DOTTED:
            words.append(self.qualifier())
        vector = next((w for w in words if w in _VECTORS), "")
        plain = [i for i, w in enumerate(words) if _is_type(w)]
        if not plain:
            raise _Failure(f"expected a type after {space}, found {self.shown()}", self.at)
        type_at = plain[0]
        prefix = tuple(w for w in words[:type_at] if w != vector)
        suffix = tuple(w for w in words[type_at + 1 :] if w != vector)
        named = self.kinds[self.at] == WORD
        names = (self.declarator(),) if named else ()
        return Variable(space, words[type_at], names, linkage, prefix, vector, suffix, self.span(first))

    def qualifier(self) -> str:
        """``.align 8``, ``.attribute(.managed)``, ``.ptr``, ``.f32``, ``.v4`` as one word."""
        begin = self.at
        text = self.texts[begin]
        self.step()
        if text == ".align":
            if self.kinds[self.at] != NUMBER:
                raise _Failure(f"expected an alignment, found {self.shown()}", self.at)
            number = self.texts[self.at]
            self.step()
            return f".align {number}"
        if self.is_("(") and text in (".attribute", ".unified"):
            self.balanced("(", ")")
            return self.joined(begin, self.at)
        return text

    def declarator(self) -> Declarator:
        name = self.word("a name")
        dims: list[str] = []
        if self.is_("<"):
            self.step()
            begin = self.at
            while not self.is_(">") and self.kinds[self.at] != END:
                self.step()
            name = f"{name}<{self.joined(begin, self.at)}>"
            self.need(">")
        while self.take("["):
            begin = self.at
            while not self.is_("]"):
                if self.kinds[self.at] not in (NUMBER, WORD, PUNCTUATION) or self.is_(";"):
                    raise _Failure(f"expected ']' before {self.shown()}", self.at)
                self.step()
            dims.append(self.joined(begin, self.at))
            self.step()
        initializer = ""
        if self.take("="):
            begin = self.at
            depth = 0
            while not (depth == 0 and self.texts[self.at] in (",", ";")):
                if self.kinds[self.at] == END:
                    raise _Failure(f"the initialiser of {name} never ends", begin)
                depth += self.texts[self.at] in ("{", "(")
                depth -= self.texts[self.at] in ("}", ")")
                self.step()
            initializer = self.joined(begin, self.at)
        return Declarator(name, tuple(dims), initializer)

    def registers(self, first: int) -> RegisterDeclaration:
        self.step()
        vector = ""
        words: list[str] = []
        while self.kinds[self.at] == DOTTED:
            words.append(self.texts[self.at])
            self.step()
        for word in words:
            if word in _VECTORS:
                vector = word
        types = [w for w in words if w not in _VECTORS]
        if len(types) != 1:
            raise _Failure("expected one type after .reg", self.at)
        names: list[tuple[str, int | None]] = []
        while True:
            name = self.word("a register name")
            count = None
            if self.take("<"):
                if self.kinds[self.at] != NUMBER or not self.texts[self.at].isdigit() or len(self.texts[self.at]) > 9:
                    raise _Failure(f"expected a register count, found {self.shown()}", self.at)
                count = int(self.texts[self.at])
                self.step()
                self.need(">")
            names.append((name, count))
            if not self.take(","):
                break
        self.need(";")
        return RegisterDeclaration(types[0], tuple(names), vector, self.span(first))

    # --- directives -------------------------------------------------------------------------------------

    def directive(self, first: int) -> Directive:
        name = self.texts[first]
        if name == ".loc":
            return self.location(first)
        self.step()
        begin = self.at
        match name:
            case ".version" | ".address_size" | ".minnctapersm" | ".maxnreg":
                if self.kinds[self.at] not in (NUMBER, DOTTED):
                    raise _Failure(f"expected a number after {name}, found {self.shown()}", self.at)
                self.step()
            case ".target":
                self.comma_list()
            case ".file":
                self.file_arguments()
            case ".pragma" | ".alias":
                while not self.is_(";"):
                    if self.kinds[self.at] == END:
                        raise _Failure(f"expected ';' after {name}", first)
                    self.step()
            case _:
                return self.other_directive(first)
        text = self.joined(begin, self.at)
        return Directive(name, text, self.take(";"), self.span(first))

    def other_directive(self, first: int) -> Directive:
        """A directive this grammar has no rule for: to its semicolon, or to the end of its line."""
        line_end = self.source.text.find("\n", self.starts[first])
        line_end = len(self.source.text) if line_end < 0 else line_end
        begin = self.at
        while (
            self.kinds[self.at] != END
            and self.starts[self.at] < line_end
            and self.texts[self.at] not in (";", "}", "{")
        ):
            self.step()
        text = self.joined(begin, self.at)
        return Directive(self.texts[first], text, self.take(";"), self.span(first))

    def comma_list(self) -> None:
        self.step()
        while self.is_(","):
            self.step()
            self.step()

    def file_arguments(self) -> None:
        for kind in (NUMBER, STRING):
            if self.kinds[self.at] != kind:
                raise _Failure(f'expected .file NUMBER "NAME", found {self.shown()}', self.at)
            self.step()
        while self.is_(","):
            self.step()
            self.step()

    def location(self, first: int) -> Directive:
        """``.loc file line column[, function_name label[+offset], inlined_at file line column]``"""
        self.step()
        begin = self.at
        self.numbers(3)
        while self.is_(",") and self.texts[self.at + 1] in ("function_name", "inlined_at"):
            self.step()
            word = self.texts[self.at]
            self.step()
            if word == "inlined_at":
                self.numbers(3)
                continue
            self.word("a label after function_name")
            if self.take("+"):
                self.numbers(1)
        return Directive(".loc", self.joined(begin, self.at), self.take(";"), self.span(first))

    def numbers(self, count: int) -> None:
        for _ in range(count):
            if self.kinds[self.at] != NUMBER:
                raise _Failure(f"expected a number, found {self.shown()}", self.at)
            self.step()

    def section(self, first: int) -> Section:
        self.step()
        if self.kinds[self.at] not in (DOTTED, WORD):
            raise _Failure(f"expected the name of the section, found {self.shown()}", self.at)
        begin = self.at
        while self.kinds[self.at] in (DOTTED, WORD):
            self.step()
        name = self.joined(begin, self.at)
        if not self.is_("{"):
            raise _Failure(f"expected '{{' after .section {name}, found {self.shown()}", self.at)
        opened = self.starts[self.at] + 1
        self.balanced("{", "}")
        closed = (
            self.starts[self.at - 1]
            if self.texts[self.at - 1] == "}"
            else self.source.text.rfind("}", 0, self.starts[self.at])
        )
        text = self.source.text[opened:closed].replace("\r", "").lstrip("\n").rstrip()
        self.hoisted.clear()
        return Section(name, text, self.span(first))

    def balanced(self, opening: str, closing: str) -> None:
        first = self.at
        depth = 0
        while True:
            if self.kinds[self.at] == END:
                raise _Failure(f"this {opening!r} is never closed", first)
            depth += (self.texts[self.at] == opening) - (self.texts[self.at] == closing)
            self.step()
            if depth == 0:
                return

    # --- bodies -----------------------------------------------------------------------------------------

    def statements(self, closed: bool) -> tuple[Statement, ...]:
        """Statements to the closing brace of this body (taken), or to the end if ``closed`` is false."""
        stack: list[tuple[int, list[Statement]]] = []
        current: list[Statement] = []
        opened = self.at - 1
        while True:
            first = self.at
            kind = self.kinds[first]
            if kind == END:
                if closed or stack:
                    self.report("this '{' is never closed", opened if not stack else stack[-1][0])
                break
            if kind in (COMMENT, MARKER):
                current.append(self.comment(bool(current) and self.trails(first)))
                self.at += 1
                continue
            text = self.texts[first]
            if text == "{":
                stack.append((first, current))
                current = []
                self.at += 1
                continue
            if text == "}":
                if not stack:
                    if closed:
                        self.at += 1
                        break
                    self.report("this '}' closes nothing", first)
                    self.at += 1
                    continue
                self.at += 1
                begin, outer = stack.pop()
                outer.append(Block(tuple(current), self.span(begin)))
                current = outer
                continue
            self.one_statement(current)
        while stack:
            begin, outer = stack.pop()
            outer.append(Block(tuple(current), self.span(begin)))
            current = outer
        return tuple(current)

    def one_statement(self, current: list[Statement]) -> None:
        first = self.at
        try:
            statement = self.statement(first)
        except _Failure as failure:
            self.report(failure.message, failure.token)
            self.skip_statement(first)
            statement = None
        self.place(current, statement)

    def skip_statement(self, first: int) -> None:
        self.at = max(self.at, first + 1)
        while self.kinds[self.at] != END and self.texts[self.at] not in (";", "}"):
            self.at += 1
        if self.texts[self.at] == ";":
            self.at += 1

    def statement(self, first: int) -> Statement | None:
        kind, text = self.kinds[first], self.texts[first]
        if kind == WORD:
            if self.texts[first + 1] == ":":
                return self.labelled(first)
            return self.instruction(first, None)
        if text == "@":
            return self.guarded(first)
        if text == ";":
            self.at += 1
            return None
        if kind != DOTTED:
            raise _Failure(f"expected a statement, found {self.shown()}", first)
        if text == ".reg":
            return self.registers(first)
        if text in _SPACES or text in _LINKAGES:
            linkage: list[str] = []
            while self.texts[self.at] in _LINKAGES:
                linkage.append(self.texts[self.at])
                self.step()
            return self.variable(first, tuple(linkage))
        if text in (".section", ".entry", ".func"):
            raise _Failure(f"{text} cannot stand in a body", first)
        return self.directive(first)

    def guarded(self, first: int) -> Instruction | Raw:
        self.step()
        negated = self.take("!")
        start = self.at
        name = self.word("a predicate after '@'")
        if self.is_("."):
            raise _Failure("a guard is one predicate register", start)
        guard = Guard(name, negated, self.span(first))
        if self.kinds[self.at] != WORD or self.texts[self.at + 1] == ":":
            raise _Failure(f"expected an instruction after the guard, found {self.shown()}", self.at)
        return self.instruction(first, guard)

    def labelled(self, first: int) -> Statement:
        name = self.texts[first]
        self.at = first + 1
        following = self.texts[first + 2]
        if following in _TARGET_LISTS:
            self.step()
            self.step()
            targets = [self.word("a label")]
            while self.take(","):
                targets.append(self.word("a label"))
            self.need(";")
            return BranchTargets(name, following, tuple(targets), self.span(first))
        if following == ".callprototype":
            self.step()
            self.step()
            begin = self.at
            while not self.is_(";"):
                if self.kinds[self.at] == END:
                    raise _Failure("this prototype never ends", first)
                self.step()
            text = self.joined(begin, self.at)
            self.step()
            return CallPrototype(name, text, self.span(first))
        self.at = first + 2
        return Label(name, self.span(first))

    def instruction(self, first: int, guard: Guard | None) -> Instruction | Raw:
        kinds, texts = self.kinds, self.texts
        opcode = texts[self.at]
        self.step()
        modifiers: list[str] = []
        while kinds[self.at] == DOTTED:
            modifiers.append(texts[self.at])
            self.step()
        operands: list[Operand] = []
        try:
            if not self.is_(";"):
                operands.append(self.operand(0))
                while texts[self.at] == ",":
                    self.step()
                    operands.append(self.operand(0))
            if texts[self.at] != ";":
                raise _Failure(f"expected ';' before {self.shown()}", self.at)
        except _Failure as failure:
            return self.raw(first, failure)
        self.at += 1
        start = self.starts[first]
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard, (start, self.starts[self.at - 1] + 1))

    def raw(self, first: int, failure: _Failure) -> Raw:
        """An instruction whose operands this grammar does not know, word for word.

        It must end by ``;`` on brace depth 0, and no token that only opens a statement may stand before that:
        otherwise a semicolon was forgotten, and that is what the message says.
        """
        at, depth = first, 0
        while True:
            text = self.texts[at]
            if self.kinds[at] == END or (text == "}" and depth == 0):
                raise failure
            depth += (text == "{") - (text == "}")
            if text == ";" and depth == 0:
                break
            if at > first + 1 and text == "@":
                raise failure
            new_line = at > first and "\n" in self.source.text[self.starts[at - 1] : self.starts[at]]
            if new_line and depth == 0 and self.kinds[at] == WORD and self.texts[at - 1] != ",":
                raise failure
            at += 1
        text = self.joined(first, at)
        self.at = at + 1
        return Raw(text, (self.starts[first], self.starts[at] + 1))

    # --- operands ---------------------------------------------------------------------------------------

    def operand(self, depth: int) -> Operand:
        first = self.at
        kind, text = self.kinds[first], self.texts[first]
        if kind == WORD:
            return self.named(first)
        if kind == NUMBER:
            return self.immediate(first)
        if depth > _OPERAND_DEPTH:
            raise _Failure("operands are nested too deep", first)
        match text:
            case "[":
                return self.bracket(first, depth)
            case "{":
                self.step()
                items = self.list_to("}", depth)
                return Vector(items, self.span(first))
            case "(":
                return self.parenthesis(first, depth)
            case "!":
                self.step()
                start = self.at
                name = self.word("a predicate after '!'")
                return Not(Name(name, self.span(start)), self.span(first))
            case "-" | "+" | "~":
                return self.immediate(first)
        raise _Failure(f"expected an operand, found {self.shown()}", first)

    def named(self, first: int) -> Operand:
        text = self.texts[first]
        self.step()
        start = self.starts[first]
        following = self.texts[self.at]
        if following in (",", ";", "]", "}"):
            return Name(text, (start, start + len(text)))
        if self.kinds[self.at] == DOTTED:
            selector = following[1:]
            self.step()
            operand: Operand = Member(text, selector, self.span(first))
        elif following in ("+", "-") and self.kinds[self.at + 1] == NUMBER:
            self.step()
            begin = self.at
            self.constant()
            return SymbolOffset(text, following + self.joined(begin, self.at), self.span(first))
        else:
            operand = Name(text, (start, start + len(text)))
        if self.is_("|"):
            self.step()
            second_at = self.at
            if self.take("!"):
                raise _Failure("a destination cannot be negated", second_at)
            second = self.named(second_at) if self.kinds[second_at] == WORD else None
            if second is None:
                raise _Failure(f"expected a register after '|', found {self.shown()}", second_at)
            return Pair(operand, second, self.span(first))
        return operand

    def list_to(self, closing: str, depth: int) -> tuple[Operand, ...]:
        items: list[Operand] = []
        if self.take(closing):
            return ()
        while True:
            items.append(self.operand(depth + 1))
            if self.take(closing):
                return tuple(items)
            self.need(",")

    def bracket(self, first: int, depth: int) -> Address | BracketList:
        self.step()
        items: list[Operand] = [self.address_part(first, depth)]
        if self.take("]"):
            only = items[0]
            if isinstance(only, Address):
                return replace(only, span=self.span(first))
            return BracketList((only,), self.span(first))
        while self.take(","):
            items.append(self.operand(depth + 1))
        self.need("]")
        plain = tuple(i.base if isinstance(i, Address) and i.offset is None else i for i in items)
        return BracketList(plain, self.span(first))

    def address_part(self, first: int, depth: int) -> Operand:
        if self.kinds[self.at] == WORD:
            start = self.at
            text = self.texts[start]
            self.step()
            base: Name | Immediate | Member = Name(text, (self.starts[start], self.starts[start] + len(text)))
            if self.kinds[self.at] == DOTTED:
                member = Member(text, self.texts[self.at][1:], self.span(start))
                self.step()
                return member
            if self.is_("+"):
                self.step()
                return Address(base, self.offset())
            if self.is_("-"):
                raise _Failure("PTX has no [register-constant]; write [register+-constant]", self.at)
            return Address(base)
        if self.kinds[self.at] == NUMBER or self.texts[self.at] in ("-", "(", "+"):
            return Address(self.immediate(self.at))
        return self.operand(depth + 1)

    def offset(self) -> Immediate:
        return self.immediate(self.at)

    def parenthesis(self, first: int, depth: int) -> Operand:
        """``(a, b)`` of a call, or a constant expression that begins with a parenthesis."""
        if self.kinds[first + 1] in (NUMBER, PUNCTUATION) and self.texts[first + 1] != ")":
            saved, hoisted = self.at, len(self.hoisted)
            try:
                return self.immediate(first)
            except _Failure:
                self.at = saved
                del self.hoisted[hoisted:]
        self.step()
        return ArgumentList(self.list_to(")", depth), self.span(first))

    def immediate(self, first: int) -> Immediate:
        self.constant()
        return Immediate(self.joined(first, self.at), self.span(first))

    def constant(self) -> None:
        """Takes a constant expression (PTX ISA 4.5): to the next token that cannot belong to one."""
        first = self.at
        depth = 0
        while True:
            kind, text = self.kinds[self.at], self.texts[self.at]
            if kind == PUNCTUATION:
                if text == "(":
                    depth += 1
                elif text == ")":
                    if depth == 0:
                        break
                    depth -= 1
                elif text in "{}[];,@=" or (
                    text in (":", "|") and depth == 0 and text == ":" and not self.ternary(first)
                ):
                    break
            elif kind == DOTTED and text in (".s64", ".u64") and depth > 0:
                pass
            elif kind != NUMBER and not (kind == WORD and text == "WARP_SZ"):
                break
            self.step()
        if depth or self.at == first or not any(self.kinds[i] in (NUMBER, WORD) for i in range(first, self.at)):
            raise _Failure(f"expected a constant before {self.shown()}", self.at)

    def ternary(self, first: int) -> bool:
        return "?" in self.texts[first : self.at]


def _is_type(word: str) -> bool:
    return (word[1:2] in "busfp" and (word[2:3].isdigit() or word == ".pred") and word not in _VECTORS) or (
        word in (".texref", ".samplerref", ".surfref", ".bf16", ".bf16x2", ".tf32", ".e4m3x2", ".e5m2x2")
    )
