"""A proof that two kernels are equal, as data: pairs of program points and what relates the two sides there.

A certificate is found by a search that nobody needs to trust and is checked by ``checker.py``. Written as JSON
it holds a table of terms; reading rebuilds each through the functions that make normal forms, so a forged
table can at worst describe a relation that does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hybridcc.passes.verify.proof import entry
from hybridcc.passes.verify.proof.rewrite import build, build_condition
from hybridcc.passes.verify.proof.terms import (
    Argument,
    Atom,
    Condition,
    Memory,
    Polynomial,
    Term,
    add,
    constant,
    memory,
    mul,
    variable,
)

VERSION: Final = 1
ENTRY: Final = "entry"
EXIT: Final = "exit"
SYMBOL_PREFIX: Final = "symbol:"


class BadCertificate(Exception):
    """A certificate that is malformed; it proves nothing."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A value that the relations of a node leave open. On arrival it is what ``register`` of ``side`` holds.

    ``name`` starts with SYMBOL_PREFIX. A predicate register is the 1-bit symbol that is 1 where it holds.
    """

    name: str
    width: int
    side: str
    register: str


@dataclass(frozen=True, slots=True)
class Edge:
    """From a node, the baseline goes on for ``base_visits`` cut points and the candidate for ``candidate_visits``."""

    target: str
    base_visits: int
    candidate_visits: int


@dataclass(frozen=True, slots=True)
class Node:
    """The baseline stands before instruction ``base_at``, the candidate before ``candidate_at``.

    There is a value for each symbol such that each register holds its term, both memories are ``memory`` and
    the conditions hold. Registers that are not listed may hold anything.
    """

    name: str
    base_at: int
    candidate_at: int
    symbols: tuple[Symbol, ...]
    base: Mapping[str, Polynomial | Condition]
    candidate: Mapping[str, Polynomial | Condition]
    conditions: tuple[Condition, ...]
    edges: tuple[Edge, ...]

    @property
    def memory(self) -> Memory:
        return memory("initial", entry.MEMORY if self.name == ENTRY else SYMBOL_PREFIX + self.name)


@dataclass(frozen=True, slots=True)
class Certificate:
    """``base`` and ``candidate`` are digests of the two kernels (program.py, ``Program.digest``).

    ``ideal``: the relations are about the reading of lemmas.py that keeps all but the payloads of NaNs.
    """

    base: str
    candidate: str
    nodes: tuple[Node, ...]
    ideal: bool = False

    def node(self, name: str) -> Node:
        for found in self.nodes:
            if found.name == name:
                return found
        raise BadCertificate(f"no node {name}")


# --- JSON -----------------------------------------------------------------------------------------------


def write(certificate: Certificate) -> str:
    table = _Table()
    nodes = [_write_node(node, table) for node in certificate.nodes]
    return json.dumps(
        {
            "version": VERSION,
            "base": certificate.base,
            "candidate": certificate.candidate,
            **({"ideal": True} if certificate.ideal else {}),
            "terms": table.rows,
            "nodes": nodes,
        },
        separators=(",", ":"),
    )


def _write_node(node: Node, table: _Table) -> dict[str, Any]:
    return {
        "name": node.name,
        "at": [node.base_at, node.candidate_at],
        "symbols": [[s.name, s.width, s.side, s.register] for s in node.symbols],
        "base": {r: table.add(term) for r, term in sorted(node.base.items())},
        "candidate": {r: table.add(term) for r, term in sorted(node.candidate.items())},
        "conditions": [table.add(c) for c in node.conditions],
        "edges": [[e.target, e.base_visits, e.candidate_visits] for e in node.edges],
    }


class _Table:
    """Terms as rows; a row refers to earlier rows by number."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._numbers: dict[Term | Atom, int] = {}

    def add(self, term: Term) -> int:
        found = self._numbers.get(term)
        if found is not None:
            return found
        match term:
            case Polynomial():
                sums = [[[self._atom(a) for a in monomial], c] for monomial, c in term.monomials]
                row = ["sum", term.width, sums]
            case Condition():
                row = ["condition", term.kind, *(self._argument(a) for a in term.arguments)]
            case Memory():
                row = ["memory", term.kind, *(self._argument(a) for a in term.arguments)]
        self.rows.append(row)
        self._numbers[term] = len(self.rows) - 1
        return len(self.rows) - 1

    def _atom(self, a: Atom) -> int:
        found = self._numbers.get(a)
        if found is None:
            self.rows.append(["atom", a.operation, a.width, *(self._argument(x) for x in a.arguments)])
            found = self._numbers[a] = len(self.rows) - 1
        return found

    def _argument(self, x: Argument) -> Any:
        return [self.add(x)] if isinstance(x, (Polynomial, Condition, Memory)) else x


def read(text: str) -> Certificate:
    """Raises BadCertificate."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise BadCertificate(f"version {data['version']}, this checker reads {VERSION}")
        rows: list[Term] = []
        for row in data["terms"]:
            rows.append(_read_row(row, rows))
        nodes = tuple(_read_node(node, rows) for node in data["nodes"])
        return Certificate(data["base"], data["candidate"], nodes, data.get("ideal") is True)
    except (KeyError, IndexError, TypeError, ValueError, AssertionError, AttributeError) as error:
        raise BadCertificate(f"malformed: {error}") from error


def _read_row(row: list[Any], rows: list[Term]) -> Term:
    def argument(x: Any) -> Argument:
        return rows[x[0]] if isinstance(x, list) else x

    match row:
        case ["sum", int(width), sums]:
            total = constant(0, width)
            for factors, coefficient in sums:
                product = constant(coefficient, width)
                for factor in factors:
                    single = rows[factor]
                    assert isinstance(single, Polynomial)
                    product = mul(product, single)
                total = add(total, product)
            return total
        case ["atom", "variable", int(width), str(name)]:
            known = entry.named(name, width)
            return variable(name, width) if known is None else known
        case ["atom", str(operation), int(width), *rest]:
            return build(operation, tuple(argument(x) for x in rest), width)
        case ["condition", str(kind), *rest]:
            return build_condition(kind, tuple(argument(x) for x in rest))
        case ["memory", str(kind), *rest]:
            return memory(kind, *(argument(x) for x in rest))
    raise BadCertificate(f"row {row!r}")


def _read_node(node: dict[str, Any], rows: list[Term]) -> Node:
    def register(number: int) -> Polynomial | Condition:
        term = rows[number]
        assert isinstance(term, (Polynomial, Condition))
        return term

    conditions = tuple(rows[number] for number in node["conditions"])
    assert all(isinstance(c, Condition) for c in conditions)
    base_at, candidate_at = node["at"]
    return Node(
        node["name"],
        base_at,
        candidate_at,
        tuple(Symbol(name, width, side, register) for name, width, side, register in node["symbols"]),
        {r: register(n) for r, n in node["base"].items()},
        {r: register(n) for r, n in node["candidate"].items()},
        tuple(c for c in conditions if isinstance(c, Condition)),
        tuple(Edge(target, m, k) for target, m, k in node["edges"]),
    )
