"""What the instruction table says an instruction reads, writes and does."""

import csv
from pathlib import Path

import pytest

from hybridcc.ptx import isa, parse, parse_statements, scopes
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction, Raw

CORPUS = Path(__file__).parents[1] / "corpus"


def one(text: str) -> Instruction:
    (statement,) = parse_statements(text)
    assert isinstance(statement, Instruction), statement
    return statement


def column(file: str, name: str) -> list[str]:
    with (CORPUS / file).open(newline="") as handle:
        return [row[name] for row in csv.DictReader(handle, delimiter="\t")]


def test_every_opcode_seen_in_the_wild_is_in_the_table() -> None:
    assert [o for o in column("ptx-opcodes.tsv", "opcode") if o not in isa.OPCODES] == []


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*/*.ptx")), ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_the_corpus_is_known_and_its_registers_are_declared(file: Path) -> None:
    module = parse(file.read_text(), file.name)
    for function in module.functions:
        scoped = scopes.resolve(function, module)
        assert scoped.unresolved == ()
        for statement in scoped.statements:
            assert not isinstance(statement, Raw)
            if isinstance(statement, Instruction):
                assert isa.lookup(statement) is not None, statement.full_opcode
                assert {*isa.defs(statement), *isa.uses(statement)} <= set(scoped.types)


@pytest.mark.parametrize(
    ("text", "defs", "uses"),
    [
        ("add.s32 %a, %b, 1;", "%a", "%b"),
        ("@%p mov.b32 %a, %b;", "%a", "%p %b"),
        ("@!%p ld.global.v2.f32 {%a, %b}, [%c+8];", "%a %b", "%p %c"),
        ("st.global.v2.b32 [%c], {%a, 7};", "", "%c %a"),
        ("mov.b64 {%a, _}, %d;", "%a", "%d"),
        ("mov.b64 %d, {%a, %b};", "%d", "%a %b"),
        ("mov.u32 %a, %tid.x;", "%a", ""),
        ("mov.u64 %a, table;", "%a", ""),
        ("setp.eq.and.s32 %p|%q, %a, %b, !%r;", "%p %q", "%a %b %r"),
        ("shfl.sync.bfly.b32 %a|%p, %b, 1, 31, -1;", "%a %p", "%b"),
        ("atom.global.cas.b32 %a, [%d], %b, %c;", "%a", "%d %b %c"),
        ("red.global.add.u32 [%d], %a;", "", "%d %a"),
        ("bar.red.popc.u32 %a, 0, %p;", "%a", "%p"),
        ("bar.sync %a, %b;", "", "%a %b"),
        ("call.uni (%r), f, (%a, %b);", "%r", "%a %b"),
        ("call (retval0), %fp, (param0), proto;", "", "%fp"),
        ("brx.idx %i, table;", "", "%i"),
        ("tex.2d.v4.f32.f32 {%a, %b, %c, %d}, [%t, {%x, %y}];", "%a %b %c %d", "%t %x %y"),
        ("cp.async.cg.shared.global [%s], [%g], 16, %n;", "", "%s %g %n"),
        ("mbarrier.arrive.shared.b64 %st, [%m];", "%st", "%m"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%a, %b}, [%s];", "%a %b", "%s"),
        ("elect.sync %a|%p, -1;", "%a %p", ""),
        ("elect.sync _|%p, -1;", "%p", ""),
        ("lop3.or.b32 %a|%p, %b, %c, %d, 0x80, %q;", "%a %p", "%b %c %d %q"),
        ("mad.lo.cc.u32 %a, %b, %c, %d;", "%a", "%b %c %d"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%a, %b, %c, %d}, %x, %y, 1, 1, 1, 0, 0;",
         "%a %b %c %d", "%a %b %c %d %x %y"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%d], %a, [%m];", "", "%d %a %m"),
        ("mov.b32 %v.x, %a;", "%v", "%a"),
        ("add.u32 %a, %b+1, %c+-1;", "%a", "%b %c"),
        ("mov.u64 %a, table+8;", "%a", ""),
    ],
)  # fmt: skip
def test_registers_written_and_read(text: str, defs: str, uses: str) -> None:
    instruction = one(text)
    assert isa.lookup(instruction) is not None
    assert isa.defs(instruction) == tuple(defs.split())
    assert isa.uses(instruction) == tuple(uses.split())


def test_definitions_that_may_not_happen() -> None:
    assert isa.is_conditional_def(one("@%p mov.b32 %a, 1;"))
    assert isa.is_conditional_def(one("mov.b32 %v.x, 1;"))
    assert not isa.is_conditional_def(one("mov.b32 %a, 1;"))
    assert not isa.is_conditional_def(one("@%p st.global.b32 [%d], %a;"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.s32 %a, %b, %c;", set()),
        ("ld.global.f32 %a, [%d];", {Effect.READ}),
        ("ld.volatile.shared.f32 %a, [%d];", {Effect.READ, Effect.VOLATILE}),
        ("st.release.gpu.b32 [%d], %a;", {Effect.WRITE, Effect.VOLATILE, Effect.ATOMIC, Effect.FENCE}),
        ("atom.add.u32 %a, [%d], 1;", {Effect.READ, Effect.WRITE, Effect.ATOMIC}),
        ("bar.sync 0;", {Effect.BARRIER, Effect.CONVERGENT, Effect.FENCE}),
        ("shfl.sync.idx.b32 %a, %b, 0, 31, -1;", {Effect.CONVERGENT}),
        ("bra L;", {Effect.CONTROL}),
        ("ret;", {Effect.EXIT}),
        ("mov.u32 %a, %clock;", {Effect.CLOCK}),
        ("mov.u32 %a, %ctaid.x;", set()),
        ("add.cc.u32 %a, %b, %c;", {Effect.CARRY_OUT}),
        ("addc.cc.u32 %a, %b, %c;", {Effect.CARRY_IN, Effect.CARRY_OUT}),
        ("prefetch.global.L1 [%d];", {Effect.HINT}),
    ],
)
def test_effects(text: str, expected: set[Effect]) -> None:
    assert isa.effects(one(text)) == expected


def test_an_unknown_instruction_may_do_anything() -> None:
    instruction = one("frobnicate.b32 %a, [%b], %c;")
    assert isa.lookup(instruction) is None
    assert isa.effects(instruction) >= {Effect.UNKNOWN, Effect.READ, Effect.WRITE, Effect.VOLATILE}
    assert set(isa.uses(instruction)) == {"%a", "%b", "%c"}
    assert isa.is_conditional_def(instruction)


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("ld.global.nc.v4.f32 {%a, %b, %c, %d}, [%e];", ".global"),
        ("ld.f32 %a, [%d];", None),
        ("st.shared::cta.b32 [%d], %a;", ".shared"),
        ("ld.param::entry.b32 %a, [p];", ".param"),
        ("cp.async.ca.shared.global [%s], [%g], 4;", ".shared"),
        ("cvta.to.global.u64 %a, %b;", None),
        ("tex.1d.v4.f32.s32 {%a, %b, %c, %d}, [t, {%x}];", ".tex"),
    ],
)
def test_memory_space(text: str, space: str | None) -> None:
    assert isa.memory_space(one(text)) == space


def test_operand_types() -> None:
    assert isa.operand_types(one("mad.wide.s32 %d, %a, %b, %c;")) == (".s64", ".s32", ".s32", ".s64")
    assert isa.operand_types(one("cvt.rn.f32.s64 %a, %b;")) == (".f32", ".s64")
    assert isa.operand_types(one("shl.b64 %a, %b, %c;")) == (".b64", ".b64", ".u32")
    assert isa.operand_types(one("setp.lt.f64 %p, %a, %b;")) == (".pred", ".f64", ".f64")


def test_which_register_may_stand_where() -> None:
    assert isa.accepts(".b32", ".f32")
    assert isa.accepts(".s32", ".u32")
    assert not isa.accepts(".f32", ".s32")
    assert not isa.accepts(".b64", ".b32")
    assert isa.accepts(".b64", ".b32", wider=True)
    assert not isa.accepts(".b32", ".pred")


def test_rounding() -> None:
    assert isa.rounding(one("mul.f32 %a, %b, %c;")) is isa.Rounding.CONTRACTIBLE
    assert isa.rounding(one("mul.rn.f32 %a, %b, %c;")) is isa.Rounding.EXACT
    assert isa.rounding(one("mul.lo.s32 %a, %b, %c;")) is isa.Rounding.NONE
    assert isa.rounding(one("ex2.approx.f32 %a, %b;")) is isa.Rounding.APPROXIMATE
    assert isa.rounding(one("mov.f32 %a, %b;")) is isa.Rounding.NONE
