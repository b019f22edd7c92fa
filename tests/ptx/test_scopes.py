"""Names mean what ptxas takes them to mean: the innermost declaration seen so far."""

from hybridcc.ptx import isa, parse, scopes
from hybridcc.ptx.nodes import Instruction


def resolved(body: str, head: str = "", parameters: str = "") -> scopes.Scoped:
    header = ".version 8.0\n.target sm_80\n.address_size 64\n"
    module = parse(f"{header}{head}\n.visible .entry k({parameters})\n{{\n{body}\n}}\n")
    (kernel,) = module.entries
    return scopes.resolve(kernel, module)


def instructions(scoped: scopes.Scoped) -> list[Instruction]:
    return [s for s in scoped.statements if isinstance(s, Instruction)]


def test_an_inner_register_hides_an_outer_one_of_another_type() -> None:
    scoped = resolved(".reg .b32 %a; mov.b32 %a, 1; { .reg .f64 %a; mov.f64 %a, 0d0000000000000000; } mov.b32 %a, 2;")
    names = [isa.defs(i)[0] for i in instructions(scoped)]
    assert names[0] == names[2] != names[1]
    assert [scoped.types[n] for n in names] == [".b32", ".f64", ".b32"]
    assert [scoped.spelling(n) for n in names] == ["%a", "%a", "%a"]


def test_a_use_before_the_inner_declaration_means_the_outer_one() -> None:
    scoped = resolved(".reg .b32 %a; { mov.b32 %a, 1; .reg .b32 %a; mov.b32 %a, 2; }")
    first, second = (isa.defs(i)[0] for i in instructions(scoped))
    assert first != second


def test_leading_zeros_name_the_same_register() -> None:
    scoped = resolved(".reg .b32 %q<12>; mov.b32 %q01, 1; mov.b32 %q1, 2; mov.b32 %q11, 3; mov.b32 %q12, 4;")
    names = [isa.defs(i)[0] for i in instructions(scoped)]
    assert names == ["%q1", "%q1", "%q11", "%q12"]
    assert scoped.unresolved == ("%q12",)


def test_a_stem_may_itself_end_in_digits() -> None:
    scoped = resolved(".reg .b32 %r1<5>; .reg .f32 %r<4>; mov.b32 %r14, 1; mov.f32 %r3, 0f00000000;")
    assert [scoped.types[isa.defs(i)[0]] for i in instructions(scoped)] == [".b32", ".f32"]


def test_sibling_scopes_may_repeat_labels() -> None:
    scoped = resolved(".reg .pred %p; { L: @%p bra L; } { L: @%p bra L; }")
    first, second = (isa.branch_targets(i)[0] for i in instructions(scoped))
    assert first != second
    assert {first, second} == scoped.labels


def test_a_branch_outward_finds_a_label_that_comes_later() -> None:
    scoped = resolved("{ bra DONE; } DONE: ret;")
    assert isa.branch_targets(instructions(scoped)[0]) == ("DONE",)
    assert scoped.unresolved == ()


def test_registers_without_percent_are_told_from_variables() -> None:
    scoped = resolved(
        ".reg .b32 add; .reg .b64 t; .shared .b32 s[4]; mov.b64 t, s; ld.shared.b32 add, [t]; st.shared.b32 [s], add;"
    )
    move, load, store = instructions(scoped)
    assert isa.defs(move) == ("%t",)
    assert isa.uses(move) == ()
    assert (isa.defs(load), isa.uses(load)) == (("%add",), ("%t",))
    assert isa.uses(store) == ("%add",)
    assert scoped.is_variable("s")
    assert not scoped.is_variable("%t")


def test_a_register_may_be_named_like_a_special_one() -> None:
    scoped = resolved(".reg .b32 %tid, %a; mov.b32 %tid, 1; mov.b32 %a, %tid; mov.u32 %a, %ntid.x;")
    write, read, special = instructions(scoped)
    assert isa.uses(read) == isa.defs(write)
    assert isa.uses(special) == ()


def test_parameters_and_module_variables_are_variables() -> None:
    scoped = resolved(
        ".reg .b64 %d; ld.param.b64 %d, [p]; mov.b64 %d, table; { .param .b32 p; st.param.b32 [p], 1; }",
        head=".const .b32 table[4];",
        parameters=".param .u64 p",
    )
    assert {"p", "table", "p$2"} == set(scoped.variables)
    assert scoped.variables["p"].space == ".param"


def test_a_huge_range_costs_nothing() -> None:
    scoped = resolved(".reg .b32 %r<999999999>; mov.b32 %r999999998, 1;")
    assert dict(scoped.types) == {"%r999999998": ".b32"}


def test_a_family_of_variables() -> None:
    scoped = resolved("{ .param .b32 a<3>; st.param.b32 [a2], 1; st.param.b32 [a3], 1; }")
    assert set(scoped.variables) == {"a2"}
    assert scoped.unresolved == ("a3",)


def test_statements_follow_the_nested_body() -> None:
    scoped = resolved("ret; { { ret; } ret; } ret;")
    assert scoped.depths == (0, 2, 1, 0)
