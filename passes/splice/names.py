"""Fresh names. One NameScope owns every name of a module; a collision is an error, never silent."""

from __future__ import annotations

from collections.abc import Iterable

from hybridcc.errors import SpliceRefused
from hybridcc.ptx.nodes import Block, Function, Module, RegisterDeclaration, Statement, Variable
from hybridcc.ptx.rename import names_in


class NameScope:
    """The names in use (registers with their ranges expanded, labels, variables, functions), and new ones."""

    def __init__(self, names: Iterable[str]) -> None:
        self._used = set(names)
        self._prefixes: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._used

    def claim(self, name: str) -> str:
        """Take ``name``; raises SpliceRefused(NAME_COLLISION) when it is in use."""
        if name in self._used:
            raise SpliceRefused("NAME_COLLISION", f"the name {name} is in use already")
        self._used.add(name)
        return name

    def prefix(self, stem: str) -> str:
        """A new prefix ``stem<n>_`` that no name in use holds anywhere, so that all names made from it are new."""
        number = 0
        while any(f"{stem}{number}_" in name for name in self._used | self._prefixes):
            number += 1
        made = f"{stem}{number}_"
        self._prefixes.add(made)
        return made


def names_of_module(module: Module) -> frozenset[str]:
    """Every name that the module declares or uses outside debug sections."""
    names: set[str] = set()
    for item in module.items:
        match item:
            case Function():
                names.add(item.name)
                names.update(d.name for v in (*item.parameters, *item.returns) for d in v.names)
                if item.body is not None:
                    names.update(_names_of_statement(item.body))
            case Variable():
                names.update(d.name for d in item.names)
            case _:
                pass
    return frozenset(names)


def _names_of_statement(statement: Statement) -> set[str]:
    match statement:
        case Block():
            return {n for s in statement.statements for n in _names_of_statement(s)}
        case RegisterDeclaration():
            ranges = ((name, range(count)) for name, count in statement.names if count is not None)
            return {n for n, _ in statement.names} | {f"{name}{k}" for name, ks in ranges for k in ks}
        case _:
            return set(names_in(statement))
