"""Declared edits: made at every access, refused where one may be out of sight, and checked by other code."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc import sources
from hybridcc.asking import body_of
from hybridcc.errors import AnswerRejected, ExecutionError, SpliceRefused
from hybridcc.passes.arguments import flatten
from hybridcc.passes.edits import NewShared, Pad, PreloadConst
from hybridcc.passes.edits.check import check_edits
from hybridcc.passes.execute import execute
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region, body
from hybridcc.passes.rewrite import answer
from hybridcc.passes.splice import splice, splice_all
from hybridcc.passes.splice.candidate import Candidate
from hybridcc.passes.verdict import Tested
from hybridcc.ptx import Module, parse
from hybridcc.runtime.assemble import assemble

KERNELS = Path(__file__).with_name("kernels.py")


@cache
def subject(name: str) -> tuple[Kernel, Module, Region]:
    (source,) = sources.load(f"{KERNELS}:{name}", ["sm_80"])
    (kernel,) = source.kernels
    module = parse(kernel.ptx)
    (region,) = body_of(kernel)
    return kernel, module, region


def edited(name: str, *lines: str, text: str = "") -> Candidate:
    _, module, region = subject(name)
    return splice(module, region, "\n".join([*(f"// edit: {line}" for line in lines), text or region.text]))


def run(ptx: str, name: str, block: int | tuple[int, int], *values: np.ndarray) -> list[np.ndarray]:
    kernel, _, _ = subject(name)
    held = [value.copy() for value in values]
    execute(ptx, kernel.entry, 1, block, flatten(kernel.arguments, held))
    return held


def same_results(name: str, candidate: Candidate, block: int | tuple[int, int], *values: np.ndarray) -> None:
    kernel, _, _ = subject(name)
    for was, now in zip(run(kernel.ptx, name, block, *values), run(candidate.text, name, block, *values), strict=True):
        np.testing.assert_array_equal(was, now)


# --- what is made ---


@pytest.mark.parametrize("new", [68, 72, 80, 128])
def test_rows_of_a_tile_are_moved_apart(new: int) -> None:
    candidate = edited("turned", f"pad sym0 row 64->{new}")
    assert candidate.edits == (Pad("_cudapy_smem_1", 64, new),)
    assert f".b8 _cudapy_smem_1[{16 * new}]" in candidate.text
    a = np.random.default_rng(0).random((16, 16), np.float32)
    same_results("turned", candidate, (16, 16), a, np.zeros_like(a))
    assert assemble(candidate.text, "sm_80").shared_bytes == 16 * new


def test_an_atomic_is_moved_too() -> None:
    candidate = edited("counted", "pad sym0 row 8->16")
    same_results("counted", candidate, 64, np.zeros(64, np.int32))
    assert re.search(r"atom\.shared|red\.shared", candidate.text)


@pytest.mark.parametrize("block", [1, 7, 32, 128])
def test_constants_are_read_from_shared_memory(block: int) -> None:
    candidate = edited("looked_up", "preload_const sym0")
    assert candidate.edits == (PreloadConst("_cudapy_cmem"),)
    rng = np.random.default_rng(block)
    x, which = rng.random(block, np.float32), rng.integers(0, 1000, block).astype(np.int32)
    same_results("looked_up", candidate, block, x, which, np.zeros(block, np.float32))
    after = candidate.text.split("bar.sync", 1)[1]
    assert "ld.const" not in after
    assert "ld.shared" in after
    assert assemble(candidate.text, "sm_90").shared_bytes == 4 * 37


STAGED = """
    // edit: new_shared buffer 4096 16
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<12>;
    ld.param.u64 %d0, [param4];
    ld.param.u64 %d1, [param11];
    cvta.to.global.u64 %d0, %d0;
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ntid.x;
    mul.wide.u32 %d2, %r0, 4;
    add.s64 %d3, %d0, %d2;
    ld.global.u32 %r2, [%d3];
    mov.u64 %d4, buffer;
    add.s64 %d5, %d4, %d2;
    st.shared.u32 [%d5], %r2;
    BARRIER
    add.s32 %r3, %r0, 1;
    rem.u32 %r3, %r3, %r1;
    mul.wide.u32 %d6, %r3, 4;
    add.s64 %d7, %d4, %d6;
    ld.shared.u32 %r4, [%d7];
    add.s32 %r5, %r4, %r2;
    add.s64 %d8, %d1, %d2;
    st.global.u32 [%d8], %r5;
