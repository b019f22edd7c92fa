"""The table of architectures, held against NVIDIA's own headers in the toolkit wheels."""

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from hybridcc.errors import UnknownArchitecture
from hybridcc.ptx import targets
from hybridcc.runtime.toolchain import find

BLOCKS = "cudaOccMaxBlocksPerMultiprocessor"


def occupancy_header(function: str, major: int) -> str:
    """The ``case`` of one architecture generation in one function of cuda_occupancy.h."""
    header = find("ptxas").path.parents[1] / "include" / "cuda_occupancy.h"
    body = header.read_text().split(f"cudaOccError {function}(")[1].split("\n}\n")[0]
    return (
        re.split(rf"\n {{4,8}}case {major}:", body)[1].split("break;\n        case")[0].split(f"case {major + 1}:")[0]
    )


@pytest.mark.parametrize("name", targets.known_targets())
def test_figures_agree_with_the_occupancy_header(name: str) -> None:
    on = targets.target(name)
    major, minor = on.capability
    shared = occupancy_header("cudaOccAlignUpShmemSizeVoltaPlus", major)
    if major == 8:
        first, second = shared.split("        else {\n            if      (size == 0)")
        shared = first if minor == 0 else second
    assert max(int(k) for k in re.findall(r"= (\d+) \* 1024;", shared)) * 1024 == on.shared_per_sm
    assert on.shared_per_block == on.shared_per_sm - targets.RESERVED_SHARED
    blocks = re.findall(r"(?:computeMinor == (\d)\)[^=]*?)?value = (\d+);", occupancy_header(BLOCKS, major))
    by_minor = {int(m): int(v) for m, v in blocks if m}
    assert on.blocks_per_sm == by_minor.get(minor, int(blocks[-1][1]) if major == 8 else int(blocks[0][1]))


@pytest.mark.parametrize("name", targets.known_targets())
def test_the_assembler_wants_the_least_ptx_version(name: str, tmp_path: Path) -> None:
    versions = [(6, 5), (7, 0), (7, 1), (7, 7), (7, 8), (8, 0)]
    text = f".target {name}\n.entry k(){{ret;}}"
    accepted = [v for v in versions if assembles(f".version {v[0]}.{v[1]}\n{text}", name, tmp_path)]
    assert accepted[0] == targets.target(name).least_ptx


def assembles(ptx: str, arch: str, folder: Path) -> bool:
    source = folder / "k.ptx"
    source.write_text(ptx)
    command = [str(find("ptxas").path), "-arch", arch, str(source), "-o", str(folder / "k.cubin")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_every_figure_has_a_source() -> None:
    target = targets.target("sm_90")
    named = {f.name for f in fields(target)} - {"name", "capability", "arch_specific"}
    assert set(target.sources) == named


def test_an_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(UnknownArchitecture, match="sm_80, sm_86, sm_89, sm_90, sm_90a"):
        targets.target("sm_75")


@pytest.mark.parametrize(
    ("ptx", "arch", "works"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_90", True),
        ("sm_90", "sm_80", False),
        ("sm_90a", "sm_90", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90", "sm_90a", True),
    ],
)
def test_which_ptx_assembles_for_which_architecture(ptx: str, arch: str, works: bool) -> None:
    assert targets.assembles_for(ptx, arch) is works


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks"),
    [
        ("sm_80", 256, 32, 0, 8),  # 64 warps
        ("sm_86", 256, 32, 0, 6),  # 48 warps
        ("sm_80", 256, 64, 0, 4),  # registers
        ("sm_80", 256, 65, 0, 3),  # 65 registers cost as many as 72
        ("sm_90", 1024, 64, 0, 1),
        ("sm_90", 1024, 65, 0, 0),  # more registers than there are
        ("sm_80", 32, 16, 0, 32),  # blocks
        ("sm_80", 128, 16, 48 * 1024, 3),
        ("sm_80", 128, 16, 164 * 1024, 0),
        ("sm_90", 128, 16, 227 * 1024, 1),
        ("sm_80", 2048, 16, 0, 0),
    ],
)
def test_occupancy(name: str, threads: int, registers: int, shared: int, blocks: int) -> None:
    on = targets.target(name)
    assert targets.blocks_per_sm(on, threads=threads, registers=registers, shared=shared) == blocks


def test_common_facts_hold_for_every_target() -> None:
    text = "\n".join(targets.common_facts())
    assert "48 warps or more" in text
    assert "99 KiB or more" in text
