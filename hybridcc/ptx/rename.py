"""Renaming, as one walk over a statement's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, assert_never

from hybridcc.ptx.nodes import (
    Address,
    ArgumentList,
    Block,
    BracketList,
    BranchTargets,
    CallPrototype,
    Comment,
    Directive,
    Immediate,
    Indexed,
    Instruction,
    Label,
    Member,
    Name,
    Not,
    Operand,
    Pair,
    Raw,
    RegisterDeclaration,
    Statement,
    SymbolOffset,
    Variable,
    Vector,
)

Renaming: TypeAlias = Callable[[str], str]


def rename_statement(statement: Statement, new: Renaming) -> Statement:
    """The statement with every register, label and variable name replaced by ``new(name)``.

    Text that is kept word for word (comments, other directives, raw statements, prototypes) is left as it is.
    """
    match statement:
        case Instruction():
            guard = statement.guard
            return replace(
                statement,
                operands=tuple(rename_operand(o, new) for o in statement.operands),
                guard=None if guard is None else replace(guard, name=new(guard.name)),
            )
        case Label():
            return replace(statement, name=new(statement.name))
        case RegisterDeclaration():
            return replace(statement, names=tuple((new(n), count) for n, count in statement.names))
        case Variable():
            return replace(statement, names=tuple(replace(d, name=new(d.name)) for d in statement.names))
        case BranchTargets():
            return replace(statement, label=new(statement.label), targets=tuple(new(t) for t in statement.targets))
        case Block():
            return replace(statement, statements=tuple(rename_statement(s, new) for s in statement.statements))
        case CallPrototype() | Comment() | Directive() | Raw():
            return statement
        case _:
            assert_never(statement)


def rename_operand(operand: Operand, new: Renaming) -> Operand:
    """rename_statement(), for one operand."""
    match operand:
        case Name():
            return replace(operand, text=new(operand.text))
        case Member() | SymbolOffset() | Indexed():
            return replace(operand, name=new(operand.name))
        case Immediate():
            return operand
        case Address():
            base = operand.base
            return replace(operand, base=Name(new(base.text), base.span)) if isinstance(base, Name) else operand
        case BracketList() | Vector() | ArgumentList():
            return replace(operand, items=tuple(rename_operand(i, new) for i in operand.items))
        case Not():
            return replace(operand, operand=Name(new(operand.operand.text), operand.operand.span))
        case Pair():
            return replace(
                operand, first=rename_operand(operand.first, new), second=rename_operand(operand.second, new)
            )
        case _:
            assert_never(operand)


def names_in(statement: Statement) -> tuple[str, ...]:
    """Every name the statement spells, in order of appearance, repeats and all."""
    found: list[str] = []

    def note(name: str) -> str:
        found.append(name)
        return name

    if isinstance(statement, Instruction) and statement.guard is not None:
        note(statement.guard.name)
        statement = replace(statement, guard=None)
    rename_statement(statement, note)
    return tuple(found)
