"""The toolkit comes from the wheels, also when the machine offers another one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hybridcc.errors import ToolchainError
from hybridcc.runtime import toolchain
from tests.project.test_hidden_cuda import decoy

ROOT = Path(__file__).parents[2]

USE_EVERYTHING = """
from hybridcc.runtime import toolchain
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.sass import disassemble
from hybridcc.frontends import numba as frontend

import math
from numba import cuda
def curve(x):
    x[cuda.grid(1)] = math.tanh(x[cuda.grid(1)])

kernel = frontend.compile(curve, "void(float32[::1])", "sm_90")
for assembler in ("nvjitlink", "ptxas"):
    cubin = assemble(kernel.ptx, "sm_90", assembler)
assert disassemble(cubin)[0][0].instructions
for line in open("/proc/self/maps"):
    if any(word in line for word in ("libnvvm", "libnvJitLink", "libnvrtc")):
        print(line.split(maxsplit=5)[5].strip())
"""


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


def folders(done: subprocess.CompletedProcess[str]) -> set[Path]:
    return {Path(line).parent for line in done.stdout.splitlines()}


def test_every_part_is_found_in_a_wheel() -> None:
    for name, part in toolchain.PARTS.items():
        tool = toolchain.find(name)
        assert tool.path.is_file()
        assert tool.version == metadata.version(part.distribution)
        assert "nvidia" in tool.path.parts
    assert set(toolchain.versions()) == set(toolchain.PARTS)


def test_a_missing_wheel_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", none)
    with pytest.raises(ToolchainError) as caught:
        toolchain.find("ptxas")
    assert caught.value.next_step == "pip install 'nvidia-cuda-nvcc==13.0.*'"
    assert toolchain.versions() == dict.fromkeys(toolchain.PARTS)


def test_the_build_needs_no_system_cuda() -> None:
    done = run(USE_EVERYTHING, PATH="/nowhere", CUDA_HOME="", CUDA_PATH="", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr
    assert folders(done) == {toolchain.find("nvvm").path.parent}


def test_a_system_cuda_is_not_used_when_there_is_one(tmp_path: Path) -> None:
    done = run(USE_EVERYTHING, **decoy(tmp_path))
    assert done.returncode == 0, done.stderr
    assert folders(done) == {toolchain.find("nvvm").path.parent}


def test_environment_of_tools_points_to_no_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda-11")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/cuda-11/lib64")
    assert not {"CUDA_HOME", "LD_LIBRARY_PATH"} & set(toolchain.environment())
    with toolchain.hidden_system_cuda():
        assert "CUDA_HOME" not in os.environ
    assert os.environ["CUDA_HOME"] == "/opt/cuda-11"
