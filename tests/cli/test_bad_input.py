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


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The same in this process, where Numba is imported already."""
    from typer.testing import CliRunner

    from hybridcc.cli import app

    run = CliRunner(env={"HYBRIDCC_DEBUG": "", "COLUMNS": "120"}).invoke(app, [str(a) for a in arguments])
    assert run.exception is None or isinstance(run.exception, SystemExit)
    return subprocess.CompletedProcess([str(a) for a in arguments], run.exit_code, run.stdout, run.stderr)


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
    (tmp_path / "k.rs").write_text("")
    refused(hybridcc("build", tmp_path / "k.rs", "-o", tmp_path / "out"), "BAD_INPUT", 2, ".py", ".ptx", ".mlir", ".cu")
    (tmp_path / "k.cu").write_text("")
    refused(hybridcc("build", tmp_path / "k.cu", "-o", tmp_path / "out"), "BAD_INPUT", 2, "holds no kernel")
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(0)\n", "SystemExit"),
        ("def examples():\n    raise SystemExit(0)\n", "SystemExit"),
        ("def examples():\n    raise KeyError('x')\n", "KeyError"),
        ("def examples(:\n", "syntax error"),
        ("def examples():\n    return 'hello'\n", "not a launch"),
        ("def examples():\n    return 1, 2048, (X, X)\n", "1024 threads"),
        ("def examples():\n    return -1, 32, (X, X)\n", "-1"),
        ("def examples():\n    return 1, 32, (X,)\n", "2 arguments"),
        ("def examples():\n    return 1, 32, (X.astype('f8'), X)\n", "float64"),
        ("def examples():\n    return 1, 32, (X.reshape(2, 4), X)\n", "of 2"),
        ("def examples():\n    return 1, 32, (X[::2], X)\n", "C-contiguous"),
        ("def examples():\n    return 1, 32, ([1.0], X)\n", "list"),
        ("def example():\n    return 1, 32, (X, X)\n", "examples_copy"),
    ],
)
def test_inputs_that_are_no_launch(kernels, tmp_path, text, said):
    path = tmp_path / "inputs.py"
    path.write_text(f"import numpy\nX = numpy.zeros(8, numpy.float32)\n{text}")
    run = here("build", kernels, "--signature", COPY, "--arch", "sm_80", "--inputs", path, "-o", tmp_path / "out")
    refused(run, "BAD_INPUT", 2, "inputs.py", said)


@pytest.mark.parametrize("name", ["inputs.npz", "inputs.txt", "none.npz"])
def test_inputs_that_are_no_such_file(kernels, tmp_path, name):
    if name != "none.npz":
        (tmp_path / name).write_bytes(b"\x81junk" * 40)
    run = here(
        "build", kernels, "--signature", COPY, "--arch", "sm_80", "--inputs", tmp_path / name, "-o", tmp_path / "out"
    )
    refused(run, "BAD_INPUT", 2, name)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (PTX.replace(".reg .b64 %a;", ""), ":7", "mend the PTX at that line"),
        (PTX.replace("ret;", "bra NOWHERE;"), ":8", "NOWHERE"),
        (PTX.replace(".target sm_80", ""), ":3", ".target"),
        (PTX.replace(".visible", ".extern .func other();\n.visible").replace("ret;", "call other; ret;"), "", "linked"),
    ],
)
def test_ptx_that_the_assembler_refuses_is_bad_input(tmp_path, text, line, said):
    path = tmp_path / "k.ptx"
    path.write_text(text)
    run = here("build", path, "--arch", "sm_80", "-o", tmp_path / "out")
    refused(run, "ASSEMBLY", 2, f"{path}{line}", said)


def test_a_message_shows_a_piece_of_a_long_line(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(PTX.replace("ret;", "ret; " * 2000 + "}"))
    run = here("build", path, "--arch", "sm_80", "-o", tmp_path / "out")
    refused(run, "PTX_SYNTAX", 2, "^")
    assert max(map(len, run.stderr.splitlines())) < 400


@pytest.mark.parametrize("line", ["[" * 100_000, "1" * 10_000, "\x00", "null", '{"prompt_hash": 1}'])
def test_recordings_of_any_junk_leave_the_baseline(kernels, tmp_path, line):
    recording = tmp_path / "junk.answers.jsonl"
    recording.write_text(line + "\n")
    run = here(
        "build", kernels, "--signature", COPY, "--arch", "sm_80", "--rewriter", f"replay:{recording}",
        "-o", tmp_path / "out",
    )  # fmt: skip
    assert run.returncode == 2
    assert "error [MODEL]" in run.stderr
    assert bundle.load(tmp_path / "out" / "copy").cubin("sm_80")


@pytest.mark.parametrize(
    "signature",
    ['copy(__import__("os").abort())', "copy((lambda: 1)())", "copy(float32.__class__)", "copy([t for t in (1, 2)])"],
)
def test_a_signature_names_types_and_runs_nothing(kernels, tmp_path, signature):
    run = here("build", kernels, "--signature", signature, "--arch", "sm_80", "-o", tmp_path / "out")
    refused(run, "SIGNATURE", 2, "is no type")


def test_a_folder_with_other_files_in_it_is_left_alone(kernels, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "notes.txt").write_text("precious")
    run = here("build", kernels, "--signature", COPY, "--arch", "sm_80", "-o", tmp_path)
    refused(run, "OUTPUT", 2, "notes.txt")
    assert [p.name for p in (tmp_path / "copy").iterdir()] == ["notes.txt"]


def test_architectures_too_old_and_named_twice(kernels, tmp_path):
    run = here("build", kernels, "--signature", COPY, "--arch", "sm_75", "-o", tmp_path / "out")
    refused(run, "UNKNOWN_ARCH", 2, "sm_80")
    run = here("build", kernels, "--signature", COPY, "--arch", "sm_80,sm_80", "-o", tmp_path / "out")
    assert run.returncode == 0
    assert bundle.load(tmp_path / "out" / "copy").architectures == ("sm_80",)


def test_kernels_of_one_name_have_a_folder_each(tmp_path):
    path = tmp_path / "twins.py"
    path.write_text("""
import hybridcc
from numba import cuda

def make(step):
    @hybridcc.jit(["void(float32[::1])", "void(float64[::1])"])
    def twin(x):
        x[cuda.grid(1)] += step
    return twin

one, two = make(1), make(2)
""")
    assert here("build", path, "--arch", "sm_80", "-o", tmp_path / "out").returncode == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["twin", "twin-1", "twin-2", "twin-3"]


@pytest.mark.parametrize("verb", ["build", "regions", "prompts", "run", "doctor", "fmt"])
def test_a_reader_that_has_gone_is_no_error(kernels, tmp_path, verb):
    """As ``| head`` does: exit code 0, and nothing on stderr."""
    (tmp_path / "k.ptx").write_text(PTX)
    arguments = {
        "build": ["--signature", COPY, "--arch", "sm_80", "-o", tmp_path / "out"],
        "regions": ["--signature", CONV1D],
        "prompts": ["--signature", CONV1D, "--show"],
        "run": ["--signature", COPY, "--arg", "f32[4]", "--arg", "f32[4]"],
        "doctor": [],
        "fmt": [],
    }
    target = {"doctor": [], "fmt": [tmp_path / "k.ptx"]}.get(verb, [kernels])
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        run = subprocess.run(
            [sys.executable, "-m", "hybridcc", verb, *map(str, [*target, *arguments[verb]])],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    assert run.stderr == ""
    assert run.returncode == 0
