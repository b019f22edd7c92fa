"""Lints on PTX that compilers write and on kernels that show one cost each; every kernel here is assembled too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc.passes.rewrite import lints
from hybridcc.passes.rewrite.lints.memory import conflict_ways, sectors
from hybridcc.ptx import parse
from hybridcc.ptx.targets import blocks_per_sm, target
from hybridcc.runtime.assemble import assemble

CORPUS = Path(__file__).parents[1] / "corpus"
KERNELS = Path(__file__).parents[1] / "proof" / "kernels"

HEAD = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.visible .entry k(.param .u64 p, .param .u64 stride, .param .u64 n)
{
	.shared .align 16 .b8 tile[16384];
	.reg .b32 %r<20>;
	.reg .b64 %rd<20>;
	.reg .f32 %f<20>;
	.reg .pred %p<20>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [stride];
	ld.param.u64 %rd3, [n];
	cvta.to.global.u64 %rd4, %rd1;
	mov.u32 %r1, %tid.x;
	cvt.u64.u32 %rd5, %r1;
"""


def findings(body: str) -> dict[str, lints.Finding]:
    """By code. The kernel must be one that the assembler takes."""
    text = f"{HEAD}{body}\n\tret;\n}}\n"
    assemble(text, "sm_80")
    return {f.code: f for f in lints.check(parse(text), "k", "sm_80")}


def shared(step: int, access: str = "ld.shared.f32 %f1, [%r4];") -> str:
    return f"mov.u32 %r2, tile; mul.lo.u32 %r3, %r1, {step}; add.u32 %r4, %r2, %r3; {access} st.global.f32 [%rd4], %f1;"


@pytest.mark.parametrize(("step", "ways"), [(4, 1), (0, 1), (8, 2), (128, 32), (132, 1), (64, 16), (12, 1)])
def test_bank_conflicts_come_from_the_step_between_neighbours(step: int, ways: int) -> None:
    assert conflict_ways(step, 4) == ways
    found = findings(shared(step)).get("BANK_CONFLICT")
    assert (found is None) == (ways == 1)
    if found is not None:
        assert f"{ways} threads of a warp wait for one bank" in found.text
        assert found.line == "ld.shared.f32 %f1, [%r4];"


def test_wide_accesses_are_served_in_parts() -> None:
    assert conflict_ways(8, 8) == 1
    assert conflict_ways(16, 16) == 1
    assert conflict_ways(32, 16) == 2
    vector = "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r4];"
    assert "BANK_CONFLICT" not in findings(shared(16, vector))
    assert "BANK_CONFLICT" in findings(shared(64, vector))


def test_padding_a_row_by_one_element_ends_the_conflict() -> None:
    def column(row: int) -> str:
        return (
            f"mov.u32 %r2, tile; mov.u32 %r5, %tid.y; shl.b32 %r6, %r5, 2; mad.lo.u32 %r3, %r1, {row}, %r6; "
            "add.u32 %r4, %r2, %r3; ld.shared.f32 %f1, [%r4]; st.global.f32 [%rd4], %f1;"
        )

    assert "32 threads" in findings(column(32 * 4))["BANK_CONFLICT"].text
    assert "BANK_CONFLICT" not in findings(column(33 * 4))


def walked(step: str) -> str:
    return f"{step} add.u64 %rd7, %rd4, %rd6; ld.global.f32 %f1, [%rd7]; st.global.f32 [%rd4], %f1;"


def test_sectors_that_a_warp_moves() -> None:
    assert sectors(4, 4) == (4, 4)
    assert sectors(8, 4) == (8, 4)
    assert sectors(4096, 4) == (32, 4)
    assert "UNCOALESCED" not in findings(walked("shl.b64 %rd6, %rd5, 2;"))
    assert (
        "moves 32 sectors of 32 bytes where 4" in findings(walked("mul.wide.u32 %rd6, %r1, 4096;"))["UNCOALESCED"].text
    )
    assert "run-time stride" in findings(walked("mul.lo.u64 %rd6, %rd5, %rd2;"))["UNCOALESCED"].text
    assert "UNCOALESCED" not in findings(walked("shl.b64 %rd6, %rd2, 2;")), "all threads read one place"


def test_vectors_that_some_thread_would_read_off_their_alignment() -> None:
    vector = "add.u64 %rd7, %rd4, %rd6; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd7]; st.global.f32 [%rd4], %f1;"
    assert "moves by 4" in findings("shl.b64 %rd6, %rd5, 2;" + vector)["MISALIGNED_VECTOR"].text
    assert "MISALIGNED_VECTOR" not in findings("shl.b64 %rd6, %rd5, 4;" + vector)


