"""One file for all architectures and a header: what the toolkit and a C compiler make of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.building import build
from hybridcc.errors import InputError
from hybridcc.frontends import ptx_file
from hybridcc.ptx import parse
from hybridcc.ptx.canonical import canonical_key
from hybridcc.runtime import bundle, device
from hybridcc.runtime.calling import calling
from hybridcc.runtime.choice import choose
from hybridcc.runtime.fatbin import fallback, fatbin
from hybridcc.runtime.header import header, identifier
from hybridcc.runtime.toolchain import find
from hybridcc.shipping import shipped
from tests.ptx.cubins import CORPUS

pytestmark = pytest.mark.xdist_group("ahead")
ROOT = Path(__file__).parents[2]
LOADING = ROOT / "examples" / "loading"
on_gpu = pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}")
GCC, CXX = shutil.which("gcc"), shutil.which("g++")


@pytest.fixture
def built(out: Path) -> bundle.Bundle:
    return bundle.load(out / "folder" / "sum")


def cuobjdump(*arguments: object, cwd: Path) -> str:
    line = [find("cuobjdump").path, *map(str, arguments)]
    return subprocess.run(line, cwd=cwd, check=True, capture_output=True, text=True).stdout


def test_it_holds_what_was_selected_and_the_baseline_as_ptx(built: bundle.Bundle, tmp_path: Path) -> None:
    file = built.folder / "sum.fatbin"
    elves = [line.split(": ")[1] for line in cuobjdump("-lelf", file, cwd=tmp_path).splitlines()]
    texts = [line.split(": ")[1] for line in cuobjdump("-lptx", file, cwd=tmp_path).splitlines()]
    assert [name.split(".")[-2] for name in elves] == ["sm_80", "sm_90a"]
    assert [name.split(".")[-2] for name in texts] == ["sm_80"]
    cuobjdump("-xelf", "all", "-xptx", "all", file, cwd=tmp_path)
    for name in elves:
        assert (tmp_path / name).read_bytes() == built.cubin(name.split(".")[-2])
    for name in texts:
        text = (tmp_path / name).read_text().rstrip("\0")  # without the comments
        own = built.ptx(name.split(".")[-2])
        assert canonical_key(parse(text), "sum") == canonical_key(parse(own), "sum")
    assert built.entry("sm_80")["selection"]["variant"] == "r0-0"
    assert built.cubin("sm_80") != built.cubin("sm_80", "baseline")


def test_equal_code_makes_equal_bytes_wherever_it_is_made() -> None:
    cubins = {"sm_80": find("ptxas").path.read_bytes()[:64]}
    with pytest.raises(InputError, match="no cubin"):
        fatbin({}, {})
    with pytest.raises(Exception, match="fatbinary 13"):
        fatbin(cubins, {})


def test_a_second_build_is_the_same(built: bundle.Bundle) -> None:
    files = {name: built.read(name) for name in built.manifest["files"]}
    again = shipped(built.manifest, files, "sum", fatbin=True, header=True)
    assert again == {name: files[name] for name in ("sum.fatbin", "sum.h")}


NAMES = st.sampled_from(
    ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_103", "sm_120a"]
)
DEVICES = st.sampled_from([(7, 5), (8, 0), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 1)])


@given(st.sets(NAMES, min_size=1), DEVICES)
def test_the_fallback_holds_whatever_a_device_would_choose(names: set[str], capability: tuple[int, int]) -> None:
    kept = fallback(dict.fromkeys(names, ""))
    assert choose(names, kept, capability) == choose(names, names, capability)


@pytest.mark.skipif(not GCC, reason="no C compiler")
@pytest.mark.parametrize("language", ["c -std=c89", "c -std=c99 -pedantic", "c++ -std=c++11 -pedantic"])
def test_the_header_compiles(language: str, built: bundle.Bundle, tmp_path: Path) -> None:
    use = '#include "sum.h"\nchar entry[] = SUM_ENTRY; sum_parameters p; int most[SUM_MAX_THREADS == 256 ? 1 : -1];\n'
    compiled(f"-x {language}", built.read("sum.h"), "sum.h", use, tmp_path)


def compiled(options: str, text: bytes, name: str, use: str, folder: Path) -> None:
    (folder / name).write_bytes(text)
    (folder / "use.c").write_text(use)
    line = [str(GCC), *options.split(), "-Wall", "-Wextra", "-Werror", "-Wno-long-long", "-fsyntax-only", "use.c"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not GCC, reason="no C compiler")
def test_headers_of_every_kind_of_parameter_compile(tmp_path: Path) -> None:
    """Blocks of bytes, numbers of every size, arrays of Numba and of MLIR; the compiler checks the offsets."""
    files = ("nvcc-13/x_ctrl.sm_90", "clang/clang_sm_80O2", "numba-cuda/localsort.sm_90", "numba-cuda-mlir/hist.sm_80")
    texts, use = [], ""
    for file in files:
        for kernel in ptx_file.load(CORPUS / f"{file}.ptx"):
            stem = f"k{len(texts)}"
            told = {"name": "*/ evil \n", "frontend": "ptx", "source": "", "calling": calling(kernel)}
            (tmp_path / f"{stem}.h").write_text(header({"hybridcc": "0", "kernel": told, "architectures": []}, stem))
            texts.append(stem)
            use += f'#include "{stem}.h"\n'
    assert len(texts) > 10
    compiled("-x c++", b"", "none.h", use, tmp_path)


def test_names_that_c_does_not_take() -> None:
    assert identifier("conv1d-1") == "conv1d_1"
    assert identifier("1d") == "k_1d"
    assert identifier("größe") == "gr__e"


@pytest.fixture(scope="module")
def conv1d(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    build(ROOT / "examples" / "conv1d.py", folder, arch=("sm_80", "sm_90"), rewriter="none", fatbin=True, header=True)
    return folder / "conv1d"


@pytest.fixture(scope="module")
def program(conv1d: Path) -> tuple[Path, Path]:
    """The C++ example, and the fatbin for it."""
    if not CXX:
        pytest.skip("no C++ compiler")
    folder = conv1d.parent
    include = find("ptxas").path.parents[1] / "include"
    line = [str(CXX), "-Wall", "-Werror", "-I", folder / "conv1d", "-I", include, LOADING / "driver.cpp"]
    subprocess.run([*line, "-ldl", "-o", folder / "driver"], check=True)
    return folder / "driver", folder / "conv1d" / "conv1d.fatbin"


def test_the_example_in_cpp_compiles_and_starts(program: tuple[Path, Path]) -> None:
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) in (
        (0, "4096 sums are right\n"),
        (3, "no CUDA driver: cuInit is not there\n"),
        (3, "cuInit: CUDA error 100\n"),
    )


@on_gpu
@pytest.mark.gpu
def test_the_example_in_cpp_computes(program: tuple[Path, Path]) -> None:
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout == "4096 sums are right\n"


@on_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("script", ["with_cupy.py", "with_cuda_core.py"])
def test_the_examples_in_python_compute(script: str, conv1d: Path) -> None:
    pytest.importorskip("cupy")
    line = [sys.executable, LOADING / script, conv1d]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4096 sums are right" in done.stdout


@pytest.mark.skipif(not (CXX and shutil.which("cmake")), reason="no CMake")
def test_the_cmake_recipe_configures(tmp_path: Path) -> None:
    """Building takes what the tests above take; the recipe is configured, and its commands are read."""
    script = tmp_path / "hybridcc"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    line = ["cmake", "-S", LOADING, "-B", tmp_path / "build", f"-DHYBRIDCC={script}", "-G", "Unix Makefiles"]
    subprocess.run(line, check=True, capture_output=True, env={**os.environ, "CXX": str(CXX)})
    rules = (tmp_path / "build/CMakeFiles/conv1d_files.dir/build.make").read_text()
    assert f"{script} build" in rules
    assert "--format fatbin --header --arch sm_80,sm_90 --select proved" in rules
