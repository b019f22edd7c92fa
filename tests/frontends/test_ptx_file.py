"""Kernels from .ptx files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc.errors import InputError, PtxSyntaxError
from hybridcc.frontends.ptx_file import from_text, load
from hybridcc.passes.kernel import LaunchBounds
from hybridcc.runtime.assemble import assemble

TWO = """.version 8.0
.target sm_80, debug
.address_size 64
.visible .entry first(.param .u64 a, .param .f32 b) .maxntid 32, 4 .minnctapersm 3 { ret; }
.visible .entry second() .reqntid 64 { ret; }
.func helper() { ret; }
"""


def test_every_entry_with_bounds_and_facts(tmp_path: Path) -> None:
    (tmp_path / "two.ptx").write_text(TWO)
    first, second = load(tmp_path / "two.ptx")
    assert (first.name, first.arch, first.frontend) == ("first", "sm_80", "ptx")
    assert first.launch_bounds == LaunchBounds(128, 3)
    assert [str(f) for f in first.facts] == ["%ntid.x <= 128", "%ntid.y <= 128", "%ntid.z <= 128"]
    assert second.launch_bounds == LaunchBounds(64, None)
    assert [str(f) for f in second.facts] == ["%ntid.x == 64", "%ntid.y == 1", "%ntid.z == 1"]
    assert first.ptx == second.ptx == TWO
    assert first.arguments == ()


def test_one_entry_for_another_architecture() -> None:
    (kernel,) = from_text(TWO.replace(", debug", ""), "second", "sm_90", name="two.ptx")
    assert (kernel.entry, kernel.arch) == ("second", "sm_90")
    assert assemble(kernel.ptx, kernel.arch).resources("second").registers > 0


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no entry third") as caught:
        from_text(TWO, "third", name="two.ptx")
    assert "first, second" in str(caught.value)
    with pytest.raises(InputError, match="no kernel"):
        from_text(".version 8.0\n.target sm_80\n", name="none.ptx")
    with pytest.raises(InputError, match=r"no \.target"):
        from_text(".version 8.0\n.visible .entry e() { ret; }", name="bare.ptx")
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "none.ptx")
    (tmp_path / "binary.ptx").write_bytes(b"\x7fELF\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "binary.ptx")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)
    with pytest.raises(PtxSyntaxError):
        from_text(TWO.replace("{ ret; }", "{ ret", 1), name="cut.ptx")
