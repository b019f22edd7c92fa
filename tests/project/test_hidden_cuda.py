"""The whole build, with the machine's CUDA hidden, and with one on the machine that must not be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

KERNEL = """
import math
import hybridcc
from numba import cuda

@hybridcc.jit("void(float32[::1])")
def curve(x):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] = math.tanh(x[i])
"""


@pytest.mark.parametrize("machine", ["no CUDA", "another CUDA"])
def test_the_build_takes_nothing_from_the_machine(machine: str, tmp_path: Path) -> None:
    (tmp_path / "curve.py").write_text(KERNEL)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CONDA_PREFIX"):
        environment.pop(name, None)
    if machine == "another CUDA":
        environment |= decoy(tmp_path / "cuda")
    command = [sys.executable, "-m", "hybridcc", "build", str(tmp_path / "curve.py"), "-o", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, "--rewriter", "none", "--arch", "sm_80,sm_90"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "curve" / "manifest.json").read_text())
    assert manifest["tools"]["nvjitlink"] == metadata.version("nvidia-nvjitlink")
    assert manifest["tools"]["nvvm"] == metadata.version("nvidia-nvvm")
    for arch in ("sm_80", "sm_90"):
        assert (tmp_path / "out" / "curve" / f"baseline.{arch}.cubin").read_bytes()[:4] == b"\x7fELF"


def decoy(place: Path) -> dict[str, str]:
    """A toolkit whose tools fail and whose libraries do not load, and variables that point to it."""
    for name in ("ptxas", "nvdisasm", "cuobjdump", "nvcc"):
        tool = place / "bin" / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text("#!/bin/sh\necho the decoy was used >&2\nexit 77\n")
        tool.chmod(0o755)
    for name in ("lib64/libnvvm.so.4", "lib64/libnvJitLink.so.13", "nvvm/lib64/libnvvm.so.4", "lib/libnvvm.so.4",
                 "nvvm/libdevice/libdevice.10.bc", "lib/libnvJitLink.so.13"):  # fmt: skip
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"the decoy")
    return {
        "PATH": f"{place}/bin:/nowhere",
        "CUDA_HOME": str(place),
        "CUDA_PATH": str(place),
        "CONDA_PREFIX": str(place),
        "LD_LIBRARY_PATH": f"{place}/lib64",
    }
