"""The tree as PTX text: one statement a line, tab-indented, as NVVM prints it."""

from __future__ import annotations

import re

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
    Immediate,
    Indexed,
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

_OPAQUE = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
"""Strings and comments: what looks like a comment inside them is none."""


class _Lines:
    """Text under way. Pieces are kept apart until the end: a line may get any number of comments."""

    __slots__ = ("closed", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.closed = True
        """Whether nothing can follow on the last line: there is none, or it ends in a // comment."""

    def add(self, line: str) -> None:
        if self.pieces:
            self.pieces.append("\n")
        self.pieces.append(line)
        self.closed = "//" in line and _ends_in_line_comment(line)

    def trail(self, comment: str) -> bool:
        """Puts a comment behind the last line, if that can take one."""
        if self.closed:
            return False
        self.pieces += (" ", comment)
        self.closed = comment.startswith("//")
        return True

    def text(self) -> str:
        return "".join(self.pieces) + "\n" if self.pieces else ""


def _ends_in_line_comment(line: str) -> bool:
    last = None
    for last in _OPAQUE.finditer(line):  # noqa: B007
        pass
    return last is not None and last.group().startswith("//") and last.end() == len(line)


def print_module(module: Module) -> str:
    """PTX text that parses to an equal module."""
    lines = _Lines()
    for item in module.items:
        _add(lines, item)
    return lines.text()


def print_statement(statement: Statement, indent: str = "\t") -> str:
    """One statement without its final line end (a Block takes several lines)."""
    lines = _Lines()
    _statement(lines, statement, indent)
    return lines.text().removesuffix("\n")


def print_statements(statements: tuple[Statement, ...], indent: str = "\t") -> str:
    """Statements one after another, each line ended."""
    lines = _Lines()
    for statement in statements:
        _statement(lines, statement, indent)
    return lines.text()


def print_operand(operand: Operand) -> str:
    match operand:
        case Name(text=text) | Immediate(text=text):
            return text
        case Member(name=name, selector=selector):
            return f"{name}.{selector}"
        case Address(base=base, offset=offset):
            return f"[{base.text}]" if offset is None else f"[{base.text}+{offset.text}]"
        case SymbolOffset(name=name, offset=offset):
            return name + offset
        case Indexed(name=name, index=index):
            return f"{name}[{index}]"
        case Vector(items=items):
            return "{" + _list(items) + "}"
        case BracketList(items=items):
            return "[" + _list(items) + "]"
        case ArgumentList(items=items):
            return "(" + _list(items) + ")"
        case Not(operand=inner):
            return "!" + inner.text
        case Pair(first=first, second=second):
            return f"{print_operand(first)}|{print_operand(second)}"


def print_variable(variable: Variable) -> str:
    """A declaration without its semicolon, as it also stands in a parameter list."""
    words = [*variable.linkage, variable.space, *variable.prefix]
    if variable.vector:
        words.append(variable.vector)
    words.append(variable.type)
    words.extend(variable.suffix)
    text = " ".join(words)
    if variable.names:
        text += " " + ", ".join(_declarator(d) for d in variable.names)
    return text


def print_directive(directive: Directive) -> str:
    gap = " " if directive.arguments and not directive.name.startswith("@@") else ""
    return f"{directive.name}{gap}{directive.arguments}{';' if directive.terminated else ''}"


def _list(items: tuple[Operand, ...]) -> str:
    return ", ".join(print_operand(i) for i in items)


def _declarator(declarator: Declarator) -> str:
    dims = "".join(f"[{d}]" for d in declarator.dims)
    value = f" = {declarator.initializer}" if declarator.initializer else ""
    return f"{declarator.name}{dims}{value}"


def _add(lines: _Lines, item: Item) -> None:
    match item:
        case Function():
            _function(lines, item)
        case Variable():
            lines.add(print_variable(item) + ";")
        case Section(name=name, text=text):
            lines.add(f"\t.section\t{name}\n\t{{\n{text}\n\t}}" if text else f"\t.section\t{name}\n\t{{\n\t}}")
        case Directive():
            lines.add(print_directive(item))
        case _:
            _statement(lines, item, "")


def _function(lines: _Lines, function: Function) -> None:
    words = [*function.linkage, function.kind, *(print_directive(q) for q in function.qualifiers)]
    if function.returns:
        words.append("(" + ", ".join(print_variable(p) for p in function.returns) + ")")
    words.append(function.name)
    head = " ".join(words)
    if function.parameters:
        head += "(\n" + ",\n".join("\t" + print_variable(p) for p in function.parameters) + "\n)"
    else:
        head += "()"
    for attribute in function.attributes:
        head += "\n" + print_directive(attribute)
    if function.body is None:
        lines.add(head + "\n;" if function.attributes else head + ";")
        return
    lines.add(head)
    lines.add("{")
    for statement in function.body.statements:
        _statement(lines, statement, "\t")
    lines.add("}")


def _statement(lines: _Lines, statement: Statement, indent: str) -> None:
    match statement:
        case Instruction():
            lines.add(indent + print_instruction(statement))
        case Label(name=name):
            lines.add(f"{name}:")
        case Comment(text=text, trailing=trailing):
            if not (trailing and lines.trail(text)):
                lines.add(text if text.startswith("#") else indent + text)
        case RegisterDeclaration(type=type_, names=names, vector=vector):
            listed = ", ".join(n if c is None else f"{n}<{c}>" for n, c in names)
            lines.add(f"{indent}.reg {vector + ' ' if vector else ''}{type_} {listed};")
        case Variable():
            lines.add(f"{indent}{print_variable(statement)};")
        case Directive():
            lines.add(indent + print_directive(statement))
        case BranchTargets(label=label, kind=kind, targets=targets):
            lines.add(f"{label}: {kind} {', '.join(targets)};")
        case CallPrototype(label=label, text=text):
            lines.add(f"{label}: .callprototype {text};")
        case Raw(text=text):
            lines.add(f"{indent}{text};")
        case Block():
            _block(lines, statement, indent)


def _block(lines: _Lines, block: Block, indent: str) -> None:
    """Blocks are walked with a stack: their depth is the input's, not ours to bound."""
    stack = [iter(block.statements)]
    lines.add(indent + "{")
    while stack:
        inner = indent + "\t" * min(len(stack), 8)
        for statement in stack[-1]:
            if isinstance(statement, Block):
                lines.add(inner + "{")
                stack.append(iter(statement.statements))
                break
            _statement(lines, statement, inner)
        else:
            stack.pop()
            lines.add(indent + "\t" * min(len(stack), 8) + "}")


def print_instruction(instruction: Instruction) -> str:
    """Guard, opcode, operands and the semicolon."""
    guard = instruction.guard
    head = f"@{'!' if guard.negated else ''}{guard.name} " if guard else ""
    text = head + instruction.full_opcode
    operands = instruction.operands
    if operands:
        text += " \t" if len(text) < 16 else " "
        text += ", ".join(print_operand(o) for o in operands)
    return text + ";"
