"""The drop-in gives what ptxas gives, unless a rewrite was proved."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hybridcc.runtime.toolchain import find
from tests.ahead.dropin import DROPIN, ROOT, Outcome, dropin, ptxas, same
from tests.ahead.recorded import SUM, four_at_a_time, record
from tests.ptx.cubins import CORPUS, architecture, corpus_files

SAMPLE = corpus_files()[::20]


def both(tmp_path: Path, *arguments: str, stdin: bytes | None = None, **variables: str) -> tuple[Outcome, Outcome]:
    return (
        ptxas(tmp_path / "ptxas", *arguments, stdin=stdin),
        dropin(tmp_path / "dropin", *arguments, stdin=stdin, **variables),
    )


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A rewriter that never answers."""
    place = tmp_path_factory.mktemp("recordings") / "empty.jsonl"
    place.write_text("")
    return f"replay:{place}"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"replay:{record(tmp_path_factory.mktemp('recordings') / 'sum.jsonl', four_at_a_time())}"


@pytest.mark.parametrize("file", SAMPLE, ids=lambda file: file.relative_to(CORPUS).as_posix())
def test_without_a_rewriter_it_is_ptxas(file: Path, tmp_path: Path) -> None:
    wanted, got = both(tmp_path, "-arch", architecture(file.read_text()), str(file), "-o", "k.cubin")
    assert same(got, wanted)
    assert not got.notes


@pytest.mark.slow
@pytest.mark.parametrize("file", corpus_files(), ids=lambda file: file.relative_to(CORPUS).as_posix())
def test_where_no_answer_comes_it_is_ptxas(file: Path, tmp_path: Path, empty: str) -> None:
    """Through every stage, on the whole corpus, files that ptxas refuses among them."""
    line = ["-arch", architecture(file.read_text()), str(file), "-o", "k.cubin"]
    wanted, got = both(tmp_path, *line, rewriter=empty)
    assert same(got, wanted)
    assert len(got.notes) == 1 or (wanted.code and not got.notes)


@pytest.mark.parametrize(
    "line",
    ["--version", "--help", "", "--list-version", "-arch=sm_80 none.ptx", "--shiny k.ptx", "-arch=sm_999 k.ptx",
     "-arch=sm_80 k.ptx k.ptx", "-arch=sm_80 -o nowhere/k.cubin k.ptx", "-arch=sm_80 -Werror broken.ptx",
     "-arch=sm_80 -optf none k.ptx", "-arch=compute_80 k.ptx", "k.ptx"],
)  # fmt: skip
def test_what_ptxas_says_itself_it_says(line: str, tmp_path: Path, empty: str) -> None:
    for name in ("ptxas", "dropin"):
        (tmp_path / name).mkdir()
        shutil.copy(SUM, tmp_path / name / "k.ptx")
        (tmp_path / name / "broken.ptx").write_text(SUM.read_text().replace("ret;", "rett;"))
    wanted, got = both(tmp_path, *line.split(), rewriter=empty)
    assert same(got, wanted)
    assert len(got.notes) <= 1


def test_stdin_is_read_once_and_handed_on(tmp_path: Path, empty: str) -> None:
    for text in (SUM.read_bytes(), b"", b"\xff\xfe"):
        wanted, got = both(tmp_path, "-arch=sm_80", "-", "-o", "k.cubin", stdin=text, rewriter=empty)
        assert same(got, wanted), text[:40]
        for name in ("ptxas", "dropin"):
            shutil.rmtree(tmp_path / name)


def test_a_pipe_that_can_be_read_once_is_left_to_ptxas(tmp_path: Path, empty: str) -> None:
    line = f'exec "$@" -arch=sm_80 <(cat {SUM}) -o k.cubin'
    got = dropin(tmp_path / "dropin", command=("bash", "-c", line, "bash", *DROPIN), rewriter=empty)
    assert got.code == 0
    assert got.files == ptxas(tmp_path / "ptxas", "-arch=sm_80", str(SUM), "-o", "k.cubin").files
    assert "no regular file" in got.notes[0]