"""
X = np.arange(64, dtype=np.int32) ** 2


def test_a_rewrite_may_stage_through_shared_memory_of_its_own() -> None:
    candidate = edited("neighbours", text=STAGED.replace("BARRIER", "bar.sync 0;"))
    assert candidate.edits == (NewShared("buffer", 4096, 16),)
    same_results("neighbours", candidate, 64, X, np.zeros_like(X))
    assert assemble(candidate.text, "sm_86").shared_bytes == 4096


def test_a_missing_barrier_is_a_race() -> None:
    candidate = edited("neighbours", text=STAGED.replace("BARRIER", ""))
    with pytest.raises(ExecutionError, match="race"):
        run(candidate.text, "neighbours", 64, X, np.zeros_like(X))


def test_a_barrier_that_some_threads_miss_is_refused() -> None:
    parted = "setp.lt.u32 %p0, %r0, 5; @%p0 bra SKIP; bar.sync 0; SKIP:"
    with pytest.raises(SpliceRefused) as refused:
        edited("neighbours", text=STAGED.replace("BARRIER", parted))
    assert refused.value.reason == "CONVERGENCE"


def test_a_barrier_needs_shared_memory_that_was_asked_for() -> None:
    _, _, region = subject("neighbours")
    with pytest.raises(SpliceRefused) as refused:
        edited("neighbours", text=region.text + "bar.sync 0;\n")
    assert refused.value.reason == "EFFECT_COUNT"


# --- random tiles ---


@st.composite
def tiles(draw: st.DrawFn) -> tuple[str, int, int, int]:
    """A kernel that fills a tile by one map of rows and columns and reads it by another, in shared memory."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    word = draw(st.sampled_from([1, 2, 4, 8]))
    pitch = columns * word
    extra = draw(st.integers(1, columns)) * word
    offset = draw(st.integers(0, rows * columns - 1)) * word
    type_ = {1: ".u8", 2: ".u16", 4: ".u32", 8: ".u64"}[word]
    value = {1: ".b16", 2: ".b16", 4: ".b32", 8: ".b64"}[word]
    narrow = draw(st.booleans())
    p, bits = ("%r", ".u32") if narrow else ("%d", ".u64")
    code = f"""
    .reg .pred %p; .reg .b32 %r<12>; .reg .b64 %d<12>; .reg {value} %v;
    .shared .align 8 .b8 tile[{rows * pitch}];
    ld.param.u64 %d0, [out]; cvta.to.global.u64 %d0, %d0;
    mov.u32 %r0, %tid.x;
    mov{bits} {p}1, tile;
    {"mov.b32 %r2, %r0;" if narrow else "cvt.u64.u32 %d2, %r0;"}
    mad.lo{bits} {p}3, {p}2, {word}, {p}1;
    cvt.u{8 * word if word > 1 else 16}.u32 %v, %r0;
    st.shared{type_} [{p}3], %v;
    bar.sync 0;
    sub.u32 %r4, {rows * columns - 1}, %r0;
    {"mov.b32 %r5, %r4;" if narrow else "cvt.u64.u32 %d5, %r4;"}
    mad.lo{bits} {p}6, {p}5, {word}, {p}1;
    ld.shared{type_} %v, [{p}6];
    cvt.u64.u{8 * word if word > 1 else 16} %d7, %v;
    mul.wide.u32 %d8, %r0, 8; add.s64 %d8, %d8, %d0;
    st.global.u64 [%d8], %d7;
    ld.shared{type_} %v, [tile+{offset}];
    cvt.u64.u{8 * word if word > 1 else 16} %d7, %v;
    st.global.u64 [%d8+{8 * rows * columns}], %d7;
    ret;
"""
    head = ".version 9.0\n.target sm_80\n.address_size 64\n"
    return f"{head}.visible .entry k(.param .u64 out)\n{{{code}}}\n", pitch, pitch + extra, rows * columns


