"""The tree as PTX text: one statement a line, tab-indented, as NVVM prints it."""

from __future__ import annotations

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


def print_module(module: Module) -> str:
    """PTX text that parses to an equal module."""
    lines: list[str] = []
    for item in module.items:
        _add(lines, item)
    return "\n".join(lines) + "\n" if lines else ""


def print_statement(statement: Statement, indent: str = "\t") -> str:
    """One statement without its final line end (a Block takes several lines)."""
    lines: list[str] = []
    _statement(lines, statement, indent)
    return "\n".join(lines)


def print_statements(statements: tuple[Statement, ...], indent: str = "\t") -> str:
    """Statements one after another, each line ended."""
    lines: list[str] = []
    for statement in statements:
        _statement(lines, statement, indent)
    return "\n".join(lines) + "\n" if lines else ""


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


def _add(lines: list[str], item: Item) -> None:
    match item:
        case Function():
            _function(lines, item)
        case Variable():
            lines.append(print_variable(item) + ";")
        case Section(name=name, text=text):
            lines.append(f"\t.section\t{name}\n\t{{\n{text}\n\t}}" if text else f"\t.section\t{name}\n\t{{\n\t}}")
        case Directive():
            lines.append(print_directive(item))
        case _:
            _statement(lines, item, "")


def _function(lines: list[str], function: Function) -> None:
    words = [*function.linkage, function.kind]
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
        lines.append(head + "\n;" if function.attributes else head + ";")
        return
    lines.append(head)
    lines.append("{")
    for statement in function.body.statements:
        _statement(lines, statement, "\t")
    lines.append("}")


def _statement(lines: list[str], statement: Statement, indent: str) -> None:
    match statement:
        case Instruction():
            lines.append(indent + print_instruction(statement))
        case Label(name=name):
            lines.append(f"{name}:")
        case Comment(text=text, trailing=trailing):
            if trailing and lines and not _ends_in_line_comment(lines[-1]) and "\n" not in text:
                lines[-1] += " " + text
            else:
                lines.append(text if text.startswith("#") else indent + text)
        case RegisterDeclaration(type=type_, names=names, vector=vector):
            listed = ", ".join(n if c is None else f"{n}<{c}>" for n, c in names)
            lines.append(f"{indent}.reg {vector + ' ' if vector else ''}{type_} {listed};")
        case Variable():
            lines.append(f"{indent}{print_variable(statement)};")
        case Directive():
            lines.append(indent + print_directive(statement))
        case BranchTargets(label=label, kind=kind, targets=targets):
            lines.append(f"{label}: {kind} {', '.join(targets)};")
        case CallPrototype(label=label, text=text):
            lines.append(f"{label}: .callprototype {text};")
        case Raw(text=text):
            lines.append(f"{indent}{text};")
        case Block():
            _block(lines, statement, indent)


def _block(lines: list[str], block: Block, indent: str) -> None:
    """Blocks are walked with a stack: their depth is the input's, not ours to bound."""
    stack = [iter(block.statements)]
    lines.append(indent + "{")
    while stack:
        inner = indent + "\t" * min(len(stack), 8)
        for statement in stack[-1]:
            if isinstance(statement, Block):
                lines.append(inner + "{")
                stack.append(iter(statement.statements))
                break
            _statement(lines, statement, inner)
        else:
            stack.pop()
            lines.append(indent + "\t" * min(len(stack), 8) + "}")


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


def _ends_in_line_comment(line: str) -> bool:
    return "//" in line.rsplit("\n", 1)[-1]
