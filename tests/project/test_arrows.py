"""Imports go one way: ptx <- passes <- (frontends, runtime) <- pipeline <- cli. And the linter knows it too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {"ptx": "hybridcc/ptx", "passes": "passes", "frontends": "frontends", "runtime": "runtime"}

MAY_IMPORT = {
    "ptx": {"errors", "ptx"},
    "passes": {"errors", "ptx", "passes"},
    "frontends": {"errors", "ptx", "passes", "frontends", "runtime.toolchain"},
    "runtime": {"errors", "ptx", "passes", "runtime", "__version__"},
}
"""What each room may import of hybridcc, by the head of the module's name. The face (pipeline, building, …) and the
command line may import everything below them."""

REACHING_UP = {
    ("runtime/dispatcher.py", "frontends"): "jit objects compile themselves",
    ("runtime/dispatcher.py", "optimizing"): "jit objects optimize themselves",
    ("runtime/dispatcher.py", "first_calls"): "jit objects look what was decided before",
    ("runtime/mlir_dispatcher.py", "frontends"): "jit objects compile themselves",
    ("runtime/doctor.py", "frontends"): "the doctor compiles a kernel to see whether it can",
}
"""The exceptions, each with its reason; only inside functions, so that no import goes in a circle."""

RUFF = (sys.executable, "-m", "ruff", "check", "--no-cache")
STANDARD_LIBRARY = set(sys.stdlib_module_names)


def files(room: str) -> Iterator[Path]:
    return (path for path in (ROOT / ROOMS[room]).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """(module, line, whether inside a function) of every import, ``from a import b`` as ``a.b``."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(n) for function in functions for n in ast.walk(function)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield name.name, node.lineno, id(node) in inside
            case ast.ImportFrom(module=module, names=names, level=0) if module:
                for name in names:
                    yield f"{module}.{name.name}", node.lineno, id(node) in inside


def type_checking_lines(tree: ast.AST) -> set[int]:
    """Lines under ``if TYPE_CHECKING:``, which import nothing."""
    return {
        getattr(node, "lineno", 0)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and isinstance(branch.test, ast.Name) and branch.test.id == "TYPE_CHECKING"
        for statement in branch.body
        for node in ast.walk(statement)
    }


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_go_one_way(room: str) -> None:
    wrong = []
    for path in files(room):
        tree = ast.parse(path.read_text())
        place = path.relative_to(ROOT).as_posix()
        unreal = type_checking_lines(tree)
        for module, line, inside in imported(tree):
            if not module.startswith("hybridcc."):
                continue
            name = module.removeprefix("hybridcc.")
            if any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[room]):
                continue
            if (place, name.split(".")[0]) in REACHING_UP and (inside or line in unreal):
                continue
            wrong.append(f"{place}:{line} imports {module}")
    assert not wrong


def test_every_exception_is_still_needed() -> None:
    for (place, head), reason in REACHING_UP.items():
        modules = {module for module, _, _ in imported(ast.parse((ROOT / place).read_text()))}
        assert any(module.startswith(f"hybridcc.{head}") for module in modules), f"{place} ({reason})"


def test_the_language_layer_needs_the_standard_library_only() -> None:
    for path in files("ptx"):
        for module, line, _ in imported(ast.parse(path.read_text())):
            head = module.split(".")[0]
            assert head in STANDARD_LIBRARY | {"hybridcc"}, f"{path}:{line} imports {module}"


def test_no_room_is_imported_by_its_bare_name() -> None:
    bare = {"passes", "frontends", "runtime"}
    for folder in ("hybridcc", "passes", "frontends", "runtime", "tests", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for module, line, _ in imported(ast.parse(path.read_text())):
                assert module.split(".")[0] not in bare, f"{path}:{line} imports {module}"


@pytest.mark.parametrize("room", ["passes", "frontends", "runtime"])
def test_a_bare_import_fails_and_says_why(room: str) -> None:
    command = [sys.executable, "-c", f"import {room}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"hybridcc.{room}" in done.stderr


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("hybridcc/ptx/probe.py", "from hybridcc.passes import kernel"),
        ("hybridcc/ptx/probe.py", "import numpy"),
        ("passes/probe.py", "from hybridcc.runtime.assemble import assemble"),
        ("passes/analysis/probe.py", "import hybridcc.frontends.numba"),
        ("frontends/probe.py", "from hybridcc.runtime.assemble import assemble"),
        ("frontends/probe.py", "from hybridcc.pipeline import optimize"),
        ("runtime/probe.py", "from hybridcc.cli import main"),
        ("tests/probe.py", "from passes.kernel import Kernel"),
        ("hybridcc/probe.py", "import runtime"),
    ],
)
def test_the_linter_fires(place: str, line: str) -> None:
    command = [*RUFF, "--select", "TID251", "--stdin-filename", place, "-"]
    done = subprocess.run(command, input=line + "\n", cwd=ROOT, capture_output=True, text=True, check=False)
    assert "TID251" in done.stdout, done.stderr
    clean = "from hybridcc.errors import InputError\n"
    done = subprocess.run(command, input=clean, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_linter_reads_every_room_once() -> None:
    done = subprocess.run([*RUFF, "--show-files", "."], cwd=ROOT, capture_output=True, text=True, check=True)
    shown = [Path(line).relative_to(ROOT).as_posix() for line in done.stdout.split()]
    assert "frontends/numba.py" in shown
    assert "passes/kernel.py" in shown
    twice = ("hybridcc/passes/", "hybridcc/runtime/", "hybridcc/frontends/")
    assert not [place for place in shown if place.startswith(twice)]