def test_a_pointer_that_a_loop_steps_keeps_its_place_in_the_warp() -> None:
    found = findings(
        "mul.wide.u32 %rd6, %r1, 64; add.u64 %rd7, %rd4, %rd6; mov.f32 %f1, 0f00000000; mov.u64 %rd8, %rd3;\n"
        "L: ld.global.f32 %f2, [%rd7]; add.f32 %f1, %f1, %f2; add.u64 %rd7, %rd7, 4; add.s64 %rd8, %rd8, -1;\n"
        "setp.gt.s64 %p1, %rd8, 0; @%p1 bra L; st.global.f32 [%rd4], %f1;"
    )
    assert "neighbours are 64 bytes apart" in found["UNCOALESCED"].text
    assert found["UNCOALESCED"].depth == 1
    assert "used 1 instruction later" in found["LOAD_USED_AT_ONCE"].text


def test_loads_of_several_turns_issued_together_are_no_finding() -> None:
    found = findings(
        "mov.f32 %f1, 0f00000000; mov.u64 %rd8, %rd3;\n"
        "L: ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd4+4]; add.f32 %f1, %f1, %f2; add.f32 %f1, %f1, %f3;\n"
        "add.u64 %rd4, %rd4, 8; add.s64 %rd8, %rd8, -2; setp.gt.s64 %p1, %rd8, 0; @%p1 bra L;\n"
        "st.global.f32 [%rd4], %f1;"
    )
    assert "LOAD_USED_AT_ONCE" not in found


def test_a_load_that_gives_the_address_of_the_next() -> None:
    found = findings(
        "mov.u64 %rd8, %rd3;\nL: ld.global.u64 %rd7, [%rd4]; ld.global.u64 %rd4, [%rd7]; add.s64 %rd8, %rd8, -1;\n"
        "setp.gt.s64 %p1, %rd8, 0; @%p1 bra L; st.global.u64 [%rd4], %rd7;"
    )
    assert "2 of them loads" in found["DEPENDENT_LOADS"].text
    assert found["DEPENDENT_LOADS"].line.startswith("ld.global.u64 %rd4")


def test_barriers_and_shuffles_where_threads_have_parted() -> None:
    apart = "setp.lt.u32 %p1, %r1, 7; @%p1 bra D; bar.sync 0; shfl.sync.idx.b32 %r5, %r1, 0, 31, -1; D:"
    found = findings(apart)
    assert "those that come wait" in found["DIVERGENT_BARRIER"].text
    assert "names all 32 lanes" in found["DIVERGENT_SHUFFLE"].text
    together = apart.replace("%p1, %r1, 7", "%p1, %r7, 7").replace("setp", "cvt.u32.u64 %r7, %rd3; setp")
    assert not {"DIVERGENT_BARRIER", "DIVERGENT_SHUFFLE"} & findings(together).keys()


def test_a_guard_that_a_branch_has_decided() -> None:
    found = findings(
        "setp.lt.u32 %p1, %r1, 7; @%p1 bra D; @!%p1 st.global.u32 [%rd4], %r1; @%p1 st.global.u32 [%rd4], 5; D:"
    )
    assert found["REDUNDANT_PREDICATE"].text.endswith(("it always runs", "it never runs"))
    other = "setp.lt.u32 %p1, %r1, 7; setp.lt.u32 %p2, %r1, 3; @%p1 bra D; @%p2 st.global.u32 [%rd4], %r1; D:"
    assert "REDUNDANT_PREDICATE" not in findings(other)


@pytest.mark.parametrize(("count", "over"), [(7, False), (8, True)])
def test_predicates_beyond_those_of_the_machine(count: int, over: bool) -> None:
    made = " ".join(f"setp.lt.u32 %p{k}, %r1, {k + 3};" for k in range(count))
    used = " ".join(f"@%p{k} st.global.u32 [%rd4+{4 * k}], %r1;" for k in range(count))
    found = findings(f"{made} {used}")
    assert ("PREDICATE_PRESSURE" in found) is over
    if over:
        assert "8 predicates are live here and a thread has 7" in found["PREDICATE_PRESSURE"].text


