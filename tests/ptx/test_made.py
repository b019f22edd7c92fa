"""Modules made from nodes print to text that parses to the same nodes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.ptx import isa, parse
from hybridcc.ptx import nodes as n
from hybridcc.ptx.canonical import rename_module
from hybridcc.ptx.scopes import resolve
from tests.ptx.test_corpus import numbered

identifiers = st.from_regex(r"[A-Za-z][A-Za-z0-9_$]{0,12}|[_$%][A-Za-z0-9_$]{1,12}", fullmatch=True).filter(
    lambda name: name not in ("function_name", "inlined_at", "WARP_SZ")
)
registers = st.from_regex(r"%[a-z]{1,3}[0-9]{0,3}", fullmatch=True)
types = st.sampled_from([".b8", ".b16", ".b32", ".b64", ".u32", ".s64", ".f16", ".f16x2", ".f32", ".f64", ".pred"])
numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1).map(str),
    st.integers(0, 2**32 - 1).map(lambda v: f"0f{v:08X}"),
    st.integers(0, 2**64 - 1).map(lambda v: f"0d{v:016x}"),
    st.integers(0, 2**32 - 1).map(lambda v: f"0x{v:x}U"),
    st.sampled_from(["WARP_SZ", "1.5", "2.5e-3", "(1 << 3)|2", "-(3+4)", "1 ? 2 : 3"]),
)
names = registers.map(n.Name)
members = st.builds(n.Member, st.sampled_from(["%tid", "%ctaid", "%v1"]), st.sampled_from("xyzw"))
immediates = numbers.map(n.Immediate)
offsets = st.integers(-4096, 4096).map(lambda v: n.Immediate(str(v)))
addresses = st.builds(n.Address, names, st.one_of(st.none(), offsets))
scalars = st.one_of(names, members, immediates)
vectors = st.lists(scalars, min_size=1, max_size=8).map(lambda v: n.Vector(tuple(v)))
brackets = st.builds(lambda a, v: n.BracketList((a, v)), names, vectors)
operands = st.one_of(
    scalars,
    addresses,
    vectors,
    brackets,
    st.builds(n.Not, names),
    st.builds(n.Pair, names, names),
    st.builds(n.SymbolOffset, identifiers, st.integers(0, 99).map(lambda v: f"+{v}")),
    st.builds(n.Indexed, identifiers, st.integers(0, 99).map(str)),
)
modifiers = st.lists(
    st.sampled_from([".global", ".shared::cta", ".rn", ".f32", ".L2::128B", ".1d", ".sync", ".v4"]), max_size=5
)
instructions = st.builds(
    lambda opcode, m, o, g: n.Instruction(opcode, tuple(m), tuple(o), g),
    st.sampled_from([o for o in isa.OPCODES if o != "call"] + ["unheard"]),
    modifiers,
    st.lists(operands, max_size=6),
    st.one_of(st.none(), st.builds(n.Guard, registers, st.booleans())),
)
calls = st.builds(
    lambda f, r, a: n.Instruction("call", (".uni",), (*([n.ArgumentList(tuple(r))] if r else []), n.Name(f),
                                                      n.ArgumentList(tuple(a)))),
    identifiers,
    st.lists(names, max_size=1),
    st.lists(scalars, max_size=3),
)  # fmt: skip
comments = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(
    lambda t: n.Comment(f"//{t}".rstrip())
)
declarations = st.builds(
    lambda t, r, v: n.RegisterDeclaration(t, tuple(r), v),
    types,
    st.lists(st.tuples(registers, st.one_of(st.none(), st.integers(0, 999))), min_size=1, max_size=4),
    st.sampled_from(["", "", ".v2", ".v4"]),
)
declarators = st.builds(
    n.Declarator, identifiers, st.lists(st.integers(1, 9).map(str), max_size=2).map(tuple), st.just("")
)
variables = st.builds(
    lambda s, t, d, a: n.Variable(s, t, tuple(d), (), a),
    st.sampled_from([".local", ".shared", ".param"]),
    types,
    st.lists(declarators, min_size=1, max_size=3),
    st.sampled_from([(), (".align 8",)]),
)
directives = st.sampled_from(
    [n.Directive(".loc", "1 2 3"), n.Directive(".pragma", '"nounroll"', True),
     n.Directive(".loc", "1 4 0, function_name $L__info, inlined_at 1 2 3")]
)  # fmt: skip
leaves = st.one_of(
    instructions,
    calls,
    comments,
    declarations,
    variables,
    directives,
    identifiers.map(n.Label),
    st.builds(lambda label, t: n.BranchTargets(label, ".branchtargets", tuple(t)), identifiers,
              st.lists(identifiers, min_size=1, max_size=4)),
)  # fmt: skip
statements = st.recursive(leaves, lambda s: st.lists(s, max_size=5).map(lambda b: n.Block(tuple(b))), max_leaves=20)
bodies = st.lists(statements, max_size=8).map(lambda b: n.Block(tuple(b)))
parameters = st.builds(
    lambda t, name, a: n.Variable(".param", t, (n.Declarator(name),), (), a), types, identifiers,
    st.sampled_from([(), (".align 16",)]),
)  # fmt: skip
functions = st.builds(
    lambda kind, name, p, a, body: n.Function(kind, name, tuple(p), (), (".visible",), a, body),
    st.sampled_from([".entry", ".func"]),
    identifiers,
    st.lists(parameters, max_size=3),
    st.sampled_from([(), (n.Directive(".maxntid", "128, 1, 1"), n.Directive(".minnctapersm", "2"))]),
    st.one_of(bodies, bodies, st.none()),
)
globals_ = st.builds(
    lambda t, name, value: n.Variable(".global", t, (n.Declarator(name, ("4",), value),), (".visible",)),
    types,
    identifiers,
    st.sampled_from(["", "{1, 2, 3, 4}", "{generic(x)+8, -3, 0f3F800000}"]),
)
modules = st.lists(st.one_of(functions, globals_, comments), max_size=5).map(
    lambda items: n.Module((n.Directive(".version", "8.0"), n.Directive(".target", "sm_80, debug"), *items))
)


@settings(max_examples=80, deadline=None)
@given(modules)
def test_printing_and_parsing_gives_the_same_nodes(module: n.Module) -> None:
    printed = str(module)
    assert parse(printed) == module
    assert str(parse(printed)) == printed


@settings(max_examples=30, deadline=None)
@given(modules)
def test_resolving_any_module_keeps_its_statements(module: n.Module) -> None:
    for function in module.functions:
        scoped = resolve(function, module)
        assert len(scoped.depths) == len(scoped.statements)
        assert all(isa.is_special_register(r) is False and r.startswith("%") for r in scoped.types)
        assert not scoped.labels & set(scoped.types)
        assert not scoped.labels & set(scoped.variables)


@settings(max_examples=30, deadline=None)
@given(modules)
def test_renaming_twice_to_the_same_names_is_renaming_once(module: n.Module) -> None:
    once = rename_module(module, numbered())
    assert parse(str(once)) == once
    assert rename_module(once, numbered()) == once