def test_a_proved_rewrite_is_what_ptxas_compiles(tmp_path: Path, good: str) -> None:
    log = tmp_path / "log.jsonl"
    line = ["-arch=sm_80", "-v", "-maxrregcount=64", str(SUM), "-o", "k.cubin"]
    wanted, got = both(tmp_path, *line, rewriter=good, ptxas_log=str(log))
    assert (got.code, got.out) == (0, wanted.out)
    assert got.notes == (f"hybridcc-ptxas: {SUM}: sum: rewritten, proved (r0-0); its speed was not measured",)
    assert got.files.keys() == wanted.files.keys() == {"k.cubin"}
    assert got.files["k.cubin"] != wanted.files["k.cubin"]
    assert b"Compiling entry function 'sum' for 'sm_80'" in got.err
    (entry,) = map(json.loads, log.read_text().splitlines())
    (kernel,) = entry["kernels"]
    assert (entry["rewritten"], entry["flags"]) == (True, ["-maxrregcount=64"])
    (candidate,) = kernel["architectures"][0]["candidates"]
    assert candidate["verdict"]["kind"] == "proved"
    assert "-maxrregcount=64" in candidate["machine"]["assembler"]


def test_a_rewrite_that_is_wrong_is_not_used(tmp_path: Path) -> None:
    wrong = record(tmp_path / "wrong.jsonl", four_at_a_time(last=1))
    wanted, got = both(tmp_path, "-arch=sm_80", str(SUM), "-o", "k.cubin", rewriter=f"replay:{wrong}")
    assert same(got, wanted)
    assert "REFUTED" in got.notes[0]


@pytest.mark.parametrize("named", ["this program", "no program"])
def test_a_ptxas_that_is_none_is_not_called(named: str, tmp_path: Path) -> None:
    itself = tmp_path / "hybridcc-ptxas"
    itself.write_text(f"#!/bin/sh\nexec {' '.join(DROPIN)} \"$@\"\n")
    itself.chmod(0o755)
    real = str(itself) if named == "this program" else str(tmp_path / "none")
    wanted, got = both(tmp_path, "-arch=sm_80", str(SUM), "-o", "k.cubin", ptxas=real)
    assert same(got, wanted)


def test_ptxas_gets_arguments_signals_and_exit_code_as_they_were(tmp_path: Path) -> None:
    script = tmp_path / "ptxas"
    script.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\ngrep SigIgn /proc/$$/status\nkill -9 $$\n")
    script.chmod(0o755)
    got = dropin(tmp_path, "-arch=sm_80", "a b", "", "é", ptxas=str(script))
    ignored = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, check=True).stdout
    assert got.out == "-arch=sm_80\na b\n\né\n".encode() + ignored
    assert got.code == -signal.SIGKILL


def test_an_interrupt_ends_it_as_it_would_end_ptxas(tmp_path: Path, empty: str) -> None:
    code = "import hybridcc.dropin.main as m, os, signal\n"
    code += "m._ask_worker = lambda *a: os.kill(os.getpid(), signal.SIGINT)\nm.main()"
    got = dropin(tmp_path, "-arch=sm_80", str(SUM), command=(sys.executable, "-c", code), rewriter=empty)
    assert got.code == -signal.SIGINT
    assert not got.files


def nvcc(folder: Path, *arguments: str, **variables: str) -> bytes:
    """The cubin that nvcc makes of a kernel."""
    (folder / "scale.cu").write_text(
        'extern "C" __global__ void scale(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }\n'
    )
    program = find("ptxas").path.with_name("nvcc")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    line = [program, "-cubin", "-arch=sm_80", "scale.cu", "-o", "scale.cubin", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = (folder / "scale.cubin").read_bytes()
    (folder / "scale.cubin").unlink()
    return made + done.stderr.encode()


@pytest.mark.skipif(not shutil.which("gcc"), reason="nvcc needs a host compiler")
def test_under_nvcc(tmp_path: Path, empty: str) -> None:
    wrapper = tmp_path / "hybridcc-ptxas"
    wrapper.write_text(f"#!/bin/sh\nexec {' '.join(DROPIN)} \"$@\"\n")
    wrapper.chmod(0o755)
    plain = nvcc(tmp_path)
    assert nvcc(tmp_path, f"--ptxas-prefix={wrapper}") == plain
    noted = nvcc(tmp_path, f"--ptxas-prefix={wrapper}", HYBRIDCC_REWRITER=empty)
    assert noted.startswith(plain)
    assert b"hybridcc-ptxas: " in noted
