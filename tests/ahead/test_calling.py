"""How a kernel is called, held against what ptxas says of its parameters."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hybridcc.frontends import ptx_file
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.runtime.calling import calling, field_name
from hybridcc.runtime.toolchain import find
from tests.ptx.cubins import CORPUS, architecture

FILES = ("nvcc-13/x_ctrl.sm_90", "clang/clang_sm_80O2", "numba-cuda/localsort.sm_90", "numba-cuda-mlir/hist.sm_80")
PARAMETER = re.compile(r"Ordinal : (0x[0-9a-f]+)\s+Offset\s+: (0x[0-9a-f]+)\s+Size\s+: (0x[0-9a-f]+)")


def told_by_ptxas(file: Path, folder: Path) -> dict[str, list[tuple[int, int]]]:
    """(offset, bytes) of every parameter, by entry."""
    cubin = folder / "k.cubin"
    line = [find("ptxas").path, "-arch", architecture(file.read_text()), file, "-o", cubin]
    subprocess.run(line, check=True, capture_output=True)
    text = subprocess.run([find("cuobjdump").path, "-elf", cubin], check=True, capture_output=True, text=True).stdout
    heads = list(re.finditer(r"^\.nv\.info\.(\S+)$", text, re.MULTILINE))
    found = {}
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(text)], strict=True):
        each = PARAMETER.findall(text, head.end(), end)
        found[head[1]] = [(int(o, 16), int(s, 16)) for _, o, s in sorted(each, key=lambda p: int(p[0], 16))]
    return found


@pytest.mark.parametrize("name", FILES)
def test_offsets_and_sizes_are_those_of_the_cubin(name: str, tmp_path: Path) -> None:
    file = CORPUS / f"{name}.ptx"
    told = told_by_ptxas(file, tmp_path)
    kernels = ptx_file.load(file)
    for kernel in kernels:
        fields = [f for a in calling(kernel)["arguments"] for f in a["fields"]]
        assert [(f["offset"], f["bytes"]) for f in fields] == told.get(kernel.entry, []), kernel.entry


def ptx(parameters: str) -> str:
    return f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k({parameters}) {{ ret; }}\n"


def test_alignment_of_blocks_and_of_what_is_pointed_to() -> None:
    text = ptx(".param .u8 a, .param .align 8 .b8 b[12], .param .u64 .ptr .global .align 16 c, .param .u16 d")
    (kernel,) = ptx_file.from_text(text, name="k.ptx")
    told = calling(kernel)
    assert [(f["offset"], f["bytes"]) for a in told["arguments"] for f in a["fields"]] == [
        (0, 1), (8, 12), (24, 8), (32, 2)
    ]  # fmt: skip
    assert (told["bytes"], told["guessed"], told["arguments"][1]["dtype"]) == (34, True, "bytes")


def test_arguments_by_meaning() -> None:
    vector = Argument("x", ArrayType("float32", 1), (Field("data", ".u64"), Field("shape", ".u64", 0)))
    number = Argument("n", ScalarType("float32"), (Field("value", ".f32"),))
    text = ptx(".param .u64 a, .param .u64 b, .param .f32 c")
    told = calling(Kernel("k", "k", text, "sm_80", "made", (vector, number)))
    x, n = told["arguments"]
    assert (x["layout"], x["ndim"], n["ndim"], told["guessed"]) == ("C", 1, None, False)
    assert [field_name(x, f) for f in x["fields"]] == ["x_data", "x_shape0"]
    assert field_name(n, n["fields"][0]) == "n"


def test_arguments_that_are_other_parameters_are_refused() -> None:
    from hybridcc.errors import InputError

    number = Argument("n", ScalarType("float32"), (Field("value", ".f32"),))
    with pytest.raises(InputError, match="2 parameters"):
        calling(Kernel("k", "k", ptx(".param .u64 a, .param .u64 b"), "sm_80", "made", (number,)))
