"""Small modules for every form of the grammar: what ptxas takes is taken, and prints as the same program."""

from pathlib import Path

import pytest

from hybridcc.errors import PtxSyntaxError
from hybridcc.ptx import parse
from hybridcc.ptx.canonical import rename_module
from hybridcc.ptx.nodes import Raw
from hybridcc.ptx.scopes import flatten
from tests.ptx.cubins import assemble
from tests.ptx.test_corpus import numbered

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"

BODIES = {
    "registers of a family and single": ".reg .b32 a, b<3>; mov.b32 a, b2;",
    "offsets": ".reg .b64 r; .reg .b32 a;"
    " ld.global.b32 a, [r+-4]; ld.global.b32 a, [r+(4*2)]; ld.global.b32 a, [r + 4U];",
    "register and constant": ".reg .u32 r<3>; .reg .pred p; add.u32 r0, r1+1, r2+-1; setp.eq.u32 p, r1+1, 2;",
    "shared parameter spaces and prototypes": ".reg .u64 t, f; .param.u64 a; .param.u64 b; st.param.b64 [a], t;"
    " P : .callprototype (.param.u64 a) _ (.param.u64 _); call (b), f, (a), P; ld.param.u64 t, [b];",
    "ordered vectors": ".reg .u64 a, b, d; ld.acquire.gpu.v2.u64 {a, b}, [d]; st.release.gpu.v2.u64 [d], {a, b};",
    "address without register": ".reg .b32 a; .local .b32 l[4]; ld.local.b32 a, [l+4+4]; ld.local.b32 a, [16];",
    "indexed variable": ".reg .b32 a; .shared .b32 s[4]; ld.shared.b32 a, s[1]; st.shared.b32 s[2], a;",
    "labels in a row and at the end": "L: M: bra END; END:",
    "octal, binary, hexadecimal, unsigned":
    ".reg .b32 a; mov.b32 a, 010; mov.b32 a, 0b101; mov.b32 a, 0x7fU; mov.b32 a, 5U;",
    "constant expressions": ".reg .b32 a; mov.b32 a, -(3+4); mov.b32 a, !0; mov.b32 a, ~1; mov.b32 a, 3==3;"
    " mov.b32 a, (.s64)3; mov.b32 a, (1<<3)|2; mov.b32 a, 1 ? 2 : 3; mov.b32 a, (1<2) ? (3) : (4);",
    "warp size": ".reg .b32 %a; add.s32 %a, %a, WARP_SZ; add.s32 %a, %a, WARP_SZ+1;",
    "floating point": ".reg .f32 a; .reg .f64 d; mov.f32 a, -1.5; mov.f32 a, 0F3f800000; mov.f32 a, 5.; mov.f32 a, 1e3;"
    " mov.f64 d, 0D3ff0000000000000; mov.f64 d, 1.5e-3;",
    "two predicates": ".reg .pred p,q,r; .reg .b32 a;"
    " setp.eq.s32 p|q, a, 1; setp.eq.and.s32 p|_, a, 1, !q; and.pred p, q, r;",
    "guards": ".reg .pred p; .reg .b32 a; @!p mov.b32 a, 1; @ p mov.b32 a, 1; @! p ret;",
    "vectors": ".reg .v4 .b32 v; .reg .b32 a; .reg .b16 h; .reg .b64 d; mov.b32 a, v.x; mov.v4.b32 v, {a,a,a,a};"
    " add.s32 a, v.r, v.w; mov.b32 a, {h, 2}; mov.b32 {h, _}, a;"
    " ld.global.v2.b32 {a, a}, [d]; st.global.v2.b32 [d], {a, 7};",
    "a table of targets": ".reg .u32 i; T: .branchtargets A,\n B; brx.idx i, T; A: bra B; B:",
    "a table before a colon set apart": ".reg .u32 i; T : .branchtargets A; brx.idx i, T; A :",
    "line information in a row": ".loc 1 2 3 ret; .loc 1 2 3\n",
    "pragmas": ".pragma \"nounroll\"; .pragma \"used_bytes_mask 1\";",
    "variables of a body": ".local .align 4 .b8 d[8]; .shared .b32 s; .const .b32 c = 4; .global .b32 g;",
    "128 bits": ".reg .b128 x; .reg .b64 a; mov.b128 x, {a,a};",
    "scopes": ".reg .b32 a; { .reg .f64 a; mov.f64 a, 1.0; { mov.f64 a, 2.0; bra OUT; } } OUT: mov.b32 a, 3;",
    "sibling labels": ".reg .pred p; { L: @p bra L; } { L: @p bra L; }",
    "a family with leading zeros": ".reg .b32 %q<12>; mov.b32 %q01, 1; add.s32 %q2, %q1, %q01;",
    "names of opcodes and specials": ".reg .b32 add, %tid; mov.b32 add, 1; add.s32 %tid, add, add;",
    "comments anywhere": ".reg/**/.b32 a;mov.b32/* x */a,// y\n1/*z*/;// w\n",
    "line markers": ".reg .b32 a;\n# 1 \"x.cu\"\nmov.b32 a, 1;",
    "carriage returns": ".reg .b32 a;\r\nmov.b32 a, 1;\r\n",
    "modifiers in another order": ".reg .b32 a; .reg .b64 d; .reg .pred p; ld.u32.global a, [d]; setp.u32.lt p, a, 1;",
    "wait on a mask": ".reg .b32 a; bar.warp.sync 0xffffffff; shfl.sync.bfly.b32 a, a, 1, 31, -1;",
    "a prototype": ".reg .b64 f; P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);",
    "a large space between": ".reg .b32 a;" + "\n" * 500 + " " * 5000 + "mov.b32 a, 1;",
}  # fmt: skip

