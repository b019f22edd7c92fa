"""Modules under other names: every register, label and parameter renamed, and the form in which names say nothing.

Machine code does not depend on these names, so a renamed module assembles to the same code, and two compilations
that differ only in names, comments and positions have the same canonical key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from hybridcc.errors import InputError, RenameRefused
from hybridcc.ptx import debug, scopes
from hybridcc.ptx.nodes import (
    Block,
    BranchTargets,
    CallPrototype,
    Comment,
    Declarator,
    Directive,
    Function,
    Instruction,
    Item,
    Label,
    Module,
    Raw,
    RegisterDeclaration,
    Section,
    Statement,
    Variable,
)
from hybridcc.ptx.rename import names_in, rename_statement
from hybridcc.ptx.scopes import Scoped

Kind: TypeAlias = Literal["register", "label", "variable", "parameter"]
NewName: TypeAlias = Callable[[Kind, str, str], str]
"""Of kind, old name and declared type; called once for each, in order of appearance. Names must be distinct within
a function, and registers must begin with ``%``."""

_IDENTIFIER = re.compile(r"[A-Za-z_$%][A-Za-z0-9_$]*")
_POSITIONS = frozenset({".loc", ".file", "@@"})


def rename_module(module: Module, new: NewName) -> Module:
    """Every register, label, parameter and body variable under a new name; module-level names stay.

    Raises RenameRefused for a build for a debugger whose tables hold register names (-G), and for a module with
    statements that the parser does not know.
    """
    for item in module.items:
        if isinstance(item, Section) and (names := debug.register_names(item)):
            raise RenameRefused(
                "DEBUG",
                f"the section {item.name} was written for a debugger and holds the name {names[0]} as bytes",
                next_step="compile without -G (debug=False); line information alone does no harm",
            )
    labels: dict[str, str] = {}
    items: list[Item] = []
    for item in module.items:
        items.append(_renamed_function(item, module, new, labels) if isinstance(item, Function) else item)
    return replace(module, items=tuple(_in_debug_text(i, labels) for i in items))


def canonical(module: Module, entry: str) -> Module:
    """The kernel ``entry`` and what it uses, with names, comments, positions and header taken away.

    The kernel is called ``kernel`` and stands last, before it what it reaches, numbered in the order of its first
    mention; what is ``.extern`` keeps its name, since others know it by that. Raises InputError where there is no
    such entry, and RenameRefused for a statement that the parser does not know.
    """
    by_name = _by_name(module)
    found = by_name.get(entry)
    if not isinstance(found, Function) or found.body is None:
        names = ", ".join(f.name for f in module.entries) or "none"
        raise InputError(f"the module has no entry {entry!r}", next_step=f"its entries are: {names}")
    symbols = {entry: "kernel"}
    items: list[Item] = []
    waiting = [entry]
    for name in waiting:
        item = by_name[name]
        made = _canonical_function(item, module) if isinstance(item, Function) else item
        items.append(made)
        for mentioned in _mentions(item, by_name):
            if mentioned not in symbols:
                symbols[mentioned] = _symbol(by_name[mentioned], len(symbols))
                waiting.append(mentioned)
    declared_first = sorted(reversed(items), key=lambda i: isinstance(i, Function))
    return Module(tuple(_rename_symbols(i, symbols) for i in declared_first))


def canonical_key(module: Module, entry: str) -> str:
    """SHA-256, in hexadecimal, of the canonical form's text. Raises as canonical() does."""
    return hashlib.sha256(str(canonical(module, entry)).encode()).hexdigest()


# --- one function ---------------------------------------------------------------------------------------


