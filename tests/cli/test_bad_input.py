"""What a user can get wrong: one clear message with the next step, a documented exit code, never a traceback; and
whatever fails after the frontend, the baseline is built."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybridcc.runtime import bundle

KERNELS = """
from numba import cuda, float32

def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s

def copy(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i]
"""

CONV1D = "conv1d(float32[::1], float32[::1], float32[::1])"
COPY = "copy(float32[::1], float32[::1])"

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 %a;
    ld.param.u64 %a, [p];
    ret;
}
"""


@pytest.fixture
def kernels(tmp_path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def hybridcc(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        [sys.executable, "-m", "hybridcc", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HYBRIDCC_DEBUG": "", "COLUMNS": "120", **environment},
    )
    assert "Traceback" not in run.stdout + run.stderr
    return run


def refused(run: subprocess.CompletedProcess[str], code: str, exit_code: int, *said: str) -> None:
    assert run.returncode == exit_code, run.stderr
    assert run.stdout == ""
    assert run.stderr.startswith(f"hybridcc: error [{code}]: "), run.stderr
    assert run.stderr.count("hybridcc: error") == 1
    assert "\n  next: " in run.stderr
    for text in said:
        assert text in run.stderr


def test_unknown_architecture(kernels, tmp_path):
    run = hybridcc("build", kernels, "--signature", COPY, "--arch", "sm_999", "-o", tmp_path / "out")
    refused(run, "UNKNOWN_ARCH", 2, "sm_999", "sm_90")
    ptx = tmp_path / "k.ptx"
    ptx.write_text(PTX)
    refused(hybridcc("build", ptx, "--arch", "gfx942", "-o", tmp_path / "out"), "UNKNOWN_ARCH", 2, "gfx942")


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("conv1d(float32, float32, float32)", "does not compile"),
        ("conv1d(float32[::1])", "takes 3 arguments"),
        ("conv1d(flaot32[::1])", "flaot32"),
        ("conv1d", "no signature"),
        ("conv2d(float32[::1])", "no function called conv2d"),
    ],
)
def test_signature_that_does_not_compile(kernels, tmp_path, signature, said):
    run = hybridcc("build", kernels, "--signature", signature, "--arch", "sm_80", "-o", tmp_path / "out")
    assert run.returncode == 2
    assert run.stderr.startswith("hybridcc: error [")
    assert said in run.stderr


