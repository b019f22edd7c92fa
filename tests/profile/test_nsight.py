"""The source page of Nsight Compute, mapped to regions. The CSV's form is that of ncu 2025.3 on an H200."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc.errors import ProfileError
from hybridcc.passes.profile.samples import read_csv
from hybridcc.passes.regions import find
from hybridcc.runtime import sass
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.nsight import by_block, located_code, share_of
from hybridcc.sources import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "conv1d.py"
COLUMNS = '"Address","Source","Warp Stall Sampling (All Samples)","# Samples","stall_long_sb","stall_wait"'


def page(code: tuple[str, ...], sampled: dict[int, int]) -> str:
    rows = [
        f'"0x{16 * n:x}","      {text}","{sampled.get(n, 0)}","{sampled.get(n, 0)}","{sampled.get(n, 0)}","0"'
        for n, text in enumerate(code)
    ]
    return "\n".join(["==PROF== Connected to process 7", '"Kernel Name","k",', COLUMNS, *rows])


def test_lines_change_no_machine_code_and_name_every_block() -> None:
    kernel = load(str(EXAMPLE), ["sm_90"])[0].kernels[0]
    code = located_code(kernel, "sm_90")
    ((plain,),) = sass.disassemble(assemble(kernel.ptx, "sm_90"))
    assert [t.split()[0] for t in code.text if not t.startswith("@")] == [
        i.opcode for i in plain.instructions if not i.predicate
    ]
    assert {b for b in code.blocks if b is not None} >= set(range(6))


def test_samples_become_shares_of_regions() -> None:
    kernel = load(str(EXAMPLE), ["sm_90"])[0].kernels[0]
    (region,) = find(kernel)
    code = located_code(kernel, "sm_90")
    loop = next(n for n, b in enumerate(code.blocks) if b == 4)
    samples = read_csv(page(code.text, {0: 25, loop: 75}))
    assert sum(samples.counts) == 100
    assert samples.stalls[loop] == "stall_long_sb"
    assert share_of(by_block(code, samples), region, 100) == pytest.approx(0.75)


@pytest.mark.parametrize("before", [0, 2])
def test_the_assemblers_subroutines_before_and_behind_the_kernel_are_no_blocks(before: int) -> None:
    code = located_code(load(str(EXAMPLE), ["sm_90"])[0].kernels[0], "sm_90")
    slow_path = ("MUFU.RSQ R1, R2", "RET.ABS.NODEC R20 0x0")
    text = (*slow_path[:before], *code.text, *slow_path)
    found = by_block(code, read_csv(page(text, {before: 1, before + 7: 2, len(text) - 1: 9})))
    assert found == by_block(code, read_csv(page(code.text, {0: 1, 7: 2})))


def test_samples_in_which_another_warp_was_served_can_be_left_out() -> None:
    head = COLUMNS + ',"stall_not_selected","stall_math","stall_math_not_issued"'
    text = "\n".join(
        [head, '"0x0","MOV R1, R2","9","9","2","0","4","3","0"', '"0x10","EXIT","1","1","0","0","0","0","0"']
    )
    samples = read_csv(text)
    assert (samples.counts, samples.contended) == ((9, 1), (7, 0))
    assert samples.own().counts == (2, 1)


def test_other_machine_code_is_refused() -> None:
    kernel = load(str(EXAMPLE), ["sm_90"])[0].kernels[0]
    code = located_code(kernel, "sm_90")
    with pytest.raises(ProfileError, match="not this kernel's"):
        by_block(code, read_csv(page(code.text[:-9], {})))


@pytest.mark.parametrize(
    "text", ["", "==ERROR== Failed to initialize the profiler: LibraryNotLoaded", '"a","b"\n"1","2"']
)
def test_what_holds_no_samples_is_refused_with_what_the_tool_said(text: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_csv(text, text)
    assert caught.value.reason == "NSIGHT"
    assert not text or text.split()[-1] in caught.value.what
