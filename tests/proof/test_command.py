"""hybridcc verify: its verdicts, its exit codes and its files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rewrites import base, candidate


def verify(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hybridcc", "verify", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.ptx", tmp_path / "new.ptx"
    old.write_text(base("saxpy"))
    new.write_text(candidate("saxpy"))
    return old, new


def test_a_proof_its_certificate_and_the_other_solver(files: tuple[Path, Path]) -> None:
    certificate = files[0].with_name("c.json")
    run = verify(*files, "--certificate", certificate, "--json")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["verdict"] == "proved"
    assert told["solver"].startswith("bitwuzla")
    again = verify(*files, "--recheck", certificate, "--json")
    assert again.returncode == 0, again.stdout
    assert json.loads(again.stdout)["solver"].startswith("z3")


def test_what_differs_is_refuted_by_a_run_and_never_proved(files: tuple[Path, Path]) -> None:
    files[1].write_text(candidate("saxpy").replace("fma.rn.f32 %g2, %g0, %f1, %g1", "fma.rn.f32 %g2, %g0, %g0, %g1"))
    run = verify(*files, "--json")
    assert run.returncode in (1, 4), run.stdout
    assert json.loads(run.stdout)["verdict"] in ("refuted", "unknown")


def test_a_certificate_of_something_else_is_refused(files: tuple[Path, Path]) -> None:
    certificate = files[0].with_name("c.json")
    assert verify(*files, "--certificate", certificate).returncode == 0
    files[1].write_text(candidate("saxpy").replace("mov", "mov").replace("fma.rn", "fma.rz"))
    run = verify(*files, "--recheck", certificate)
    assert run.returncode == 4
    assert "other kernels" in run.stdout


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (".version 9.0 ???", ()),
        (base("stencil"), ("--entry", "nothing")),
        (candidate("saxpy"), ("--facts", "old.ptx")),
        (candidate("saxpy"), ("--recheck", "old.ptx")),
        (candidate("saxpy"), ("--facts", "missing.json")),
    ],
)
def test_bad_input_is_named(files: tuple[Path, Path], text: str, arguments: tuple[str, ...]) -> None:
    files[1].write_text(text)
    run = verify(*files, *(files[0].with_name(a) if "." in a else a for a in arguments))
    assert run.returncode == 2, (run.stdout, run.stderr)
    assert "Traceback" not in run.stderr


def test_a_promised_fact_is_used_and_named(tmp_path: Path) -> None:
    old, new, facts = tmp_path / "old.ptx", tmp_path / "new.ptx", tmp_path / "facts.json"
    old.write_text(base("colsum"))
    new.write_text(candidate("colsum").replace("setp.lt.s64 %q2", "setp.lt.u64 %q2"))
    facts.write_text('[{"left": {"parameter": 5, "label": "rows"}, "relation": ">=", "right": 0}]')
    run = verify(old, new, "--facts", facts, "--json")
    assert run.returncode == 0, run.stdout
    assert json.loads(run.stdout)["facts"] == ["rows >= 0 (declared)"]


def test_payloads_of_nans_are_set_aside_and_it_says_so(tmp_path: Path) -> None:
    """Runs on NaNs tell these two apart; the proof says in which sense they are equal all the same."""
    old, new = tmp_path / "old.ptx", tmp_path / "new.ptx"
    text = base("saxpy")
    product = re.search(r"fma\.rn\.f32 \t(%f\d), (%f\d), (%f\d), %f\d;", text)
    assert product is not None
    target, x, y = product.groups()
    wide = f"cvt.f64.f32 %w0, {x}; cvt.f64.f32 %w1, {y}; mul.f64 %w0, %w0, %w1; cvt.rn.f32.f64 {target}, %w0;"
    old.write_text(text.replace(product[0], wide).replace("\t.reg .pred", "\t.reg .f64 %w<2>;\n\t.reg .pred", 1))
    new.write_text(text.replace(product[0], f"mul.rn.f32 {target}, {x}, {y};"))
    run = verify(old, new, "--json")
    assert run.returncode == 0, run.stdout
    assert json.loads(run.stdout)["verdict"] == "proved, NaN payloads aside"
    new.write_text(text.replace(product[0], f"mul.rz.f32 {target}, {x}, {y};"))
    assert verify(old, new, "--json").returncode in (1, 4)
