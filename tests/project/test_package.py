"""The package as others get it: a wheel with four rooms under one name, that imports from anywhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "out", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "node_modules"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as from a fresh checkout: nothing stale gets in, nothing is left behind."""
    source = tmp_path_factory.mktemp("checkout") / "hybridcc"
    shutil.copytree(ROOT, source, symlinks=True, ignore=LEFT_OUT)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(source / "dist"), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    (made,) = (source / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(wheel)], capture_output=True, text=True, check=True)
    return site


def python(site: Path, code: str, *flags: str) -> str:
    done = subprocess.run(
        [sys.executable, *flags, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"],
        cwd=site.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_module_as_a_file_under_one_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {name.split("/")[0] for name in names} == {"hybridcc", f"hybridcc-{version}.dist-info"}
    held = {name for name in names if name.endswith(".py")}
    for room in ("passes", "frontends", "runtime", "hybridcc"):
        for path in (ROOT / room).rglob("*.py"):
            place = path.relative_to(ROOT).as_posix()
            assert (place if room == "hybridcc" else f"hybridcc/{place}") in held
    assert "hybridcc/py.typed" in names


def test_data_files_go_with_the_code(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for room in ("passes", "frontends", "runtime", "hybridcc"):
        for suffix in ("md", "txt", "tsv", "json", "jsonl", "j2"):
            for path in (ROOT / room).rglob(f"*.{suffix}"):
                place = path.relative_to(ROOT).as_posix()
                assert (place if room == "hybridcc" else f"hybridcc/{place}") in names


def test_the_wheel_imports_with_nothing_else_installed(installed: Path) -> None:
    said = python(
        installed,
        "import hybridcc, hybridcc.ptx, hybridcc.passes.kernel, hybridcc.runtime, hybridcc.frontends\n"
        "print(hybridcc.__file__); print(hybridcc.ptx.parse('.version 8.0\\n.target sm_80\\n'))",
        "-I", "-S",
    )  # fmt: skip
    assert said.splitlines()[0] == str(installed / "hybridcc" / "__init__.py")
    assert ".version 8.0" in said


def test_the_installed_wheel_compiles_and_assembles(installed: Path) -> None:
    said = python(
        installed,
        "import hybridcc\n"
        "from hybridcc.frontends.numba import compile\n"
        "from hybridcc.runtime.assemble import assemble\n"
        "def scale(x):\n    x[0] = 2\n"
        "kernel = compile(scale, 'void(float32[::1])', 'sm_90')\n"
        "print(hybridcc.__file__, assemble(kernel.ptx, 'sm_90').registers > 0)",
    )
    assert said.split() == [str(installed / "hybridcc" / "__init__.py"), "True"]


def test_the_command_is_installed(installed: Path) -> None:
    assert (installed / "bin" / "hybridcc").is_file()


def test_the_versions_agree() -> None:
    import hybridcc

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == hybridcc.__version__
    assert f"## {hybridcc.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_requirement_is_pinned_in_the_constraints() -> None:
    import re

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normal(line.split("==")[0]) for line in lines if "==" in line and not line.startswith("#")}
    names = {normal(re.split(r"[\[<>=~! ]", requirement)[0]) for requirement in wanted}
    assert names - {"hybridcc"} <= pinned


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
