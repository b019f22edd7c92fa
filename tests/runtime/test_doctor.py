"""What the doctor says, on this machine and on poorer ones."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hybridcc.runtime import doctor

ROOT = Path(__file__).parents[2]


def by_name() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.examine()}


def test_here_kernels_can_be_built() -> None:
    findings = doctor.examine()
    found = {finding.name: finding for finding in findings}
    assert doctor.can_build(findings)
    assert metadata.version("nvidia-nvjitlink") in found["nvjitlink"].detail
    assert "compiled a kernel" in found["numba-cuda"].detail
    assert all(finding.cost and finding.next_step for finding in findings if finding.state != "ok")
    assert all(not finding.cost for finding in findings if finding.state == "ok")


def test_no_gpu_is_said_with_its_cost() -> None:
    from hybridcc.runtime import device

    gpu = by_name()["gpu"]
    if device.available() is None:
        assert gpu.state == "missing"
        assert "not_measured" in gpu.cost
    else:
        assert gpu.state in ("ok", "broken")
        assert "sm_" in gpu.detail


def test_the_store_and_its_journal_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hybridcc.runtime import store_file

    monkeypatch.setenv(store_file.VARIABLE, str(tmp_path / "cache"))
    found = doctor._store()
    assert found.state == "ok"
    assert f"0 decisions in {tmp_path / 'cache'}" in found.detail
    assert "write-ahead log" in found.detail
    (tmp_path / "mounts").write_text(f"server:/x {tmp_path.resolve()} nfs4 rw 0 0\n")
    monkeypatch.setattr(store_file, "MOUNTS", tmp_path / "mounts")
    found = doctor._store()
    assert found.state == "ok"
    assert "network file system (nfs4), so it keeps a DELETE journal" in found.detail
    assert store_file.VARIABLE in found.detail
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(store_file.VARIABLE, str(tmp_path / "file" / "below"))
    found = doctor._store()
    assert found.state == "broken"
    assert found.cost
    assert store_file.VARIABLE in found.next_step


def test_a_missing_wheel_means_no_building(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.distribution

    def without_nvvm(name: str) -> metadata.Distribution:
        if name == "nvidia-nvvm":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "distribution", without_nvvm)
    findings = doctor.examine()
    assert not doctor.can_build(findings)
    nvvm = next(finding for finding in findings if finding.name == "nvvm")
    assert (nvvm.state, nvvm.next_step) == ("missing", "pip install 'nvidia-nvvm==13.0.*'")


def test_missing_extras_cost_what_they_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    gone = {"torch": "hybridcc[model]", "z3": "z3-solver", "numba_cuda_mlir": "hybridcc[mlir]"}
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name in gone else find_spec(name))
    findings = doctor.examine()
    assert doctor.can_build(findings)
    missing = {finding.name: finding for finding in findings if finding.state == "missing"}
    for module, extra in gone.items():
        finding = missing[{"z3": "z3-solver"}.get(module, module.replace("_", "-"))]
        assert finding.cost
        assert extra in finding.next_step


def test_a_system_cuda_is_named_as_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda-11")
    assert by_name()["CUDA_HOME"].detail == "/opt/cuda-11: not used, the toolkit comes from the wheels"


def test_the_command_prints_text_and_json() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "hybridcc", "doctor"]
    text = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout
    assert text.splitlines()[-1] == "kernels can be built here"
    data = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, env=env, check=True).stdout)
    assert data["can_build"] is True
    assert {finding["group"] for finding in data["findings"]} == {"machine", "toolkit", "frontends", "proof", "models"}