MODULES = {
    "several variables": ".global .b32 x[4], y = 3, z[2][2] = {{1,2},{3,4}}; .entry k(){ret;}",
    "conditional initialiser": ".global .b32 x = 1<2 ? 3 : 4; .entry k(){ret;}",
    "initialiser of addresses": ".global .b32 g[4]; .global .u64 t[3] = {g, g+8, generic(g)+4}; .entry k(){ret;}",
    "initialiser of masks": ".global .u8 t[] = {1,2,3}; .global .u8 u[4] = {0xFF(t), 0xFF00(t)}; .entry k(){ret;}",
    "initialiser of a function": ".func f(){ret;} .global .u64 t = f; .entry k(){ret;}",
    "negative and floating initialisers": ".const .f32 f[2] = {-1.5, 0f3F800000}; .const .s32 i = -3; .entry k(){ret;}",
    "launch bounds": ".entry k(.param .align 8 .b8 p[16]) .maxntid 128 .minnctapersm 2 { ret; }",
    "launch bounds in three": ".entry k() .maxntid 128,1,1 .maxnreg 32 { ret; }",
    "cluster": ".entry k() .reqntid 32, 1, 1 .reqnctapercluster 2 .explicitcluster {ret;}",
    "cluster of blocks": ".entry k() .blocksareclusters .reqntid 32 .reqnctapercluster 1 {ret;}",
    "pragma of a kernel": ".entry k() .pragma \"nounroll\"; { ret; }",
    "pragma of a module": ".pragma \"nounroll\"; .entry k() { ret; }",
    "registers as parameters": ".func (.reg .b32 r) f (.reg .b32 a, .reg .b32 b) { mov.b32 r, a; ret; }"
    " .entry k(){ .reg .b32 x; call (x), f, (x, 1); ret; }",
    "no parameter list": ".func f; .entry k(){ call f; ret; } .func f { ret; }",
    "kernel without parameter list": ".entry k { ret; }",
    "noreturn": ".visible .func f .noreturn; .entry k(){ ret; } .visible .func f .noreturn { trap; }",
    "preserved registers": ".func f() .abi_preserve 3 .abi_preserve_control 2 {ret;} .entry k(){ret;}",
    "unified": ".func .attribute(.unified(0,1)) f() {ret;} .entry k(){ret;}",
    "alias": ".visible .func b(){ret;} .visible .func a(); .alias a, b; .entry k(){ret;}",
    "linkage":
    ".weak .global .align 8 .b32 x; .common .global .b32 c; .extern .shared .align 16 .b8 d[]; .entry k(){ret;}",
    "managed": ".global .attribute(.managed) .align 4 .b32 m; .entry k(){ret;}",
    "pointers": ".entry k(.param .u64 .ptr.global.align 4 p, .param .u64 .ptr .shared .align 8 q) {ret;}",
    "references": ".global .texref t2; .global .surfref u; .entry k(.param .u64 h){ret;}",
    "file and line on one line": ".file 1 \"a//b.cu\" .entry k(){ .loc 1 2 3\n ret; }",
    "file with size and time": ".file 1 \"a.cu\", 12, 34\n.entry k(){ .loc 1 2 3\n ret; }",
    "inlined lines": ".file 1 \"a.cu\"\n.entry k(){ .loc 1 2 3\n .loc 1 4 0, function_name L, inlined_at 1 2 3\n ret; }"
    "\n.section .debug_str { L: .b8 107\n.b8 0 }",
    "indirect call": ".entry k(){ .reg .b32 x; .reg .b64 f; P: .callprototype (.reg .b32 _) _ (.reg .b32 _);"
    " call (x), f, (x), P; ret; }",
    "indirect call by targets": ".func (.reg .b32 r) g (.reg .b32 a) { mov.b32 r, a; ret; } .entry k(){ .reg .b32 x;"
    " .reg .b64 f; T: .calltargets g; mov.u64 f, g; call (x), f, (x), T; ret; }",
    "a call of everything": ".extern .func (.param .align 16 .b8 r[16]) e (.param .b32 a, .param .b64 b); .entry k(){"
    " .reg .b32 x; .reg .b64 d; { .param .align 16 .b8 r0[16]; .param .b32 a0; .param .b64 b0; st.param.b32 [a0+0], x;"
    " st.param.b64 [b0], d; call.uni (r0), e, (a0, b0); ld.param.b32 x, [r0+12]; } ret; }",
    "textures": ".global .texref t; .entry k(){ .reg .f32 f<4>; .reg .s32 i<2>; .reg .b64 d;"
    " tex.2d.v4.f32.s32 {f0,f1,f2,f3}, [t, {i0, i1}]; tex.1d.v4.f32.s32 {f0,f1,f2,f3}, [t, {i0}]; ret; }",
    "asynchronous copies": ".entry k(){ .reg .b64 g; .reg .b32 s, n; .reg .pred p;"
    " cp.async.cg.shared.global [s], [g], 16;"
    " cp.async.ca.shared.global.L2::128B [s], [g], 4, n; cp.async.commit_group; cp.async.wait_group 0;"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [g], n, [s]; ret; }",
    "tensor copies": ".entry k(){ .reg .b64 g; .reg .b32 s, i, j; .reg .b16 h;"
    " cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [g, {i, j}], [s];"
    " cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [s], [g, {i, j, i}], [s], {h};"
    " ret; }",
    "everything on one line": ".func g(){ret;}"
    ".entry k(.param .u32 p){.reg .b32 a;ld.param.u32 a,[p];{.reg .b32 b;mov.b32 b,a;}ret;}",
}  # fmt: skip

