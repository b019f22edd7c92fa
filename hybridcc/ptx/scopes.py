"""Which declaration a name means: PTX scopes resolved, the body flattened (PTX ISA 9.0, section 4.4 and 5.4).

``{ }`` is a scope. Registers, variables and labels share one name space; an inner declaration hides an outer one;
a label may be branched to from its own scope and from scopes inside it. ``.reg %r<4>`` declares %r0 to %r3, and a
use may write leading zeros (``%r01`` is ``%r1``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hybridcc.ptx.nodes import (
    Address,
    ArgumentList,
    Block,
    BracketList,
    BranchTargets,
    CallPrototype,
    Function,
    Instruction,
    Label,
    Member,
    Module,
    Name,
    Not,
    Operand,
    Pair,
    RegisterDeclaration,
    Statement,
    SymbolOffset,
    Variable,
    Vector,
)

_NUMBERED = re.compile(r"(.*?)(0*)([0-9]+)$", re.DOTALL)


@dataclass(frozen=True)
class Scoped:
    """A flattened body: no Block is left, and every register, variable and label has a name of its own.

    ``statements`` keep source order; ``depths`` gives for each the number of inner scopes around it. ``types`` maps
    each unique register to its declared type (".b32"), ``vectors`` those declared with a vector to ".v2"/".v4".
    ``variables`` maps the unique name of each variable visible in the body (its own, parameters, module scope) to its
    declaration. ``spellings`` maps unique names back where they differ from the source.
    """

    statements: tuple[Statement, ...]
    depths: tuple[int, ...]
    types: dict[str, str]
    vectors: dict[str, str]
    variables: dict[str, Variable]
    labels: frozenset[str]
    spellings: dict[str, str] = field(repr=False)

    def spelling(self, name: str) -> str:
        """The name as the source spells it."""
        return self.spellings.get(name, name)

    def is_register(self, name: str) -> bool:
        return name in self.types

    def is_variable(self, name: str) -> bool:
        return name in self.variables


def resolve(function: Function, module: Module | None = None) -> Scoped:
    """Resolves a function that has a body. Names declared nowhere stay as they are (special registers, callees)."""
    resolver = _Resolver(module)
    resolver.parameters(function)
    if function.body is not None:
        resolver.walk(function.body)
    return resolver.result()


def map_names(statement: Statement, rename: Callable[[str], str]) -> Statement:
    """The statement with every name replaced: operands, guards, labels and declarations alike; not in Blocks."""
    match statement:
        case Instruction(operands=operands, guard=guard):
            new = tuple(map_operand(o, rename) for o in operands)
            return replace(statement, operands=new, guard=guard and replace(guard, name=rename(guard.name)))
        case Label(name=name):
            return replace(statement, name=rename(name))
        case BranchTargets(label=label, targets=targets):
            return replace(statement, label=rename(label), targets=tuple(rename(t) for t in targets))
        case CallPrototype(label=label):
            return replace(statement, label=rename(label))
        case Variable(names=names):
            return replace(statement, names=tuple(replace(d, name=rename(d.name)) for d in names))
        case _:
            return statement


def map_operand(operand: Operand, rename: Callable[[str], str]) -> Operand:
    """The operand with every name replaced."""
    match operand:
        case Name(text=text):
            new = rename(text)
            return operand if new == text else replace(operand, text=new)
        case Member(name=name) | SymbolOffset(name=name):
            return replace(operand, name=rename(name))
        case Address(base=Name() as base):
            new_base = replace(base, text=rename(base.text))
            return operand if new_base == base else replace(operand, base=new_base)
        case Vector(items=items) | BracketList(items=items) | ArgumentList(items=items):
            return replace(operand, items=tuple(map_operand(i, rename) for i in items))
        case Not(operand=inner):
            return replace(operand, operand=replace(inner, text=rename(inner.text)))
        case Pair(first=first, second=second):
            return replace(operand, first=map_operand(first, rename), second=map_operand(second, rename))
        case _:
            return operand


@dataclass
class _Scope:
    outer: _Scope | None
    names: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, int] = field(default_factory=dict)
    """Prefix of ``%r<n>`` to n; the registers of a range get their unique names at their first use."""
    range_types: dict[str, tuple[str, str]] = field(default_factory=dict)


class _Resolver:
    def __init__(self, module: Module | None) -> None:
        self.statements: list[Statement] = []
        self.depths: list[int] = []
        self.types: dict[str, str] = {}
        self.vectors: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.labels: set[str] = set()
        self.spellings: dict[str, str] = {}
        self.taken: set[str] = set()
        self.scope = _Scope(None)
        for item in module.items if module else ():
            if isinstance(item, Variable):
                self.declare_variable(item)

    def parameters(self, function: Function) -> None:
        self.scope = _Scope(self.scope)
        for parameter in (*function.returns, *function.parameters):
            if parameter.space == ".reg":
                for declarator in parameter.names:
                    self.types[self.bind(declarator.name)] = parameter.type
            else:
                self.declare_variable(parameter)

    def result(self) -> Scoped:
        return Scoped(
            tuple(self.statements),
            tuple(self.depths),
            self.types,
            self.vectors,
            self.variables,
            frozenset(self.labels),
            self.spellings,
        )

    # --- names ------------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """``name`` itself the first time, ``name#2`` and so on after; no PTX name holds a '#'."""
        made, count = name, 1
        while made in self.taken:
            count += 1
            made = f"{name}#{count}"
        self.taken.add(made)
        if made != name:
            self.spellings[made] = name
        return made

    def bind(self, name: str) -> str:
        made = self.unique(name)
        self.scope.names[name] = made
        return made

    def lookup(self, name: str) -> str:
        scope: _Scope | None = self.scope
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            found = self.from_range(scope, name)
            if found is not None:
                return found
            scope = scope.outer
        return name

    def from_range(self, scope: _Scope, name: str) -> str | None:
        if not scope.ranges or not name[-1:].isdigit():
            return None
        for prefix, count in scope.ranges.items():
            digits = name[len(prefix) :]
            if name.startswith(prefix) and digits.isdigit() and len(digits) < 10 and int(digits) < count:
                plain = f"{prefix}{int(digits)}"
                made = scope.names.get(plain)
                if made is None:
                    made = self.unique(plain)
                    scope.names[plain] = made
                    self.types[made], vector = scope.range_types[prefix]
                    if vector:
                        self.vectors[made] = vector
                scope.names[name] = made
                return made
        return None

    def declare_variable(self, variable: Variable) -> Variable:
        names = []
        for declarator in variable.names:
            family = re.fullmatch(r"(.+)<([0-9]{1,6})>", declarator.name)
            if family:
                for i in range(int(family.group(2))):
                    self.variables[self.bind(f"{family.group(1)}{i}")] = variable
                names.append(declarator)
                continue
            made = self.bind(declarator.name)
            self.variables[made] = variable
            names.append(replace(declarator, name=made))
        return replace(variable, names=tuple(names))

    def declare_registers(self, declaration: RegisterDeclaration) -> None:
        for name, count in declaration.names:
            if count is not None:
                self.scope.ranges[name] = count
                self.scope.range_types[name] = (declaration.type, declaration.vector)
                continue
            made = self.bind(name)
            self.types[made] = declaration.type
            if declaration.vector:
                self.vectors[made] = declaration.vector

    # --- the walk ---------------------------------------------------------------------------------------

    def walk(self, body: Block) -> None:
        """Iterative: the depth of scopes is the input's."""
        self.enter(body)
        stack = [iter(body.statements)]
        while stack:
            for statement in stack[-1]:
                if isinstance(statement, Block):
                    self.enter(statement)
                    stack.append(iter(statement.statements))
                    break
                self.add(statement, len(stack) - 1)
            else:
                stack.pop()
                assert self.scope.outer is not None
                self.scope = self.scope.outer

    def enter(self, block: Block) -> None:
        """Opens a scope. Its labels are known from its start: a branch may come before its target."""
        self.scope = _Scope(self.scope)
        for statement in block.statements:
            match statement:
                case Label(name=name):
                    self.labels.add(self.bind(name))
                case BranchTargets(label=name) | CallPrototype(label=name):
                    self.bind(name)

    def add(self, statement: Statement, depth: int) -> None:
        if isinstance(statement, RegisterDeclaration):
            self.declare_registers(statement)
            made: Statement = statement
        elif isinstance(statement, Variable):
            made = self.declare_variable(statement)
        else:
            made = map_names(statement, self.lookup)
        self.statements.append(made)
        self.depths.append(depth)
