"""``hybridcc run``: kernels on the CPU from the shell, and what a fault looks like."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 px, .param .f32 a, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [px];
    ld.param.f32 %f0, [a];
    ld.param.u32 %r0, [n];
    cvta.to.global.u64 %d1, %d0;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, %r0;
    @%p bra $DONE;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.f32 %f1, [%d3];
    mul.f32 %f2, %f1, %f0;
    st.global.f32 [%d3], %f2;
$DONE:
    ret;
}
"""

KERNEL = """
import numpy as np
import hybridcc
from numba import cuda

@hybridcc.jit("void(float32[::1], float32)", examples=lambda: (1, 32, (np.arange(20, dtype=np.float32), 3)))
def scale(x, a):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= a
"""


def hybridcc(*arguments: object) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        [sys.executable, "-m", "hybridcc", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HYBRIDCC_DEBUG": ""},
    )
    assert "Traceback" not in run.stdout + run.stderr
    return run


@pytest.fixture
def ptx(tmp_path):
    path = tmp_path / "scale.ptx"
    path.write_text(PTX)
    return path


def test_ptx_with_arguments_from_the_shell(ptx, tmp_path):
    out = tmp_path / "after.npz"
    run = hybridcc("run", ptx, "--arg", "f32[20]=arange", "--arg", "f32:3", "--arg", "u32:10", "-o", out, "--json")
    assert run.returncode == 0, run.stderr
    data = json.loads(run.stdout)
    assert data["arguments"][0]["changed"]
    assert data["block_counts"]["$DONE"] == 32
    expected = np.arange(20, dtype=np.float32)
    expected[:10] *= 3
    np.testing.assert_array_equal(np.load(out)["arg0"], expected)


@pytest.mark.parametrize("schedule", ["lowest", "random", "reversed"])
def test_every_schedule_gives_the_same(ptx, schedule):
    run = hybridcc("run", ptx, "--arg", "f32[20]=arange", "--arg", "f32:3", "--arg", "u32:20", "--schedule", schedule)
    assert run.returncode == 0, run.stderr
    assert "arg0 float32[20] changed" in run.stdout


def test_an_access_out_of_bounds_names_thread_and_line(ptx):
    run = hybridcc("run", ptx, "--arg", "f32[20]", "--arg", "f32:3", "--arg", "u32:21")
    assert run.returncode == 1
    assert run.stderr.startswith("hybridcc: error [OUT_OF_BOUNDS]")
    assert "thread (20, 0, 0)" in run.stderr
    assert "ld.global.f32" in run.stderr


def test_a_numba_kernel_runs_on_its_own_examples(tmp_path):
    (tmp_path / "scale.py").write_text(KERNEL)
    run = hybridcc("run", tmp_path / "scale.py")
    assert run.returncode == 0, run.stderr
    assert "x float32[20] changed" in run.stdout
    assert "57." in run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arg", "f32[20]"), "3"),
        (("--arg", "f32[20]", "--arg", "nonsense", "--arg", "u32:1"), "not a value"),
        (("--grid", "0"), "grid"),
        (("--block", "64,64"), "1024"),
        (("--grid", "a"), "no shape"),
        (("--entry", "other"), "scale"),
    ],
)
def test_what_does_not_fit_is_named(ptx, arguments, said):
    given = arguments if "--arg" in arguments else (*arguments, "--arg", "f32[9]", "--arg", "f32:1", "--arg", "u32:9")
    run = hybridcc("run", ptx, *given)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert run.stderr.startswith("hybridcc: error [BAD_INPUT]")
