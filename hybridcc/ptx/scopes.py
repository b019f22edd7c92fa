"""Which declaration each name in a function means (PTX ISA 9.0, section 5.1 and 7.1; checked against ptxas 13.0).

``{ }`` is a scope: an inner declaration hides an outer one, also of another type; sibling scopes may repeat names.
Registers, variables and labels share one namespace. A register or variable is visible from its declaration on,
a label in the whole of its scope and the scopes inside. ``.reg .b32 %r<12>`` declares %r0 to %r11, and %r01 is %r1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from hybridcc.ptx import isa
from hybridcc.ptx.nodes import (
    Block,
    BranchTargets,
    CallPrototype,
    Declarator,
    Function,
    Instruction,
    Label,
    Module,
    RegisterDeclaration,
    Statement,
    Variable,
)
from hybridcc.ptx.rename import rename_statement


@dataclass(frozen=True)
class Scoped:
    """A function's body with every name made unique.

    ``statements`` are the body's statements in source order with the braces left out: entry number i is statement
    number i of the nested body, read depth first, so the two can be walked side by side; ``depths`` gives for each
    the number of inner scopes around it. Register declarations are kept as they were written; in all other
    statements names are unique ids. The id of a register begins with ``%``, that of a label, variable or function
    never does, so isa.uses() and isa.defs() tell them apart. An id is the source's own spelling wherever that is
    unambiguous. ``types`` gives the declared type (".b32") of every register that occurs; ``vectors`` ".v2" or
    ".v4" for those declared as vectors. ``variables`` holds each variable by its id, with its single declarator:
    of the module, parameters and the body's own. ``declared_at`` is the index of the statement that declares a
    register or a variable, -1 where it is none of the body's. ``unresolved`` are the names (as spelled) that no
    declaration explains.
    """

    statements: tuple[Statement, ...]
    depths: tuple[int, ...]
    types: Mapping[str, str]
    vectors: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    declared_at: Mapping[str, int] = field(default_factory=dict, repr=False)
    unresolved: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def spelling(self, unique: str) -> str:
        """The name as the source declares it (%r1 where it spells %r01)."""
        return self.spellings.get(unique, unique)

    def is_register(self, unique: str) -> bool:
        return unique in self.types

    def is_variable(self, unique: str) -> bool:
        """Whether the id is that of a variable or a parameter in memory."""
        return unique in self.variables


def resolve(function: Function, module: Module | None = None) -> Scoped:
    """Scoped for a function that has a body; for a declaration, no statements. Never raises."""
    resolver = _Resolver(module, function)
    walked = list(resolver.walk(function.body)) if function.body is not None else []
    return Scoped(
        tuple(statement for statement, _ in walked),
        tuple(depth for _, depth in walked),
        resolver.types,
        resolver.vectors,
        resolver.variables,
        frozenset(resolver.label_ids),
        resolver.declared_at,
        tuple(dict.fromkeys(resolver.unresolved)),
        resolver.spellings,
    )


def flatten(block: Block) -> Iterator[Statement]:
    """The statements of a body in source order, the braces of scopes left out."""
    stack = [iter(block.statements)]
    while stack:
        for statement in stack[-1]:
            if isinstance(statement, Block):
                stack.append(iter(statement.statements))
                break
            yield statement
        else:
            stack.pop()


@dataclass(slots=True)
class _Scope:
    """``names``: spelling to unique id; ``ranges``: the stem of ``r<12>`` to its count, declaration and place."""

    names: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, RegisterDeclaration | Variable, int]] = field(default_factory=dict)


class _Resolver:
    def __init__(self, module: Module | None, function: Function) -> None:
        self.types: dict[str, str] = {}
        self.vectors: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.label_ids: set[str] = set()
        self.declared_at: dict[str, int] = {}
        self.index = -1
        self.spellings: dict[str, str] = {}
        self.unresolved: list[str] = []
        self.taken: dict[str, int] = {}
        """Ids given out, and of each the number of the last that was made from it."""
        self.scopes = [_Scope()]
        for item in module.items if module is not None else ():
            if isinstance(item, Variable):
                self.variable(item)
            elif isinstance(item, Function) and item.name not in self.scopes[0].names:
                self.declare(item.name, "")
            elif isinstance(item, CallPrototype):
                self.declare(item.label, "")
        self.scopes.append(_Scope())
        for parameter in (*function.returns, *function.parameters):
            self.variable(parameter)

    # --- declaring --------------------------------------------------------------------------------------

    def unique(self, spelling: str, register: bool) -> str:
        """A free id: registers begin with %, others do not, and no register's id is a special register's."""
        base = spelling
        if register != spelling.startswith("%"):
            base = "%" + spelling if register else "$" + spelling[1:]
        name, number = base, self.taken.get(base, 1)
        while name in self.taken or (register and isa.is_special_register(name)):
            number += 1
            name = f"{base}${number}"
        self.taken[base] = number
        self.taken.setdefault(name, 1)
        if name != spelling:
            self.spellings[name] = spelling
        return name

    def declare(self, spelling: str, kind: str) -> str:
        unique = self.unique(spelling, kind == "register")
        self.scopes[-1].names[spelling] = unique
        return unique

    def register(self, spelling: str, type_: str, vector: str) -> None:
        unique = self.declare(spelling, "register")
        self.types[unique] = type_
        self.declared_at[unique] = self.index
        if vector:
            self.vectors[unique] = vector

    def variable(self, variable: Variable) -> Variable:
        """Declares it, and gives it back under its ids."""
        if variable.space == ".reg":
            for declarator in variable.names:
                self.register(declarator.name, variable.type, variable.vector)
            return variable
        return replace(variable, names=tuple(self.declarator(variable, d) for d in variable.names))

    def declarator(self, variable: Variable, declarator: Declarator) -> Declarator:
        stem, family, count = declarator.name.partition("<")
        if family:
            self.scopes[-1].ranges[stem] = (int(count.rstrip(">")), replace(variable, names=(declarator,)), self.index)
            return declarator
        renamed = _renamed(declarator, self.declare(declarator.name, "variable"))
        self.variables[renamed.name] = replace(variable, names=(renamed,))
        self.declared_at[renamed.name] = self.index
        return renamed

    def registers(self, declaration: RegisterDeclaration) -> None:
        for name, count in declaration.names:
            if count is None:
                self.register(name, declaration.type, declaration.vector)
            else:
                self.scopes[-1].ranges[name] = (count, declaration, self.index)

    # --- walking ----------------------------------------------------------------------------------------

    def walk(self, body: Block) -> Iterator[tuple[Statement, int]]:
        """Each statement, resolved, and its depth. Iterative: the depth of scopes is the input's."""
        self.enter(body)
        stack = [iter(body.statements)]
        while stack:
            for statement in stack[-1]:
                if isinstance(statement, Block):
                    self.enter(statement)
                    stack.append(iter(statement.statements))
                    break
                self.index += 1
                yield self.statement(statement), len(stack) - 1
            else:
                stack.pop()
                self.scopes.pop()

    def enter(self, block: Block) -> None:
        self.scopes.append(_Scope())
        for statement in block.statements:
            if isinstance(statement, Label):
                self.label_ids.add(self.declare(statement.name, "label"))
            elif isinstance(statement, (BranchTargets, CallPrototype)):
                self.declare(statement.label, "label")

    def statement(self, statement: Statement) -> Statement:
        match statement:
            case Instruction() | Label() | BranchTargets():
                return rename_statement(statement, self.lookup)
            case CallPrototype():
                return replace(statement, label=self.lookup(statement.label))
            case RegisterDeclaration():
                self.registers(statement)
            case Variable():
                return self.variable(statement)
        return statement

    # --- looking up -------------------------------------------------------------------------------------

    def lookup(self, spelling: str) -> str:
        for scope in reversed(self.scopes):
            found = scope.names.get(spelling)
            if found is not None:
                return found
            if scope.ranges and spelling[-1:].isdigit():
                found = self.member(scope, spelling)
                if found is not None:
                    return found
        if not isa.is_predefined(spelling) and spelling != "_":
            self.unresolved.append(spelling)
        return spelling

    def member(self, scope: _Scope, spelling: str) -> str | None:
        """What this spelling means by a range, if anything; it is declared where it first occurs."""
        at = len(spelling)
        while at > 1 and spelling[at - 1].isdigit():
            at -= 1
            found = scope.ranges.get(spelling[:at])
            if found is None or len(spelling) - at > 18 or int(spelling[at:]) >= found[0]:
                continue
            plain = f"{spelling[:at]}{int(spelling[at:])}"
            unique = scope.names.get(plain)
            if unique is None:
                unique = self.from_range(plain, found[1])
                self.declared_at[unique] = found[2]
                scope.names[plain] = unique
            scope.names[spelling] = unique
            return unique
        return None

    def from_range(self, plain: str, declaration: RegisterDeclaration | Variable) -> str:
        unique = self.unique(plain, isinstance(declaration, RegisterDeclaration))
        if isinstance(declaration, Variable):
            only = replace(declaration.names[0], name=unique)
            self.variables[unique] = replace(declaration, names=(only,))
            return unique
        self.types[unique] = declaration.type
        if declaration.vector:
            self.vectors[unique] = declaration.vector
        return unique


def _renamed(declarator: Declarator, name: str) -> Declarator:
    return declarator if declarator.name == name else replace(declarator, name=name)