@settings(max_examples=40, deadline=None)
@given(tiles())
def test_a_padded_tile_holds_what_it_held(tile: tuple[str, int, int, int]) -> None:
    text, old, new, threads = tile
    module = parse(text)
    region = body(Kernel("k", "k", text, "sm_80", "test"))
    candidate = splice(module, region, f"// edit: pad tile row {old}->{new}\n{region.text}")
    before, after = np.zeros(2 * threads, np.int64), np.zeros(2 * threads, np.int64)
    execute(text, "k", 1, threads, [before])
    execute(candidate.text, "k", 1, threads, [after])
    np.testing.assert_array_equal(before, after)
    assert before[:threads].tolist() == [x % 2**8 if "u8" in text else x for x in range(threads)][::-1]
    assert candidate.text != splice(module, region, region.text + "\n").text


# --- what is refused ---


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("pad sym0 row 64 by 4", "EDIT"),
        ("pad sym0 row 64->64", "EDIT"),
        ("pad sym0 row 64->32", "EDIT"),
        ("pad sym0 row 64->1000", "EDIT"),
        ("pad sym9 row 64->68", "EDIT_UNKNOWN"),
        ("pad %in0 row 64->68", "EDIT_UNKNOWN"),
        ("pad sym0 row 60->64", "EDIT_LIMIT"),
        ("pad sym0 row 64->66", "EDIT_LIMIT"),
        ("preload_const sym0", "EDIT_LIMIT"),
        ("new_shared sym0 64 4", "EDIT"),
        ("new_shared tile 0 4", "EDIT"),
        ("new_shared tile 64 3", "EDIT"),
        ("new_shared tile 64000 4", "EDIT_LIMIT"),
        ("shrink sym0", "EDIT"),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused(line: str, code: str) -> None:
    with pytest.raises(SpliceRefused) as refused:
        edited("turned", line)
    assert refused.value.reason == code


def test_one_variable_is_edited_once_and_ahead_of_the_text() -> None:
    _, module, region = subject("turned")
    for text in (
        f"// edit: pad sym0 row 64->68\n// edit: pad sym0 row 64->72\n{region.text}",
        f"{region.text}\n// edit: pad sym0 row 64->68\n",
    ):
        with pytest.raises(SpliceRefused) as refused:
            splice(module, region, text)
        assert refused.value.reason == "EDIT"
    with pytest.raises(SpliceRefused):
        splice_all(module, [(region, f"// edit: pad sym0 row 64->68\n{region.text}")] * 2)


ESCAPES = {
    "is stored": "st.global.u64 [%d0], %d1;",
    "becomes generic": "cvta.shared.u64 %d2, %d1; ld.u32 %r0, [%d2];",
    "is scaled": "mul.lo.u64 %d2, %d1, 3; ld.shared.u32 %r0, [%d2];",
    "is swizzled": "xor.b64 %d2, %d1, 4; ld.shared.u32 %r0, [%d2];",
    "may be another's": "mov.u64 %d2, other; @%p mov.u64 %d2, tile; ld.shared.u32 %r0, [%d2];",
    "is chosen with another's": "mov.u64 %d3, other; selp.b64 %d2, %d1, %d3, %p; ld.shared.u32 %r0, [%d2];",
    "is cut to half a word": "cvt.u16.u64 %h, %d1; cvt.u64.u16 %d2, %h; ld.shared.u32 %r0, [%d2];",
    "is read by rows": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%d1];",
    "goes to a copy that runs on": "cp.async.ca.shared.global [%d1], [%d0], 4;",
    "is shuffled": "cvt.u32.u64 %r1, %d1; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ld.shared.u32 %r0, [%r2];",
    "overwrites a number": "mov.u64 %d2, 16; @%p add.s64 %d2, %d1, 8; st.global.u64 [%d0], %d2;",
}


