"""Rewrites by hand: what is put where, and every reason for which one is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.errors import SpliceRefused
from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region
from hybridcc.passes.regions.find import find_in
from hybridcc.passes.splice import NameScope, extract, splice, splice_all
from hybridcc.passes.splice.names import names_of_module
from hybridcc.passes.splice.unchanged import check_outside
from hybridcc.ptx import Module, parse
from hybridcc.ptx.nodes import Function, Instruction
from hybridcc.runtime.assemble import assemble
from tests.regions import kernels
from tests.regions.kernels import compiled
from tests.splice.conv1d import COUNTED, unrolled


@cache
def subject(function=kernels.conv1d, number: int = 0) -> tuple[Module, Region]:
    kernel = compiled(function)
    module = parse(kernel.ptx)
    return module, find_in(module, module.entries[0], kernel)[number]


HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{\n"


def bare(body: str) -> tuple[Module, Region]:
    module = parse(f"{HEAD}{body}\n}}\n")
    (region, *_) = find_in(module, module.entries[0], Kernel("k", "k", "", "sm_90", "test"))
    assert region.eligible
    return module, region


COUNT = """
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, 0;
    add.s32 %r4, %r2, 1;
    st.global.u32 [%rd1+8], %r1;
ENTRY:
    add.s32 %r1, %r1, 1;
    xor.b32 %r4, %r4, %r1;
    setp.lt.s32 %p1, %r1, %r2;
    @%p1 bra ENTRY;
    st.global.u32 [%rd1], %r1;
    st.global.u32 [%rd1+4], %r4;
    ret;
"""
"""%in0/%out0 is the counter, %in1/%out1 the running xor, %in2 the bound."""


@pytest.mark.parametrize("text", [COUNTED, *(unrolled(n) for n in (1, 2, 4, 8))])
@pytest.mark.parametrize("assembler", ["ptxas", "nvjitlink"])
def test_a_hand_rewrite_of_conv1d_assembles(text, assembler):
    module, region = subject()
    candidate = splice(module, region, text)
    cubin = assemble(candidate.text, "sm_90", assembler)
    assert cubin.spill_stores == 0


def test_the_entry_label_stays_outside_before_the_scope():
    module, region = bare(COUNT)
    text = splice(module, region, region.text).text
    assert re.search(r"^ENTRY:\n\s*\{\n\s*\.reg", text, re.MULTILINE)


def test_an_input_that_is_an_output_too_is_read_as_it_was_at_the_entry():
    module, region = bare(COUNT)
    assert [p.spelling for p in region.live_in] == ["%r1", "%r4", "%r2"]
    swap = "mov.u32 %out0, %in1; mov.u32 %out1, %in0;"
    text = splice(module, region, swap).text
    first = re.search(r"mov\.b32\s+(%hcc0_in0), %r1;", text)
    assert first
    assert re.search(rf"mov\.u32\s+%r4, {re.escape(first[1])};", text)


def test_an_input_that_the_text_writes_is_a_copy():
    module, region = bare(COUNT)
    text = splice(module, region, "add.s32 %in2, %in2, %in0; mov.u32 %out0, %in2; mov.u32 %out1, %in1;").text
    assert "add.s32 \t%hcc0_in2, %hcc0_in2, %hcc0_in0;" in text
    assert re.search(r"mov\.b32\s+%hcc0_in2, %r2;", text)


def test_names_of_the_rewrite_may_be_those_of_the_kernel():
    """The kernel's %r1, %p1, ENTRY and p are not the rewrite's."""
    module, region = bare(COUNT)
    clash = """
        .reg .b32 %r1, %r4, p; .reg .pred %p<2>;
        mov.u32 %r1, %in0; mov.u32 %r4, %in2; mov.u32 p, %in1;
    ENTRY:
        add.s32 %r1, %r1, 1; xor.b32 p, p, %r1;
        setp.lt.s32 %p1, %r1, %r4; @%p1 bra ENTRY;
        mov.u32 %out0, %r1; mov.u32 %out1, p;
    """
    candidate = splice(module, region, clash)
    cubin = assemble(candidate.text, "sm_90", "ptxas")
    assert cubin.bytes == assemble(splice(module, region, region.text).text, "sm_90", "ptxas").bytes


def test_every_rewritten_block_has_a_label_of_its_own():
    module, region = subject()
    candidate = splice(module, region, unrolled(4))
    function = candidate.module.entries[0]
    graph = graphs.build(function, candidate.module)
    labelled = {
        block.index
        for block in graph.blocks
        if any(graph.scoped.spelling(label) in candidate.rewritten for label in block.labels)
    }
    own = set(candidate.parts[0].new_names.values())
    written = {
        block.index
        for block in graph.blocks
        for i in graph.instructions(block.index)
        if any(name in own for name in graphs.isa.defs(i))
    }
    assert written <= labelled
    assert len(labelled) == len(candidate.rewritten)


def test_an_exit_that_is_not_next_is_branched_to():
    """Blocks in another order: the exit stands before the loop."""
    body = """
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, 0;
    st.global.u32 [%rd1+4], %r2; bra LOOP;
