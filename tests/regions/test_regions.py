"""Regions of kernels as numba-cuda compiles them today: what they hold, how they are named, what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region, find
from hybridcc.ptx import parse_statements
from hybridcc.ptx.nodes import Instruction
from tests.regions import kernels
from tests.regions.kernels import SIGNATURES, compiled

ROOT = Path(__file__).parents[2]
LOOPS = [f for f in SIGNATURES if f is not kernels.no_loop]


def notes(region: Region) -> list[str]:
    return [port.origin_note for port in region.live_in]


def facts(region: Region) -> list[str]:
    return [f"{fact} ({fact.origin.value})" for fact in region.facts]


def bare(ptx: str) -> Kernel:
    """A kernel of which only PTX is known."""
    head = ".version 9.0\n.target sm_90\n.address_size 64\n"
    return Kernel("k", "k", f"{head}.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n{ptx}\n}}\n", "sm_90", "test")


@pytest.mark.parametrize("function", LOOPS)
def test_every_edge_in_goes_to_the_entry_and_every_edge_out_to_the_exit(function):
    for region in find(compiled(function)):
        blocks = set(region.blocks)
        assert region.entry in blocks
        assert region.exit not in blocks
        for block in region.cfg.blocks:
            for successor in block.successors:
                if block.index in blocks:
                    assert successor in blocks | {region.exit}
                elif successor in blocks:
                    assert successor == region.entry


def test_conv1d_is_one_region_from_the_range_state_to_the_end_of_the_remainder_loop():
    (region,) = find(compiled(kernels.conv1d))
    assert region.weight == "hot"
    assert notes(region) == [
        "w.shape[0]",
        "global thread index x",
        "x.shape[0]",
        "data pointer of x",
        "data pointer of w",
    ]
    assert [port.type for port in region.live_out] == [".f32"]
    assert region.effects.loads == {".global": 10}
    assert region.effects.stores == {}
    assert "%in1 >= 0 (isa)" in facts(region)
    assert "%in0 < 4611686018427387904 (frontend)" in facts(region)
    assert "%in3 multiple of 4 (frontend)" in facts(region)
    assert "%in1 < y.shape[0] (invariant)" in facts(region)


@pytest.mark.parametrize(
    ("function", "loads", "results"),
    [(kernels.colsum, 5, 1), (kernels.matmul_naive, 10, 1), (kernels.nbody, 10, 2)],
)
def test_an_unrolled_loop_and_its_remainder_belong_together(function, loads, results):
    (region,) = find(compiled(function))
    assert region.effects.loads[".global"] >= loads
    assert len(region.live_out) == results
    assert region.text.count("bra $L") >= 4


def test_a_remainder_that_was_unrolled_away_belongs_to_its_loop():
    inner, outer = find(compiled(kernels.rows_and_columns))[:2]
    assert (inner.loop_depth, outer.loop_depth) == (1, 0)
    assert set(inner.blocks) < set(outer.blocks)
    assert inner.effects.loads == {".global": 14}


def test_two_loops_of_the_user_are_two_regions():
    first, second = find(compiled(kernels.two_loops))
    assert not set(first.blocks) & set(second.blocks)
    assert notes(first)[0] == "x.shape[0]"
    assert notes(second)[0] == "w.shape[0]"


def test_stores_in_the_remainder_belong_and_the_store_of_the_result_does_not():
    (stride,) = find(compiled(kernels.gridstride))
    assert stride.effects.stores == {".global": 5}
    assert "%in3 >= 0 (isa)" in facts(stride)  # the start of the loop's own counter
    (conv,) = find(compiled(kernels.conv1d))
    assert "st." not in conv.text


def test_barriers_and_uniform_ports_are_seen():
    (region,) = find(compiled(kernels.matmul_tiled))
    assert region.effects.barriers == 2
    uniform = {port.origin_note: port.uniform for port in region.live_in}
    assert uniform["%nctaid.x"]
    assert uniform["A.shape[1]"]
    assert not uniform["%tid.x"]
    assert not uniform["global thread index x"]


def test_a_kernel_without_loops_has_no_region():
    assert find(compiled(kernels.no_loop)) == ()


def test_an_unknown_entry_is_named():
    with pytest.raises(InputError, match="nosuch"):
        find(replace(compiled(kernels.conv1d), entry="nosuch"))


# --- the canonical text ---------------------------------------------------------------------------------


@pytest.mark.parametrize("function", LOOPS)
def test_the_text_parses_and_spells_the_interface_only(function):
    for region in find(compiled(function)):
        statements = parse_statements(region.text)
        assert any(isinstance(s, Instruction) for s in statements)
        for k, _ in enumerate(region.live_in):
            assert re.search(rf"%in{k}\b", region.text)
        for k, _ in enumerate(region.live_out):
            assert re.search(rf"%out{k}\b", region.text)
        registers = set(re.findall(r"%[a-z]+\d+", region.text))
        assert all(re.fullmatch(r"%(in|out|t)\d+", name) for name in registers)
        assert "_Z" not in region.text
        assert ".loc" not in region.text
        assert "//" not in region.text
        region.text.encode("ascii")


def test_inputs_temporaries_and_labels_are_numbered_as_they_appear():
    (region,) = find(compiled(kernels.conv1d))
    body = "\n".join(line for line in region.text.splitlines() if ".reg" not in line)
    for stem in ("%in", "%t", "%out"):
        seen = list(dict.fromkeys(re.findall(rf"{stem}(\d+)\b", body)))
        assert seen == [str(n) for n in range(len(seen))]
    assert re.findall(r"^\$L(\d+):", region.text, re.MULTILINE) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("function", [kernels.conv1d, kernels.matmul_tiled])
def test_one_key_for_every_architecture(function):
    keys = {tuple(r.key for r in find(compiled(function, arch))) for arch in ("sm_80", "sm_86", "sm_90")}
    assert len(keys) == 1


def test_line_information_does_not_change_the_key():
    plain, marked = (find(compiled(kernels.conv1d, lineinfo=on)) for on in (False, True))
    assert ".loc" in compiled(kernels.conv1d, lineinfo=True).ptx
    assert [r.key for r in plain] == [r.key for r in marked]


SCRIPT = """
from tests.regions import kernels
from hybridcc.passes.regions import find
for name in {names}:
    for region in find(kernels.compiled(getattr(kernels, name))):
        print(name, region.id, region.key, [p.origin_note for p in region.live_in], *region.facts)
