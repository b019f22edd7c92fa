"""Every failure that can reach a user says what to do next."""

import ast
import inspect
from pathlib import Path

import pytest

from hybridcc import errors

ROOT = Path(__file__).parents[2]
OF_A_REWRITE = {"SpliceRefused", "AnswerRejected"}
"""These are recorded as the fate of an answer: the next step is another answer."""
POSITIONED = {"PtxSyntaxError"}
"""Brings its own."""
NAMES = {
    name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.HybridccError)
} - (OF_A_REWRITE | POSITIONED)


@pytest.mark.parametrize("room", ["hybridcc", "passes", "runtime", "frontends"])
def test_every_error_is_raised_with_a_next_step(room: str) -> None:
    silent: list[str] = []
    raised = 0
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
                raised += 1
                if not any(keyword.arg in ("next_step", None) for keyword in node.keywords):
                    silent.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert raised > 5
    assert silent == []