def _renamed_function(function: Function, module: Module, new: NewName, labels: dict[str, str]) -> Function:
    """The function under new names; ``labels`` gets its labels by their spelling."""
    scoped = scopes.resolve(function, module)
    _refuse_raw(scoped)
    outside = {scoped.spelling(n): n for n, at in scoped.declared_at.items() if at == -1}
    declared = [d.name for p in (*function.returns, *function.parameters) for d in p.names]
    parameters = frozenset(outside[name] for name in declared)
    names: dict[str, str] = {}

    def rename(unique: str) -> str:
        found = names.get(unique)
        if found is None:
            found = names[unique] = _choose(scoped, unique, parameters, new)
        return found

    def renamed(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return tuple(
            replace(v, names=tuple(replace(d, name=rename(outside[d.name])) for d in v.names)) for v in variables
        )

    made = replace(function, returns=renamed(function.returns), parameters=renamed(function.parameters))
    if function.body is None:
        return made
    for statement in scoped.statements:
        if not isinstance(statement, RegisterDeclaration):
            for name in names_in(statement):
                rename(name)
    statements = iter([_statement(s, i, scoped, rename) for i, s in enumerate(scoped.statements)])
    labels.update({scoped.spelling(old): name for old, name in names.items() if old in scoped.labels})
    return replace(made, body=_nest(function.body, statements))


def _choose(scoped: Scoped, unique: str, parameters: frozenset[str], new: NewName) -> str:
    spelling = scoped.spelling(unique)
    if unique in scoped.types:
        return new("register", spelling, scoped.types[unique])
    if unique in scoped.labels:
        return new("label", spelling, "")
    if unique in parameters:
        return new("parameter", spelling, scoped.variables[unique].type)
    if scoped.declared_at.get(unique, -1) >= 0:
        return new("variable", spelling, scoped.variables[unique].type)
    return spelling


def _statement(statement: Statement, index: int, scoped: Scoped, rename: Callable[[str], str]) -> tuple[Statement, ...]:
    match statement:
        case RegisterDeclaration():
            declared = [n for n, at in scoped.declared_at.items() if at == index]
            if not declared:
                return ()
            return (replace(statement, names=tuple((rename(n), None) for n in declared)),)
        case Variable():
            return (replace(statement, names=tuple(_declarator(d, scoped, index, rename) for d in statement.names)),)
        case CallPrototype():
            return (replace(statement, label=rename(statement.label)),)
    return (rename_statement(statement, rename),)


DECLARE_ALONE = "declare each variable by its own name"
LEFT_AS_IT_IS = "the module cannot be renamed; build it as it is"


def _declarator(declarator: Declarator, scoped: Scoped, index: int, rename: Callable[[str], str]) -> Declarator:
    """Under its new name; a family ``p<4>`` keeps its stem, since its members do."""
    if "<" in declarator.name:
        raise RenameRefused(
            "FAMILY", f"the variables {declarator.name} are declared as a family", next_step=DECLARE_ALONE
        )
    value = _IDENTIFIER.sub(lambda m: rename(m[0]) if m[0] in scoped.variables else m[0], declarator.initializer)
    return Declarator(rename(declarator.name), declarator.dims, value)


def _nest(body: Block, statements: Iterator[tuple[Statement, ...]]) -> Block:
    """Puts new statements in the places of the old ones (see Scoped.statements)."""
    stack: list[tuple[Iterator[Statement], list[Statement]]] = [(iter(body.statements), [])]
    while True:
        old, made = stack[-1]
        for statement in old:
            if isinstance(statement, Block):
                stack.append((iter(statement.statements), []))
                break
            made.extend(next(statements))
        else:
            stack.pop()
            block = Block(tuple(made))
            if not stack:
                return block
            stack[-1][1].append(block)


def _refuse_raw(scoped: Scoped) -> None:
    for statement in scoped.statements:
        if isinstance(statement, Raw):
            raise RenameRefused(
                "RAW_STATEMENT", f"hybridcc does not know this statement: {statement.text};", next_step=LEFT_AS_IT_IS
            )


def _in_debug_text(item: Item, labels: dict[str, str]) -> Item:
    """Line tables name labels of bodies: in sections, and in the @@DWARF lines of PTX 1.x."""
    match item:
        case Section(text=text):
            return replace(item, text=_IDENTIFIER.sub(lambda m: labels.get(m[0], m[0]), text))
        case Directive(name="@@", arguments=text):
            return replace(item, arguments=_IDENTIFIER.sub(lambda m: labels.get(m[0], m[0]), text))
    return item


# --- the canonical form ---------------------------------------------------------------------------------


def _by_name(module: Module) -> dict[str, Function | Variable]:
    """Module-level names; of a function's declaration and definition, the definition."""
    found: dict[str, Function | Variable] = {}
    for item in module.items:
        if isinstance(item, Function):
            if item.body is not None or item.name not in found:
                found[item.name] = item
        elif isinstance(item, Variable):
            for declarator in item.names:
                found[declarator.name] = replace(item, names=(declarator,))
    return found


def _symbol(item: Function | Variable, number: int) -> str:
    if isinstance(item, Function):
        return f"function{number}" if item.body is not None else item.name
    return item.names[0].name if ".extern" in item.linkage and item.space != ".shared" else f"variable{number}"


def _mentions(item: Function | Variable, known: dict[str, Function | Variable]) -> Iterator[str]:
    """Module-level names that the item uses, in order."""
    if isinstance(item, Variable):
        yield from (m[0] for m in _IDENTIFIER.finditer(item.names[0].initializer) if m[0] in known)
        return
    scoped = scopes.resolve(item, Module(tuple(known.values())))
    for statement in scoped.statements:
        names = list(names_in(statement))
        if isinstance(statement, Variable):
            names += [m[0] for d in statement.names for m in _IDENTIFIER.finditer(d.initializer)]
        for name in names:
            if name in known and scoped.declared_at.get(name, -1) == -1 and name not in scoped.types:
                yield name


def _canonical_function(function: Function, module: Module) -> Function:
    bare = replace(function, body=_kept(function.body, _means_something), linkage=())
    once = _numbered(bare, module)
    if once.body is None:
        return once
    used = _mentioned(once.body)
    return _numbered(replace(once, body=_registers_first(_kept(once.body, lambda s: _is_used(s, used)), used)), module)


def _numbered(function: Function, module: Module) -> Function:
    counts: dict[str, int] = {}

    def new(kind: Kind, _: str, type_: str) -> str:
        stem = {"register": f"%{type_[1:]}_", "label": "$L", "variable": "v", "parameter": "p"}[kind]
        counts[stem] = counts.get(stem, -1) + 1
        return f"{stem}{counts[stem]}"

    return _renamed_function(function, module, new, {})


def _kept(body: Block | None, wanted: Callable[[Statement], bool]) -> Block | None:
    if body is None:
        return None
    return _nest(body, iter([(s,) if wanted(s) else () for s in scopes.flatten(body)]))


def _means_something(statement: Statement) -> bool:
    return not (isinstance(statement, Comment) or (isinstance(statement, Directive) and statement.name in _POSITIONS))


def _mentioned(body: Block) -> set[str]:
    """Names that instructions and tables of targets use."""
    used: set[str] = set()
    for statement in scopes.flatten(body):
        if isinstance(statement, Instruction):
            used.update(names_in(statement))
        elif isinstance(statement, BranchTargets):
            used.update(statement.targets)
    return used


def _is_used(statement: Statement, used: set[str]) -> bool:
    return not isinstance(statement, Label) or statement.name in used


def _registers_first(body: Block | None, used: set[str]) -> Block | None:
    """The registers that are used, declared at the head by type: how they were grouped is the producer's habit."""
    if body is None:
        return None
    by_type: dict[tuple[str, str], list[str]] = {}
    for statement in scopes.flatten(body):
        if isinstance(statement, RegisterDeclaration):
            names = by_type.setdefault((statement.type, statement.vector), [])
            names.extend(name for name, _ in statement.names if name in used)
    head = tuple(
        RegisterDeclaration(type_, tuple((n, None) for n in sorted(names, key=_by_number)), vector)
        for (type_, vector), names in sorted(by_type.items())
        if names
    )
    rest = _kept(body, lambda s: not isinstance(s, RegisterDeclaration))
    return None if rest is None else replace(rest, statements=head + rest.statements)


def _by_number(name: str) -> tuple[int, str]:
    return len(name), name


def _rename_symbols(item: Item, symbols: dict[str, str]) -> Item:
    def new(name: str) -> str:
        return symbols.get(name, name)

    match item:
        case Variable(names=(declarator,)):
            value = _IDENTIFIER.sub(lambda m: new(m[0]), declarator.initializer)
            named = replace(declarator, name=new(declarator.name), initializer=value)
            return replace(item, linkage=tuple(w for w in item.linkage if w == ".extern"), names=(named,))
        case Function(body=None):
            return replace(item, name=new(item.name))
        case Function(body=Block() as body):
            statements = iter([(rename_statement(s, new),) for s in scopes.flatten(body)])
            return replace(item, name=new(item.name), body=_nest(body, statements))
    return item