DONE:
    st.global.u32 [%rd1], %r1;
    ret;
LOOP:
    add.s32 %r1, %r1, 1;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra DONE;
    bra LOOP;
    """
    module, region = bare(body)
    text = splice(module, region, "mov.u32 %out0, %in1;").text
    assert re.search(r"\}\n\s*bra\s+DONE;", text)
    assemble(text, "sm_90", "ptxas")


def test_an_exit_without_a_label_gets_one_when_it_is_needed():
    module, region = bare(COUNT)
    candidate = splice(module, region, "// guard: %in2 >= 1\nmov.u32 %out0, %in2; mov.u32 %out1, %in1;")
    assert re.search(r"^\$hccexit\d+_:$", candidate.text, re.MULTILINE)
    assemble(candidate.text, "sm_90", "ptxas")


# --- guards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "test"),
    [
        ("%in0 >= 4", "setp.lt.s64"),
        ("%in0 < 1073741824", "setp.ge.s64"),
        ("%in0 <= 0x7fffffff", "setp.gt.s64"),
        ("%in2 == 31", "setp.ne.s64"),
        ("%in3 multiple of 16", "and.b64"),
    ],
)
def test_a_guarded_rewrite_keeps_both_versions(line, test):
    module, region = subject()
    candidate = splice(module, region, f"// guard: {line}\n{unrolled(4)}")
    text = candidate.text
    assert test in text
    assert [str(c) for c in candidate.parts[0].guard] == [line.replace("0x7fffffff", "2147483647")]
    assert text.count("ld.global.f32") == str(module).count("ld.global.f32") + 10
    assert f"{candidate.parts[0].fallback}:" in text
    assemble(text, "sm_90", "ptxas")


def test_the_original_behind_a_guard_does_not_test_it_again_on_each_trip():
    module, region = bare(COUNT)
    text = splice(module, region, f"// guard: %in2 < 100\n{region.text}").text
    assert text.count("bra \tENTRY;") + text.count("bra ENTRY;") == 0
    assert re.search(r"@%p1 bra\s+\$hcc0_original;", text)
    assemble(text, "sm_90", "ptxas")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%in0 > 4", "GUARD"),
        ("%in0", "GUARD"),
        ("%in0 >= ", "GUARD"),
        ("%in0 >= 4 %in1", "GUARD"),
        ("%in0 >= 4 ; trap", "GUARD"),
        ("%clock >= 4", "GUARD"),
        ("%in0 multiple of %in1", "GUARD"),
        ("%in0 disjoint from %in1", "GUARD"),
        ("%in0[4] disjoint from %in1", "GUARD"),
        ("%in0[4] >= %in1[4]", "GUARD"),
        ("%in0 == 0f3F800000", "GUARD"),
        ("%in0 == 1.0", "GUARD"),
        ("%in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 * %in0 >= 0", "GUARD"),
        ("%in0 * 0x10000000000000000 >= 0", "GUARD"),
        ("%in0 + %in99 >= 0", "UNKNOWN_PORT"),
        ("%in99 >= 4", "UNKNOWN_PORT"),
        ("%in3 multiple of 12", "GUARD"),
        ("%in0 >= 99999999999999999999", "GUARD"),
    ],
)
def test_guards_that_cannot_be_tested(line, code):
    module, region = subject()
    with pytest.raises(SpliceRefused) as refused:
        splice(module, region, f"// guard: {line}\n{COUNTED}")
    assert refused.value.reason == code
    assert refused.value.where == "rewrite:1:1"


def test_threads_of_a_block_may_not_part_before_a_barrier():
    module, region = subject(kernels.matmul_tiled)
    notes = [p.origin_note for p in region.live_in]
    uniform, own = notes.index("%nctaid.x"), notes.index("%tid.x")
    candidate = splice(module, region, f"// guard: %in{uniform} >= 2\n{region.text}")
    assemble(candidate.text, "sm_90", "ptxas")
    with pytest.raises(SpliceRefused) as refused:
        splice(module, region, f"// guard: %in{own} < 16\n{region.text}")
    assert refused.value.reason == "GUARD_NOT_UNIFORM"


# --- refusals -------------------------------------------------------------------------------------------

WRITE = "mov.u32 %out0, %in0; mov.u32 %out1, %in1;\n"

REFUSED = {
    "SYNTAX": "mov.u32 %out0 %in0",
    "NON_ASCII": "// caf\u00e9\n" + WRITE,
    "UNKNOWN_OPCODE": WRITE + "frobnicate.b32 %out0, %in0;",
    "DIRECTIVE": ".version 9.0\n" + WRITE,
    "VARIABLE": ".shared .b32 v;\n" + WRITE,
    "INDIRECT": WRITE + "t: .branchtargets A;\nA:",
    "LEAVES": WRITE + "ret;",
    "UNKNOWN_PORT": WRITE + "mov.u32 %out0, %in7;",
    "PORT_DECLARED": ".reg .b32 %in0;\n" + WRITE,
    "DUPLICATE_NAME": ".reg .b32 %a; .reg .b32 %a;\n" + WRITE,
    "UNDECLARED": WRITE + "mov.u32 %out0, %r1;",
    "JUMP_OUTSIDE": WRITE + "bra ENTRY;",
    "VECTOR_REGISTER": ".reg .v2 .b32 %v;\n" + WRITE,
    "REGISTER_CLASS": ".reg .f32 %f;\n mov.f32 %f, 0f00000000; add.s32 %out0, %in0, %f; mov.u32 %out1, %in1;",
    "READ_BEFORE_WRITE": ".reg .b32 %a;\n add.s32 %out0, %a, 1; mov.u32 %out1, %in1;",
    "OUT_NOT_WRITTEN": "mov.u32 %out0, %in0;",
    "NO_EXIT": WRITE + "L: bra L;",
    "EFFECT_COUNT": WRITE + "bar.sync 0;",
    "NESTING": "{" * 5000 + "}" * 5000,
}


@pytest.mark.parametrize("code", REFUSED)
def test_refused_with_a_stable_code_a_sentence_and_a_place(code):
    module, region = bare(COUNT)
    with pytest.raises(SpliceRefused) as refused:
        splice(module, region, REFUSED[code])
    assert refused.value.reason == code
    assert refused.value.where.startswith("rewrite")
    assert refused.value.what


@pytest.mark.parametrize(
    "text",
    [
        ".entry other() { ret; }",
        ".target sm_80\n" + WRITE,
        ".maxntid 1, 1, 1\n" + WRITE,
        "} bra ENTRY; {\n" + WRITE,
        "call.uni printf, ();\n" + WRITE,
        "exit;\n" + WRITE,
        "trap;\n" + WRITE,
        "brx.idx %in0, t;\n" + WRITE,
        "{ .reg .b32 %b; mov.u32 %b, 1; } mov.u32 %out0, %b; mov.u32 %out1, %in1;",
        WRITE + ".reg .pred %p; setp.lt.s32 %p, %in0, 1; @%p bra L; { L: mov.u32 %out0, %in0; }",
    ],
)
def test_tricks_are_refused(text):
    module, region = bare(COUNT)
    with pytest.raises(SpliceRefused):
        splice(module, region, text)


def test_pragmas_and_scopes_of_its_own_are_taken():
    module, region = bare(COUNT)
    text = """
    .reg .b32 %i; .reg .pred %p;
    mov.u32 %i, %in0; mov.u32 %out1, %in1;