@pytest.mark.parametrize("how", ESCAPES)
def test_an_address_that_cannot_be_followed_is_refused(how: str) -> None:
    text = f"""
.version 9.0
.target sm_80
.address_size 64
.shared .align 8 .b8 tile[256];
.shared .align 8 .b8 other[256];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p; .reg .b16 %h; .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [out]; cvta.to.global.u64 %d0, %d0;
    mov.u32 %r3, %tid.x; setp.eq.u32 %p, %r3, 0;
    mov.u64 %d1, tile;
    st.shared.u32 [%d1+64], %r3;
    {ESCAPES[how]}
    ret;
}}
"""
    module = parse(text)
    region = body(Kernel("k", "k", text, "sm_80", "test"))
    with pytest.raises(SpliceRefused) as refused:
        splice(module, region, f"// edit: pad tile row 64->68\n{region.text}")
    assert refused.value.reason == "EDIT_ESCAPES"


def test_what_another_function_uses_is_left_alone() -> None:
    text = """
.version 9.0
.target sm_80
.address_size 64
.shared .align 8 .b8 tile[256];
.func helper() { .reg .b32 %r; ld.shared.u32 %r, [tile+4]; ret; }
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r; mov.u32 %r, %tid.x; st.shared.u32 [tile+64], %r; ret;
}
"""
    module = parse(text)
    region = body(Kernel("k", "k", text, "sm_80", "test"))
    with pytest.raises(SpliceRefused, match="helper"):
        splice(module, region, f"// edit: pad tile row 64->68\n{region.text}")


def test_an_answer_may_declare_edits_and_change_nothing_else() -> None:
    _, _, region = subject("turned")
    rewrite = answer.check(f"```ptx\n// edit: pad sym0 row 64->68\n{region.text}\n```", region)
    assert rewrite.text.lstrip().startswith("// edit: pad sym0 row 64->68\n")
    with pytest.raises(AnswerRejected, match="original text"):
        answer.check(f"```ptx\n{region.text}\n```", region)
    with pytest.raises(AnswerRejected) as refused:
        answer.check(f"```ptx\n// edit: widen sym0\n{region.text}\n```", region)
    assert refused.value.reason == "EDIT"


# --- the check has no trust in what made the edit ---


def tampered(candidate: Candidate, old: str, new: str) -> Module:
    assert old in candidate.text
    return parse(candidate.text.replace(old, new, 1))


PADDED_FAULTS = {
    "another distance": ("\t%hccpad0_row0, %hccpad0_row0, 4", "\t%hccpad0_row0, %hccpad0_row0, 8"),
    "another row": ("shr.u32 \t%hccpad0_row0, %hccpad0_row0, 6", "shr.u32 \t%hccpad0_row0, %hccpad0_row0, 5"),
    "one access forgotten": ("st.shared.f32 \t[%hccpad0_at2]", "st.shared.f32 \t[%hcc0_t"),
    "a smaller variable": ("_cudapy_smem_1[1088]", "_cudapy_smem_1[1024]"),
    "a weaker alignment": (".align 4 .b8 _cudapy_smem_1", ".align 2 .b8 _cudapy_smem_1"),
    "a value": ("st.global.f32", "st.global.b32"),
    "a barrier": ("bar.sync \t0;", ""),
    "a store of its own": ("\t\tbar.sync", "\t\tst.shared.u32 [_cudapy_smem_1], 1;\n\t\tbar.sync"),
}


@pytest.mark.parametrize("fault", PADDED_FAULTS)
def test_a_fault_in_padding_is_found(fault: str) -> None:
    _, module, region = subject("turned")
    candidate = edited("turned", "pad sym0 row 64->68")
    before = splice(module, region, region.text).module
    check_edits(before, candidate.module, candidate.function, candidate.edits)
    old, new = PADDED_FAULTS[fault]
    if fault == "one access forgotten":
        stored = re.search(r"st\.shared\.f32 \t\[(%hcc0_t\d+)\]", str(before))
        assert stored is not None
        new = f"st.shared.f32 \t[{stored[1]}]"
    with pytest.raises(SpliceRefused) as refused:
        check_edits(before, tampered(candidate, old, new), candidate.function, candidate.edits)
    assert refused.value.reason == "EDIT_WRONG"


