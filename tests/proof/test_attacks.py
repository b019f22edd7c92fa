"""Rewrites that an adversary would try, by kinds: numbers, integers, registers of the hardware, memory, barriers,
warps, loops, declarations. The prover alone is asked. It proves each kernel equal to itself, so that a refusal says
something, and never its attack. One in twelve runs every time, all of them with the slow tests.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from hybridcc.passes.verdict import Proved
from hybridcc.passes.verify import proving

ATTACKS = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text())["attack"]
EVERY = 12
MODULE = """\
.version 8.0
.target sm_80
.address_size 64
{module}
.visible .entry k(.param .u64 px, .param .u64 py, .param .u32 n, .param .f32 a, .param .u64 m) {directives}
{{
    .reg .pred %p<9>;
    .reg .b16 %h<9>;
    .reg .b32 %r<40>;
    .reg .f32 %f<40>;
    .reg .f64 %fd<20>;
    .reg .b64 %d<40>;
    {local}
    ld.param.u64 %d1, [px];
    ld.param.u64 %d2, [py];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %d3, [m];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r5, %r3, %r4, %r2;
    mul.wide.u32 %d4, %r5, 4;
    add.s64 %d5, %d1, %d4;
    add.s64 %d6, %d2, %d4;
    {body}
    ret;
}}
"""


def kernel_of(attack: dict[str, Any]) -> str:
    return MODULE.format(
        module=attack.get("module", ""), local=attack.get("local", ""), directives="", body=attack["kernel"]
    )


def attacked(attack: dict[str, Any]) -> str:
    return MODULE.format(
        module=attack.get("attack_module", attack.get("module", "")),
        local=attack.get("attack_local", attack.get("local", "")),
        directives=attack.get("attack_directives", ""),
        body=attack["attack"],
    )


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(each, id=each["what"], marks=[pytest.mark.slow] if number % EVERY else [])
        for number, each in enumerate(ATTACKS)
    ],
)
def test_a_kernel_is_itself_and_not_its_attack(attack: dict[str, Any]) -> None:
    kernel = kernel_of(attack)
    assert isinstance(proving.attempt(kernel, kernel, "k", ()).verdict, Proved)
    assert not isinstance(proving.attempt(kernel, attacked(attack), "k", ()).verdict, Proved)