L:  .pragma "nounroll";
    { .reg .b32 %x; add.s32 %x, %i, 1; mov.u32 %i, %x; }
    xor.b32 %out1, %out1, %i;
    setp.lt.s32 %p, %i, %in2; @%p bra L;
    mov.u32 %out0, %i;
    """
    assemble(splice(module, region, text).text, "sm_90", "ptxas")


def test_an_output_written_on_one_of_two_ways_is_not_enough():
    module, region = bare(COUNT)
    text = ".reg .pred %p; setp.lt.s32 %p, %in0, 3; mov.u32 %out1, %in1; @%p bra E; mov.u32 %out0, %in0; E:"
    with pytest.raises(SpliceRefused, match=r"%out0 is not written on every path"):
        splice(module, region, text)
    predicated = text.replace("@%p bra E; mov.u32", "@%p mov.u32").replace("E:", "")
    with pytest.raises(SpliceRefused, match=r"%out0 is not written on every path"):
        splice(module, region, predicated)
    both = predicated + " @!%p mov.u32 %out0, %in1; mov.u32 %out0, %in2;"
    splice(module, region, both)


def test_convergent_operations_keep_number_order_depth_and_company():
    module, region = subject(kernels.matmul_tiled)
    text = region.text
    barrier = "  bar.sync 0;\n"
    assert text.count(barrier) == 2
    once = text.replace(barrier, "", 1)
    twice = text.replace(barrier, barrier * 2, 1)
    moved = barrier + once
    under = text.replace(barrier, "  .reg .pred %mine; setp.lt.s64 %mine, %in4, 8;\n  @%mine bar.sync 0;\n", 1)
    apart = text.replace(
        barrier, "  .reg .pred %mine; setp.lt.s64 %mine, %in4, 8;\n  @%mine bra SKIP;\n  bar.sync 0;\nSKIP:\n", 1
    )
    assert region.live_in[4].origin_note == "%tid.x"
    for changed, code in (
        (once, "EFFECT_COUNT"),
        (twice, "EFFECT_COUNT"),
        (moved, "EFFECT_MOVED"),
        (under, "CONVERGENCE"),
        (apart, "CONVERGENCE"),
    ):
        with pytest.raises(SpliceRefused) as refused:
            splice(module, region, changed)
        assert refused.value.reason == code


def test_atomics_are_neither_dropped_nor_repeated():
    module, region = subject(kernels.histogram)
    atomic = next(line for line in region.text.splitlines(True) if "atom." in line or "red." in line)
    for changed in (region.text.replace(atomic, "", 1), region.text.replace(atomic, atomic * 2, 1)):
        with pytest.raises(SpliceRefused) as refused:
            splice(module, region, changed)
        assert refused.value.reason.startswith("EFFECT_")


def test_regions_of_another_kernel_or_twice_the_same_or_ineligible():
    module, region = subject()
    other, _ = subject(kernels.colsum)
    for rewrites, where, code in (
        ([(region, region.text)], other, "OTHER_KERNEL"),
        ([(region, region.text), (region, region.text)], module, "OVERLAP"),
    ):
        with pytest.raises(SpliceRefused) as refused:
            splice_all(where, rewrites)
        assert refused.value.reason == code
    kernel = compiled(kernels.colsum, debug=True, opt=False)
    debug = parse(kernel.ptx)
    with pytest.raises(SpliceRefused) as refused:
        splice(debug, find_in(debug, debug.entries[0], kernel)[0], "")
    assert refused.value.reason == "INELIGIBLE"


def test_a_name_in_use_is_never_given_again():
    names = NameScope(["%r1", "$hcc0_x", "%hcc1_"])
    assert names.prefix("hcc") == "hcc2_"
    assert names.prefix("hcc") == "hcc3_"
    names.claim("%hcc2_a")
    with pytest.raises(SpliceRefused) as refused:
        names.claim("%hcc2_a")
    assert refused.value.reason == "NAME_COLLISION"


# --- the proof that nothing else changed ----------------------------------------------------------------


def meddled(module: Module, change) -> Module:
    """The module with each instruction of its first kernel put through ``change`` in turn, once."""
    function = module.entries[0]
    assert function.body is not None
    statements = tuple(change(n, s) for n, s in enumerate(function.body.statements))
    new: Function = replace(function, body=replace(function.body, statements=statements))
    return replace(module, items=tuple(new if i is function else i for i in module.items))


def test_the_proof_sees_every_change_of_one_statement_outside():
    module, region = bare(COUNT)
    candidate = splice(module, region, region.text)
    function = candidate.module.entries[0]
    assert function.body is not None
    places = [n for n, s in enumerate(function.body.statements) if isinstance(s, Instruction)]
    assert len(places) == 8
    for place in places:
        for damage in (
            lambda s: replace(s, modifiers=(*s.modifiers, ".x")),
            lambda s: replace(s, operands=s.operands[::-1], opcode=s.opcode + "x"),
        ):
            broken = meddled(candidate.module, lambda n, s, p=place, d=damage: d(s) if n == p else s)
            with pytest.raises(SpliceRefused) as refused:
                check_outside(module, replace(candidate, module=broken))
            assert refused.value.reason == "OUTSIDE_CHANGED"


# --- any names ------------------------------------------------------------------------------------------

IDENTIFIERS = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_$]{0,8}|[_$%][a-zA-Z0-9_$]{1,8}", fullmatch=True)
TAKEN = ("%r1", "%rd2", "%rd30", "%f29", "$L__BB0_4", "%hcc0_x", "add", "%p1", "hcc0_", "x", "_ZN1", "%out", "%t")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(IDENTIFIERS, st.sampled_from(TAKEN)), min_size=6, max_size=6, unique=True))
def test_the_candidate_does_not_depend_on_the_names_of_the_rewrite(names):
    module, region = subject()
    reserved = re.compile(r"%(in|out)\d+|_|WARP_SZ|%(tid|ntid|ctaid|nctaid|pm\d+|clock.*|warpid)")
    own = ["%more", "%a", "%b", "%x", "%w", "%left"]
    chosen = [f"%v{n}" if reserved.fullmatch(name) else name for n, name in enumerate(names)]
    if len(set(chosen)) < len(chosen) or {"LOOP", "DONE"} & set(chosen):
        return
    mapping = dict(zip(own, chosen, strict=True))
    text = re.sub(r"%[a-z]+\b(?!\d)", lambda m: mapping.get(m[0], m[0]), COUNTED)
    candidate = splice(module, region, text)
    plain = splice(module, region, COUNTED)
    new = candidate.parts[0].new_names
    assert len(set(new.values())) == len(new)
    assert not set(new.values()) & names_of_module(module)
    assert extract(candidate)[0].split() == [*text.split()]
    back = {new[mapping[name]]: plain.parts[0].new_names[name] for name in own}
    normal = re.sub(r"[%$]?[\w$]+", lambda m: back.get(m[0], m[0]), candidate.text)
    assert normal.split() == plain.text.split()


def test_every_refusal_code_is_documented():
    from hybridcc.passes.splice import splice as documented

    folder = Path(documented.__code__.co_filename).parent
    raised = {
        code
        for path in (*folder.glob("*.py"), *(folder.parent / "edits").glob("*.py"))
        for code in re.findall(r"(?:refuse|refusal|SpliceRefused)\(\s*(?:source,\s*)?\"([A-Z_]+)\"", path.read_text())
    }
    listed = set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", (folder / "splice.py").read_text().split('"""')[1]))
    assert len(raised) >= 25
    assert raised <= listed
    assert listed - raised <= {"JUMP_OUTSIDE", "UNDECLARED", "EDIT"}  # raised under a name


@pytest.mark.parametrize("space", [".shared", ".local"])
@pytest.mark.parametrize("first", [True, False])
def test_the_whole_kernel_rewritten_finds_the_arrays_that_its_body_declares(space: str, first: bool) -> None:
    """CUDA C++ declares them at the top of the body, ahead of or behind its registers."""
    from hybridcc.passes.regions import body

    registers, array = ".reg .b32 %r<4>; .reg .b64 %rd<4>;", f"{space} .align 4 .b8 room[64];"
    text = f"""{HEAD}
    {array if first else registers}
    {registers if first else array}
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, room;
    mov.u32 %r2, 7;
    st{space}.u32 [%r1+4], %r2;
    ld{space}.u32 %r3, [%r1+4];
    st.global.u32 [%rd1], %r3;
    ret;
}}
"""
    region = body(Kernel("k", "k", text, "sm_90", "test"))
    module = parse(text)
    candidate = splice(module, region, region.text.replace("7;", "8;"))
    assert candidate.text.index("room[64]") < candidate.text.index("hcc0_")
    assemble(candidate.text, "sm_90", "ptxas")