WHOLE = {**{k: f".entry k() {{ {v} ret; }}" for k, v in BODIES.items()}, **MODULES}


@pytest.mark.parametrize("name", WHOLE)
def test_what_ptxas_takes_prints_as_the_same_program(name: str, tmp_path: Path) -> None:
    text = HEADER + WHOLE[name]
    module = parse(text, name)
    assert parse(str(module)) == module
    original = assemble(text, tmp_path)
    assert assemble(str(module), tmp_path) == original
    assert assemble(str(rename_module(module, numbered())), tmp_path) == original
    for function in module.functions:
        if function.body is not None:
            assert not [s for s in flatten(function.body) if isinstance(s, Raw)]


@pytest.mark.parametrize("depth", [300, 1000])
def test_deep_scopes_are_scopes(depth: int, tmp_path: Path) -> None:
    text = f"{HEADER}.entry k() {{ {'{' * depth} ret; {'}' * depth} }}"
    module = parse(text)
    assert parse(str(module)) == module
    assert hash(parse(str(module))) == hash(module)
    assert parse(text.replace("ret", "exit")) != module
    assert len(repr(module)) < 100_000
    assert assemble(str(module), tmp_path) == assemble(text, tmp_path)


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        (".reg .b32 a;\nmov.b32 a, ;", "2:12", "expected an operand"),
        (".reg .b32 a\nmov.b32 a, 1;", "2:1", "';'"),
        (".reg .b64 r; .reg .b32 a;\nld.global.b32 a, [r-4];", "2:20", r"\[register\+-constant\]"),
        ("@p L: ret;", "1:4", "expected an instruction after the guard"),
        ("/* never", "1:1", "this comment never ends"),
        ("mov.b32 a, 1 § 2;", "1:14", "is not ASCII"),
        ("\ufeffret;", "1:1", "byte-order mark"),
        ("ret; }\n}", "2:1", "expected a directive"),
        ("{ ret;", "0:12", "never closed"),
        ('.pragma "x\n;', "1:9", "this string never ends"),
    ],
)  # fmt: skip
def test_an_error_names_the_place(body: str, place: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message) as caught:
        parse(f".entry k() {{\n{body}\n}}", "k.ptx")
    line, column = (int(n) for n in place.split(":"))
    first = str(caught.value).splitlines()
    assert first[0].startswith(f"k.ptx:{line + 1}:{column}: error: ")
    assert first[2].index("^") == column + 1


