"""The conformance kernels themselves: broad enough, reproducible, and accepted by ptxas."""

import re

import pytest

from hybridcc.ptx import isa, parse
from hybridcc.ptx.nodes import Instruction
from hybridcc.ptx.scopes import flatten
from hybridcc.runtime.assemble import assemble
from tests.hardware import generate, stored
from tests.hardware.cases import all_cases


def test_breadth():
    cases = all_cases()
    assert len({c.opcode for c in cases}) >= 60
    assert len({c.instruction for c in cases}) >= 400
    assert len({c.entry for c in cases}) == len(cases)


def test_every_kernel_holds_its_instruction():
    for case in all_cases():
        (function,) = parse(generate.module((case,))).entries
        assert function.body is not None
        held = {s.full_opcode for s in flatten(function.body) if isinstance(s, Instruction)}
        aliases = {case.instruction, re.sub(r"\.cc\.s", ".cc.u", case.instruction)}
        assert held & aliases, case.name
        assert all(o.partition(".")[0] in isa.OPCODES for o in held), case.name


def test_operands_are_the_same_everywhere():
    """Answers of a GPU belong to operands that another machine must make again."""
    some = tuple(c for c in all_cases() if c.name in ("add.s32", "fma.rn.f64", "nan max.f16", "cvt.rzi.s32.f32"))
    assert len(some) == 4
    assert stored.digest(some) == "953c57574b9ed9fb5cffd4639d9bc2221f92901016340ec2018aece64fae4d24"


@pytest.mark.parametrize("number", range(len(generate.batches(all_cases()))))
def test_ptxas_accepts(number):
    batch = generate.batches(all_cases())[number]
    cubin = assemble(generate.module(batch), "sm_90", "ptxas")
    assert {e.entry for e in cubin.entries} == {c.entry for c in batch}