"""


def test_keys_notes_and_facts_are_the_same_in_another_process_in_another_order(tmp_path):
    """Numba's mangled names carry a counter that depends on what was compiled before."""
    names = ["conv1d", "nbody", "matmul_tiled"]
    outputs = []
    for seed, order in (("1", names), ("2", names[::-1])):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(names=order)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(sorted(done.stdout.splitlines()))
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 3


def renamed(ptx: str) -> str:
    """Other register numbers and label names, all comments gone."""
    ptx = re.sub(r"//.*", "", ptx)
    ptx = re.sub(r"%(rd|r|f|p)(\d+)\b", lambda m: f"%{m[1]}{int(m[2]) + 7}", ptx)
    ptx = re.sub(r"<(\d+)>", lambda m: f"<{int(m[1]) + 7}>", ptx)
    return ptx.replace("$L__BB", "$Other")


@pytest.mark.parametrize("function", LOOPS)
def test_the_text_does_not_depend_on_register_numbers_label_names_and_comments(function):
    kernel = compiled(function)
    before, after = find(kernel), find(replace(kernel, ptx=renamed(kernel.ptx)))
    assert [r.text for r in before] == [r.text for r in after]
    assert [r.key for r in before] == [r.key for r in after]
    assert [notes(r) for r in before] == [notes(r) for r in after]
    assert [r.facts for r in before] == [r.facts for r in after]