def test_parsing_goes_on_after_an_error() -> None:
    text = ".entry k() {\nmov.b32 ,;\nret;\nadd.s32 a b;\n}\n.entry j() {\n@ ret;\n}\n.global .b32 ;\n"
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text, "k.ptx")
    lines = [str(d).split(":")[1] for d in caught.value.diagnostics]
    assert lines == ["2", "4", "7", "9"]


def test_ptx_of_the_first_versions() -> None:
    """As nvopencc wrote it for sm_10: no parameter lists, debug information line by line."""
    text = """\t.version 1.4
\t.target sm_10, map_f64_to_f32
\t.file\t1\t"<command-line>"
\t.entry kernel
\t{
\t.reg .u16 %rh<4>;
\t.loc\t14\t3\t0
$LDWbegin_kernel:
\tmov.u16 %rh1, %ctaid.x;
\texit;
$LDWend_kernel:
\t} // kernel

 \t@@DWARF .section .debug_info, "",@progbits
\t@@DWARF .byte\t0x95, 0x02, 0x00
\t@@DWARF .4byte\t.debug_abbrev
\t@@DWARF .quad\t$LDWbegin_kernel
"""
    module = parse(text)
    assert parse(str(module)) == module
    assert str(module).count("@@DWARF") == 4
    renamed = str(rename_module(module, numbered()))
    assert "$LDWbegin_kernel" not in renamed
    assert parse(renamed) == rename_module(module, numbered())


def test_stray_semicolons_are_no_statements() -> None:
    assert parse(";.entry k() { ; ret;; };;") == parse(".entry k() { ret; }")


def test_a_sampler_keeps_its_settings() -> None:
    text = ".global .samplerref s = { addr_mode_0 = wrap, filter_mode = nearest };"
    assert str(parse(text)).strip() == text


def test_an_unknown_instruction_is_kept() -> None:
    module = parse(".entry k() { frob.b32 a, <b>, 7; ret; }")
    (statement, _) = module.entries[0].body.statements  # type: ignore[union-attr]
    assert statement == Raw("frob.b32 a, <b>, 7")
    assert "frob.b32 a, <b>, 7;" in str(module)
