"""The clone that counts guard hits does what the kernel does, and counts what a person would; clones of entrants."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc.passes.execute import execute
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions.find import find_in
from hybridcc.passes.splice import splice
from hybridcc.ptx import parse
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.race_entrants import entrant
from hybridcc.runtime.race_guards import instrumented, never_held, rates

KERNEL = """.version 7.0
.target sm_52
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r3, 0;
    mov.u32 %r4, 0;
$LOOP:
    add.s32 %r4, %r4, %r2;
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, %r1;
    @%p1 bra $LOOP;
    st.global.u32 [%rd3], %r4;
    ret;
}
"""
COPY_COUNTERS = """bar.sync 0;
    ld.global.u64 %rd2, [hybridcc_guards];
    ld.global.u64 %rd4, [hybridcc_guards+8];
    setp.eq.u32 %p1, %r2, 0;
    @%p1 st.global.u64 [%rd1+128], %rd2;
    @%p1 st.global.u64 [%rd1+136], %rd4;
    ret;"""


def guarded(condition):
    module = parse(KERNEL)
    (region, *_) = find_in(module, module.entries[0], Kernel("k", "k", "", "sm_90", "test"))
    return splice(module, region, f"// guard: {condition}\n{region.text}").text


def port_of(spelling):
    module = parse(KERNEL)
    (region, *_) = find_in(module, module.entries[0], Kernel("k", "k", "", "sm_90", "test"))
    return next(number for number, port in enumerate(region.live_in) if port.spelling == spelling)


@pytest.mark.parametrize(("threads_below", "counts"), [(0, (0, 32)), (5, (5, 27)), (32, (32, 0))])
def test_the_clone_counts_threads_and_leaves_the_same(threads_below, counts):
    ptx = guarded(f"%in{port_of('%r2')} < {threads_below}")
    clone = instrumented(ptx, "k")
    assert clone is not None
    assemble(clone, "sm_90", "ptxas")
    plain, counted = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    execute(ptx, "k", 1, 32, [plain, np.uint32(3)])
    execute(clone, "k", 1, 32, [counted, np.uint32(3)])
    assert np.array_equal(plain, counted)
    assert np.array_equal(plain, np.arange(32) * 3)
    head, tail = clone.rsplit("ret;", 1)
    seen = np.zeros(36, np.uint32)  # the 32 results, then both counters
    execute(head + COPY_COUNTERS + tail, "k", 1, 32, [seen, np.uint32(3)])
    assert tuple(seen[32:].view(np.uint64)) == counts


def test_a_kernel_without_guards_has_no_clone():
    assert instrumented(KERNEL, "k") is None
    assert instrumented(guarded("%in0 >= 0"), "other") is None


def test_counts_in_words():
    assert never_held([(0, 10), (0, 0)])
    assert not never_held([(1, 0)])
    assert not never_held([])
    assert rates([(3, 1), (0, 0)]) == "guards held for 75.0%, none of the threads that met them"


@pytest.mark.parametrize("assembler", ["nvjitlink", "ptxas"])
def test_an_entrant_has_the_clones_that_check_it(assembler):
    ptx = guarded("%in0 >= 0")
    cubin = assemble(ptx, "sm_90", assembler)
    made = entrant("v", cubin, "k", ptx)
    assert (made.name, made.cubin, made.untwinned) == ("v", cubin.bytes, "")
    assert made.twins is not None
    assert made.twins[0] != made.twins[1]
    assert b"hybridcc_guards" in made.counted
    assert not entrant("v", assemble(KERNEL, "sm_90", assembler), "k", KERNEL).counted


def test_an_entrant_that_has_no_minus_o0_build_says_why(monkeypatch):
    from hybridcc.errors import AssemblyError
    from hybridcc.runtime import race_entrants

    def refuse(ptx, arch, assembler, flags):
        raise AssemblyError("too many registers", next_step="none")

    cubin = assemble(KERNEL, "sm_90")
    monkeypatch.setattr(race_entrants, "assemble", refuse)
    made = entrant("v", cubin, "k", KERNEL)
    assert (made.twins, made.untwinned) == (None, "too many registers")