def test_kernel_with_no_loop_is_built_and_told(kernels, tmp_path):
    run = hybridcc("build", kernels, "--signature", COPY, "--arch", "sm_80", "-o", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    assert "nothing to rewrite" in run.stdout
    built = bundle.load(tmp_path / "out" / "copy")
    assert built.entry("sm_80")["selection"]["code"] == "NOTHING_TO_REWRITE"
    assert built.cubin("sm_80") == built.cubin("sm_80", "baseline")


def test_unreadable_model_folder(kernels, tmp_path):
    spec = f"transformers:{tmp_path / 'no-model'}"
    run = hybridcc(
        "build", kernels, "--signature", CONV1D, "--arch", "sm_80", "--rewriter", spec, "-o", tmp_path / "out"
    )
    assert run.returncode == 2
    assert "no-model" in run.stderr
    assert "next: " in run.stderr
    built = bundle.load(tmp_path / "out" / "conv1d")
    assert built.entry("sm_80")["selection"]["variant"] == "baseline"
    assert built.manifest["failures"][0]["stage"] == "rewriter"


def test_recording_that_does_not_match(kernels, tmp_path):
    recording = tmp_path / "other.answers.jsonl"
    line = {"prompt_hash": "0" * 64, "template_version": "1", "model": "m", "date": "2026-12-01", "answer": "ret;"}
    recording.write_text(json.dumps(line) + "\n")
    run = hybridcc(
        "build", kernels, "--signature", CONV1D, "--arch", "sm_80", "--rewriter", f"replay:{recording}",
        "-o", tmp_path / "out",
    )  # fmt: skip
    assert run.returncode == 2
    assert "no answer is recorded" in run.stderr
    assert "hybridcc prompts" in run.stderr
    assert "RECORDING_MISMATCH" in run.stdout
    built = bundle.load(tmp_path / "out" / "conv1d")
    assert built.entry("sm_80")["failures"][0]["code"] == "RECORDING_MISMATCH"
    assert built.cubin("sm_80")


def test_recording_that_is_none(kernels, tmp_path):
    recording = tmp_path / "bad.answers.jsonl"
    recording.write_text("not json\n")
    run = hybridcc(
        "build", kernels, "--signature", CONV1D, "--arch", "sm_80", "--rewriter", f"replay:{recording}",
        "-o", tmp_path / "out",
    )  # fmt: skip
    assert run.returncode == 2
    assert "bad.answers.jsonl:1" in run.stderr
    assert bundle.load(tmp_path / "out" / "conv1d").cubin("sm_80")


def test_rewriter_of_no_kind(kernels, tmp_path):
    run = hybridcc("build", kernels, "--signature", COPY, "--rewriter", "magic", "-o", tmp_path / "out")
    assert run.returncode == 2
    assert "replay:FILE" in run.stderr


def test_unwritable_output_folder(kernels, tmp_path):
    (tmp_path / "file").write_text("")
    run = hybridcc("build", kernels, "--signature", COPY, "-o", tmp_path / "file" / "out")
    refused(run, "OUTPUT", 2, str(tmp_path / "file"))


def test_missing_and_wrong_files(tmp_path):
    refused(hybridcc("build", tmp_path / "none.py", "-o", tmp_path / "out"), "BAD_INPUT", 2, "no such file")
    refused(hybridcc("build", tmp_path, "-o", tmp_path / "out"), "BAD_INPUT", 2, "folder")
    (tmp_path / "k.cu").write_text("")
    refused(hybridcc("build", tmp_path / "k.cu", "-o", tmp_path / "out"), "BAD_INPUT", 2, ".py, .ptx and .mlir")
    refused(hybridcc("fmt", tmp_path / "none.ptx"), "BAD_INPUT", 2, "no such file")


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("def f(:\n    pass\n", ":1", "invalid syntax"),
        ("import numpy\n\nraise ValueError('not today')\n", ":3", "ValueError: not today"),
        ("import no_such_package\n", ":1", "no_such_package"),
        ("import sys\nsys.exit(5)\n", ":2", "SystemExit"),
        ("x = 1\n", "", "no kernel is declared"),
    ],
)
def test_python_file_that_does_not_import(tmp_path, text, place, said):
    path = tmp_path / "broken.py"
    path.write_text(text)
    refused(hybridcc("build", path, "-o", tmp_path / "out"), "BAD_INPUT", 2, f"{path}{place}", said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PTX.replace("ld.param.u64 %a, [p];", "ld.param.u64 %a [p;"), "k.ptx:7:"),
        ("", "no kernel"),
        ("// nothing\n", "no kernel"),
        (PTX.replace("%a, [p]", "%b, [p]"), "%b"),
        ("\x7fELF\x02\x01", "k.ptx"),
    ],
)
def test_ptx_with_errors(tmp_path, text, said):
    path = tmp_path / "k.ptx"
    path.write_text(text)
    run = hybridcc("build", path, "--arch", "sm_80", "-o", tmp_path / "out")
    assert run.returncode in (2, 3)
    assert run.stderr.startswith("hybridcc: error [")
    assert said in run.stderr
    assert "next: " in run.stderr


def test_no_gpu_keeps_the_baseline_and_says_so(kernels, tmp_path):
    run = hybridcc("build", kernels, "--signature", CONV1D, "--rewriter", "none", "-o", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    built = bundle.load(tmp_path / "out" / "conv1d")
    assert built.architectures == ("sm_80", "sm_86", "sm_90")
    for arch in built.architectures:
        assert built.cubin(arch) == built.cubin(arch, "baseline")
        assert built.entry(arch)["selection"]["measured"] is False


def test_missing_extra_is_named_with_its_command(kernels, tmp_path):
    """transformers is hidden from the process, as on a base install."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import sys\nfor name in ('torch', 'transformers'): sys.modules[name] = None\n"
    )
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "model" / name).write_text("{}")
    run = hybridcc(
        "build", kernels, "--signature", CONV1D, "--arch", "sm_80", "--rewriter", f"transformers:{tmp_path / 'model'}",
        "-o", tmp_path / "out", PYTHONPATH=f"{tmp_path / 'hidden'}:{Path.cwd()}",
    )  # fmt: skip
    assert run.returncode == 2
    assert "pip install 'hybridcc[model]'" in run.stderr
    assert bundle.load(tmp_path / "out" / "conv1d").cubin("sm_80")


def test_json_is_the_manifest(kernels, tmp_path):
    run = hybridcc("build", kernels, "--signature", COPY, "--arch", "sm_80", "-o", tmp_path / "out", "--json")
    assert run.returncode == 0, run.stderr
    (kernel,) = json.loads(run.stdout)["kernels"]
    assert kernel["kernel"]["name"] == "copy"
    assert kernel["files"] == bundle.load(tmp_path / "out" / "copy").manifest["files"]


def test_two_builds_are_equal_bytes(kernels, tmp_path):
    for name in ("a", "b"):
        run = hybridcc("build", kernels, "--signature", COPY, "--arch", "sm_80", "-o", tmp_path / name)
        assert run.returncode == 0
    a, b = ({p.name: p.read_bytes() for p in (tmp_path / n / "copy").iterdir()} for n in ("a", "b"))
    a.pop("log.json")
    b.pop("log.json")
    assert a == b
