"""Control-flow graphs, dominators, loops and liveness of whole kernels written out by hand."""

from __future__ import annotations

import itertools
import random

import networkx
import pytest

from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.analysis.dominators import dominators, post_dominators
from hybridcc.passes.analysis.liveness import live, live_before
from hybridcc.passes.analysis.loops import irreducible_blocks, loop_depths, natural_loops
from hybridcc.ptx import isa, parse
from hybridcc.ptx.nodes import Instruction

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<99>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n"


def graph(body: str) -> graphs.ControlFlowGraph:
    module = parse(HEAD + REGISTERS + body + "}\n")
    return graphs.build(module.entries[0], module)


def by_label(cfg: graphs.ControlFlowGraph, label: str) -> int:
    return next(b.index for b in cfg.blocks if any(cfg.scoped.spelling(name) == label for name in b.labels))


def edges(cfg: graphs.ControlFlowGraph) -> list[tuple[int, ...]]:
    return [b.successors for b in cfg.blocks]


def test_guarded_branches_fall_through_and_leave():
    cfg = graph(
        """
        setp.lt.s32 %p1, %r1, 0;
        @%p1 bra A;
        @!%p1 ret;
        bra.uni B;
        mov.u32 %r1, 1;   // nothing leads here
    A:  add.s32 %r1, %r1, 1;
    B:  ret;
        """
    )
    assert edges(cfg) == [(4, 1), (2,), (5,), (4,), (5,), ()]
    assert [b.leaves for b in cfg.blocks] == [False, True, False, False, False, True]
    assert cfg.reachable == {0, 1, 2, 4, 5}


def test_exit_trap_and_the_closing_brace_leave():
    cfg = graph("@%p1 exit; @%p2 bra E; trap; E: mov.u32 %r1, 0;")
    assert edges(cfg) == [(1,), (3, 2), (), ()]
    assert [b.leaves for b in cfg.blocks] == [True, False, True, True]


def test_an_indirect_branch_reaches_every_target():
    cfg = graph(
        """
        tbl: .branchtargets A, B,
             C;
        brx.idx %r1, tbl;
    A:  bra C;
    B:  mov.u32 %r1, 1;
    C:  ret;
        """
    )
    assert edges(cfg) == [(1, 2, 3), (3,), (3,), ()]


def test_labels_of_inner_scopes_may_repeat():
    cfg = graph(
        """
        { L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra L; }
        { L: add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 9; @%p2 bra L; }
        ret;
        """
    )
    assert edges(cfg) == [(0, 1), (1, 2), ()]


def test_a_label_at_the_very_end_and_several_on_one_block():
    cfg = graph("@%p1 bra D; A: B: mov.u32 %r1, 1; bra D; D:")
    assert edges(cfg) == [(2, 1), (2,), ()]
    assert cfg.blocks[2].leaves
    assert len(cfg.blocks[1].labels) == 2


def test_every_statement_lies_in_one_block_and_splits_divide_blocks():
    body = 'mov.u32 %r1, 0; // c\n L: add.s32 %r1, %r1, 1; .loc 1 2 3\n @%p1 bra L; .pragma "nounroll"; ret; // end\n'
    cfg = graph(body)
    assert [b.first for b in cfg.blocks[1:]] == [b.last for b in cfg.blocks[:-1]]
    assert (cfg.blocks[0].first, cfg.blocks[-1].last) == (0, len(cfg.statements))
    add = next(i for i, s in enumerate(cfg.statements) if isinstance(s, Instruction) and s.opcode == "bra")
    split = graphs.from_scoped(cfg.function, cfg.scoped, splits=frozenset({add}))
    assert len(split.blocks) == len(cfg.blocks) + 1
    assert split.block_of(add) == 2
    assert split.blocks[1].fallthrough == 2


NEST = """
        mov.u32 %r1, 0;
    OUT:
        mov.u32 %r2, 0;
    IN:
        add.s32 %r2, %r2, 1;
        setp.eq.s32 %p3, %r2, 7;
        @%p3 bra NEXT;          // continue
        setp.lt.s32 %p1, %r2, 9;
        @%p1 bra IN;
    NEXT:
        add.s32 %r1, %r1, %r2;
        setp.lt.s32 %p2, %r1, 99;
        @%p2 bra OUT;
        st.global.u32 [%rd1], %r1;
        ret;
"""


