"""Every code that a user can meet has a row of docs/troubleshooting.md, and no row is of a code that is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hybridcc import errors
from hybridcc.passes.rewrite.rejection import NEXT_STEPS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
SAYERS = {
    "SpliceRefused": 0,
    "refuse": 0,
    "refusal": 1,
    "Ineligible": 0,
    "Fate": 1,
    "Selection": 1,
    "Failure": 1,
    "ProfileError": 0,
    "RenameRefused": 0,
    "Finding": 0,
    "finding": 0,
    "Lesson": 0,
    "_baseline": 1,
    "ExecutionError": 0,
    "Fault": 0,
}
"""Which argument of a call is a code."""
NOT_SHOWN = {"PENDING"}
"""Never leaves the pipeline."""
WORD = re.compile(r"[A-Z][A-Z_]+\Z")


def sources() -> Iterator[Path]:
    for folder in ("hybridcc", "passes", "frontends", "runtime"):
        for path in (ROOT / folder).rglob("*.py"):
            if not any(part.is_symlink() for part in path.parents):
                yield path


def said_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            at = SAYERS.get(name)
            if at is not None and len(node.args) > at:
                yield from (c.value for c in ast.walk(node.args[at]) if isinstance(c, ast.Constant))  # type: ignore[misc]


def codes() -> set[str]:
    found = {code for path in sources() for code in said_in(ast.parse(path.read_text())) if isinstance(code, str)}
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in classes if issubclass(kind, errors.HybridccError)]
    return {c for c in found if WORD.match(c)} | {kind.code for kind in kinds} | set(NEXT_STEPS) | {"MEMORY"}


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_code_has_a_row_and_every_row_a_code() -> None:
    named = [row[0].strip(" |`") for row in rows()]
    assert len(named) == len(set(named)), "one row each"
    assert set(named) >= codes() - NOT_SHOWN, codes() - NOT_SHOWN - set(named)
    assert set(named) <= codes() | also_said(), set(named) - codes() - also_said()


def also_said() -> set[str]:
    """Codes that reach their sayer by a name: they stand in the code as words of their own."""
    text = "".join(path.read_text() for path in sources())
    return set(re.findall(r"\"([A-Z][A-Z_]+)\"", text))


def test_every_row_says_symptom_cause_check_and_remedy() -> None:
    for row in rows():
        assert len(row) == 5, row
        assert all(row), row
        assert len(row[1].split()) > 1, row
        assert len(row[2].split()) > 1, row