def test_an_address_of_shared_memory_is_none_of_global_memory() -> None:
    found = findings(
        "mov.u64 %rd6, tile; add.u64 %rd7, %rd6, %rd5; ld.global.f32 %f1, [%rd7]; st.global.f32 [%rd4], %f1;"
    )
    assert found["WRONG_SPACE"].severity == "error"
    assert "shared memory" in found["WRONG_SPACE"].text
    assert findings("ld.shared.f32 %f1, [%rd4]; st.global.f32 [%rd4], %f1;")["WRONG_SPACE"].severity == "error"
    right = "mov.u64 %rd6, tile; cvta.shared.u64 %rd7, %rd6; ld.f32 %f1, [%rd7]; st.global.f32 [%rd4], %f1;"
    assert "WRONG_SPACE" not in findings(right)
    bare = "ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd4], %f1;"
    assert "WRONG_SPACE" not in findings(bare), "a global address is a generic one"


def exchange(barrier: str, index: str) -> str:
    return (
        "mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; cvt.rn.f32.u32 %f1, %r1; "
        f"st.shared.f32 [%r4], %f1; {barrier} {index} ld.shared.f32 %f2, [%r6]; st.global.f32 [%rd4], %f2;"
    )


def test_a_barrier_is_as_wide_as_the_threads_that_share() -> None:
    mirrored = "mov.u32 %r5, 508; sub.u32 %r7, %r5, %r3; add.u32 %r6, %r2, %r7;"
    assert (
        "bar.warp.sync orders one warp alone" in findings(exchange("bar.warp.sync -1;", mirrored))["BARRIER_SCOPE"].text
    )
    assert "BARRIER_SCOPE" in findings(exchange("", mirrored))
    assert "BARRIER_SCOPE" not in findings(exchange("bar.sync 0;", mirrored))
    own = findings(exchange("bar.sync 0;", "mov.u32 %r6, %r4;"))
    assert "no barrier is needed" in own["BARRIER_UNNEEDED"].text
    assert "BARRIER_UNNEEDED" not in findings(exchange("bar.sync 0;", mirrored))


def test_printing_and_functions_that_nothing_defines() -> None:
    printed = (CORPUS / "numba-cuda" / "print.sm_80.ptx").read_text()
    module = parse(printed)
    assert "SYSTEM_CALL" in {f.code for f in lints.check(module, module.entries[0].name, "sm_80")}


def test_registers_over_a_step_of_occupancy_and_spills() -> None:
    def of(registers: int, spilled: int = 0, threads: int | None = 256) -> dict[str, str]:
        found = lints.check_machine(
            "sm_80", registers=registers, shared=0, spill_stores=spilled, spill_loads=spilled, threads=threads
        )
        return {f.code: f.text for f in found}

    on = target("sm_80")
    assert blocks_per_sm(on, threads=256, registers=65, shared=0) == 3
    assert blocks_per_sm(on, threads=256, registers=64, shared=0) == 4
    assert "65 registers let 3 blocks run on a multiprocessor of sm_80, 64 would let 4" in of(65)["OCCUPANCY_CLIFF"]
    assert "OCCUPANCY_CLIFF" not in of(64)
    assert "SPILLS" not in of(64)
    assert "24 bytes are spilled" in of(64, 24)["SPILLS"]
    assert "OCCUPANCY_CLIFF" in of(65, threads=None)


def of_kernel(path: Path) -> list[lints.Finding]:
    module = parse(path.read_text())
    return list(lints.check(module, module.entries[0].name, "sm_90"))


def test_what_numba_writes() -> None:
    tiled = of_kernel(CORPUS / "numba-cuda" / "matmul.sm_86.ptx")
    assert {f.code for f in tiled} == {"LOAD_USED_AT_ONCE"}
    rows = [f for f in of_kernel(KERNELS / "dot_rows.ptx") if f.code == "UNCOALESCED"]
    assert rows
    assert all("run-time stride" in f.text for f in rows)
    reduced = of_kernel(KERNELS / "reduce_shared.ptx")
    assert not {f.code for f in reduced} & {"BANK_CONFLICT", "WRONG_SPACE", "BARRIER_SCOPE", "BARRIER_UNNEEDED"}


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*.ptx"))[::6], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_nothing_that_compilers_wrote_is_an_error(path: Path) -> None:
    module = parse(path.read_bytes().decode("latin-1"), path.name)
    for entry in module.entries:
        found = lints.check(module, entry.name, "sm_90")
        assert not [f for f in found if f.severity == "error"]
        for finding in found:
            assert finding.text
            assert finding.line