def test_nested_loops():
    cfg = graph(NEST)
    outer, inner = natural_loops(cfg)
    assert (outer.header, inner.header) == (by_label(cfg, "OUT"), by_label(cfg, "IN"))
    assert (outer.depth, inner.depth) == (1, 2)
    assert (outer.parent, inner.parent) == (None, 0)
    assert inner.blocks < outer.blocks
    assert {to for _, to in inner.exits} == {by_label(cfg, "NEXT")}
    assert loop_depths(cfg, (outer, inner)) == (0, 1, 2, 2, 1, 0)
    assert irreducible_blocks(cfg) == frozenset()


def test_a_cycle_with_two_entries_is_no_natural_loop():
    cfg = graph("@%p1 bra B; A: mov.u32 %r1, 1; B: mov.u32 %r2, 2; @%p2 bra A; ret;")
    assert natural_loops(cfg) == ()
    assert irreducible_blocks(cfg) == {by_label(cfg, "A"), by_label(cfg, "B")}


def test_dominators_of_a_nest():
    cfg = graph(NEST)
    tree, post = dominators(cfg), post_dominators(cfg)
    inner, after = by_label(cfg, "IN"), by_label(cfg, "NEXT")
    assert tree.dominates(inner, after)
    assert not tree.dominates(after, inner)
    assert list(tree.chain(after)) == [after, inner, by_label(cfg, "OUT"), 0]
    assert post.dominates(after, inner)
    assert list(post.chain(inner))[:2] == [inner, after]


@pytest.mark.parametrize("seed", range(20))
def test_domination_agrees_with_removing_the_block(seed: int):
    choose = random.Random(seed)
    size = 9
    lines = [
        f"L{n}: mov.u32 %r{n}, 0; @%p1 bra L{choose.randrange(size)};"
        + (f" bra L{choose.randrange(size)};" if choose.random() < 0.3 else "")
        for n in range(size)
    ]
    cfg = graph("\n".join(lines) + " ret;")
    tree = dominators(cfg)
    for above, below in itertools.product(sorted(cfg.reachable), repeat=2):
        without = cfg.graph.copy()
        without.remove_node(above)
        reaches = above != cfg.entry and below != above and networkx.has_path(without, cfg.entry, below)
        assert tree.dominates(above, below) == (not reaches)


def test_guarded_definitions_do_not_end_a_life():
    cfg = graph("mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; st.global.u32 [%rd1], %r1; ret;")
    assert live(cfg).live_in[0] == {"%p1", "%rd1"}
    after_move = next(i for i, s in enumerate(cfg.statements) if isinstance(s, Instruction)) + 1
    assert "%r1" in live_before(cfg, live(cfg), after_move)


def test_vectors_pairs_addresses_and_carried_values_live():
    cfg = graph(
        """
        mov.f32 %f1, 0f00000000;
    L:  ld.global.v2.f32 {%f2, %f3}, [%rd1+8];
        fma.rn.f32 %f1, %f2, %f3, %f1;
        shfl.sync.bfly.b32 %r1|%p2, %r2, 1, 31, -1;
        add.s64 %rd1, %rd1, %rd2;
        setp.lt.s64 %p1, %rd1, %rd3;
        @%p1 bra L;
        st.global.f32 [%rd4], %f1;
        @%p2 st.global.u32 [%rd4+4], %r1;
        ret;
        """
    )
    liveness = live(cfg)
    assert liveness.live_in[0] == {"%rd1", "%rd2", "%rd3", "%rd4", "%r2"}
    assert liveness.live_out[1] >= {"%f1", "%rd1", "%r1", "%p2"}
    assert not liveness.live_in[1] & {"%f2", "%f3", "%p1"}


def _live_by_search(cfg: graphs.ControlFlowGraph, block: int, register: str) -> bool:
    """Whether some path from the top of the block reads the register before it is surely written."""
    seen: set[int] = set()
    waiting = [block]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        for instruction in cfg.instructions(at):
            if register in isa.uses(instruction):
                return True
            if register in isa.defs(instruction) and not isa.is_conditional_def(instruction):
                break
        else:
            waiting.extend(cfg.blocks[at].successors)
    return False


@pytest.mark.parametrize("seed", range(20))
def test_liveness_agrees_with_a_search_of_paths(seed: int):
    choose = random.Random(seed)
    lines = []
    for n in range(8):
        guard = choose.choice(["", "@%p1 "])
        lines.append(
            f"L{n}: {guard}add.s32 %r{choose.randrange(6)}, %r{choose.randrange(6)}, %r{choose.randrange(6)};"
            f" @%p2 bra L{choose.randrange(8)};"
        )
    cfg = graph("\n".join(lines) + " ret;")
    liveness = live(cfg)
    for block in cfg.blocks:
        for register in cfg.scoped.types:
            assert (register in liveness.live_in[block.index]) == _live_by_search(cfg, block.index, register)