PRELOAD_FAULTS = {
    "a short copy": ("%hccload0_place, 148", "%hccload0_place, 144"),
    "a barrier": ("bar.sync \t0;", ""),
    "another place": ("\t%hccload0_place, %hccload0_thread, 4", "\t%hccload0_place, %hccload0_thread, 8"),
    "another step": ("%hccload0_place, %hccload0_place, %hccload0_step", "%hccload0_place, %hccload0_place, 4096"),
    "a read left behind": ("ld.shared.f32", "ld.const.f32"),
    "a smaller copy": (".b8 hccload0_copy[148]", ".b8 hccload0_copy[144]"),
}


@pytest.mark.parametrize("fault", PRELOAD_FAULTS)
def test_a_fault_in_preloading_is_found(fault: str) -> None:
    _, module, region = subject("looked_up")
    candidate = edited("looked_up", "preload_const sym0")
    before = splice(module, region, region.text).module
    check_edits(before, candidate.module, candidate.function, candidate.edits)
    with pytest.raises(SpliceRefused) as refused:
        check_edits(before, tampered(candidate, *PRELOAD_FAULTS[fault]), candidate.function, candidate.edits)
    assert refused.value.reason == "EDIT_WRONG"


def test_edits_that_were_not_made_are_missed() -> None:
    _, module, region = subject("turned")
    candidate = edited("turned", "pad sym0 row 64->68")
    before = splice(module, region, region.text).module
    with pytest.raises(SpliceRefused):
        check_edits(before, before, candidate.function, candidate.edits)
    with pytest.raises(SpliceRefused):
        check_edits(before, candidate.module, candidate.function, (replace(candidate.edits[0], new=72),))
    with pytest.raises(SpliceRefused):
        check_edits(before, candidate.module, candidate.function, ())


# --- through the whole pipeline ---


@pytest.mark.parametrize(
    ("name", "lines", "text", "fate"),
    [
        ("turned", "// edit: pad sym0 row 64->68", "", "UNMEASURED"),
        ("looked_up", "// edit: preload_const sym0", "", "UNMEASURED"),
        ("neighbours", "", STAGED.replace("BARRIER", "bar.sync 0;"), "UNMEASURED"),
        ("neighbours", "", STAGED.replace("BARRIER", ""), "REFUTED"),
    ],
)
def test_an_edited_kernel_is_tested_and_said_to_be(tmp_path: Path, name: str, lines: str, text: str, fate: str) -> None:
    from hybridcc.byhand import Origin, attempt_region, text_of

    path = tmp_path / "r.ptx"
    _, _, region = subject(name)
    origin = Origin(f"{KERNELS}:{name}", "", "", "sm_80", "body", region.key)
    path.write_text(text_of(origin, region, f"{lines}\n{text or region.text}"))
    record, candidate = attempt_region(path, accept="tested")
    assert candidate.fate.code == fate, (candidate.fate, candidate.explanation)
    assert candidate.evidence is not None
    if fate == "UNMEASURED":
        assert isinstance(candidate.evidence.verdict, Tested)
        assert candidate.machine is not None
        baseline = record.architectures[0].baseline
        assert baseline is not None
        assert candidate.machine.cubin.shared_bytes > baseline.cubin.shared_bytes


def test_the_prompt_offers_padding_where_threads_wait_for_one_bank() -> None:
    from hybridcc.passes.rewrite import build

    kernel, _, region = subject("columns")
    text = build(region, kernel).text
    assert "threads of a warp wait for one bank" in text
    assert "`// edit: pad NAME row" in text
    assert "  sym0 (4096 bytes)\n" in text
    kernel, _, region = subject("neighbours")
    assert "edit:" not in build(region, kernel).text