def test_shared_variables_and_parameters_lose_their_mangled_names():
    (region,) = find(
        bare(
            """
            .reg .pred %p<2>; .reg .b32 %r<9>; .shared .align 4 .b8 _ZN4buffer[64];
            mov.u32 %r1, 0;
        L:  ld.param.u32 %r2, [n];
            st.shared.u32 [_ZN4buffer+4], %r1;
            add.s32 %r1, %r1, 1;
            setp.lt.s32 %p1, %r1, %r2;
            @%p1 bra L;
            ret;
            """
        )
    )
    assert "[param1]" in region.text
    assert "[sym0+4]" in region.text
    assert dict(region.symbols) == {"sym0": "_ZN4buffer", "param1": "n"}


# --- what is not offered --------------------------------------------------------------------------------

DECLARED = ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;"
TAIL = "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra L; st.global.u32 [%rd1], %r1; ret;"


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        (f"L: @%p2 ret; {TAIL}", "LEAVES"),
        (f"L: frobnicate.b32 %r2, %r1; {TAIL}", "UNKNOWN_OPCODE"),
        (f"L: {{ call.uni other; }} {TAIL}", "CALL"),
        (f"@%p2 bra M; L: mov.u32 %r2, 1; M: {TAIL.replace('bra L', 'bra L')}", None),
        (f"L: ts: .branchtargets A, B; brx.idx %r2, ts; A: mov.u32 %r3, 1; B: {TAIL}", "INDIRECT"),
        (f"L: {{ .local .b32 v; st.local.u32 [v], %r1; }} {TAIL}", "VARIABLE"),
    ],
)
def test_regions_that_must_not_be_rewritten_say_why(loop, code):
    module = bare(f"{DECLARED} mov.u32 %r1, 0; {loop}")
    kernel = replace(module, ptx=module.ptx.replace(".visible .entry", ".extern .func other;\n.visible .entry"))
    regions = find(kernel)
    if code is None:  # a cycle with two entries holds no natural loop
        assert regions == ()
        return
    assert [r.ineligible.code for r in regions if r.ineligible] == [code]
    assert all(not r.text and not r.eligible for r in regions)


def test_a_cycle_with_two_entries_in_a_loop():
    kernel = bare(f"{DECLARED} mov.u32 %r1, 0; L: @%p2 bra B; A: add.s32 %r1, %r1, 2; B: @%p1 bra A; {TAIL}")
    assert [str(r.ineligible).partition(":")[0] for r in find(kernel)] == ["IRREDUCIBLE"]


def test_scopes_nested_without_end():
    kernel = bare(f"{DECLARED} mov.u32 %r1, 0; L: {'{' * 5000} mov.u32 %r2, 1; {'}' * 5000} {TAIL}")
    assert [str(r.ineligible).partition(":")[0] for r in find(kernel)] == ["NESTING"]


def test_a_kernel_compiled_for_a_debugger_is_left_alone():
    regions = find(compiled(kernels.colsum, "sm_90", debug=True, opt=False))
    assert regions
    assert {r.ineligible.code for r in regions if r.ineligible} == {"DEBUG"}


def test_a_region_may_begin_inside_a_block_after_the_parameter_loads():
    (region,) = find(
        bare(
            """
            .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>;
            ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
            mov.u32 %r2, %tid.x;
            mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
            mov.u32 %r3, 0; mov.f32 %f1, 0f00000000; add.s32 %r4, %r1, -1;
        L:  ld.global.f32 %f2, [%rd3]; add.f32 %f1, %f1, %f2;
            add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r4; @%p1 bra L;
            st.global.f32 [%rd3], %f1;
            ret;
            """
        )
    )
    assert region.text.lstrip().splitlines()[1:4]
    assert [p.spelling for p in region.live_in] == ["%r1", "%rd3"]
    assert [p.spelling for p in region.live_out] == ["%f1"]
    assert "mov.u32 %t" in region.text
    assert "param" not in region.text


def test_weights_order_inner_loops_before_outer_ones_of_equal_weight():
    shares = [round(r.share, 1) for r in find(compiled(kernels.rows_and_columns))]
    assert shares == sorted(shares, reverse=True)
    assert find(compiled(kernels.rows_and_columns))[-1].weight == "cold"
