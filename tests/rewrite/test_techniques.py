"""Each technique's pair of kernels, held to the verdict that its file claims."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc import execute
from hybridcc.passes.rewrite import lints
from hybridcc.passes.rewrite.techniques import FOLDER, MOST, Technique, choose, techniques
from hybridcc.passes.verdict import NAN_PAYLOADS, Proved
from hybridcc.passes.verify.proving import prove
from hybridcc.ptx import parse
from hybridcc.ptx.targets import known_targets
from hybridcc.runtime.assemble import assemble

ALL = pytest.mark.parametrize("technique", techniques(), ids=lambda t: t.name)
NEAR_SPECIAL = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x3F800000], np.uint32
)
"""Zeros, subnormal numbers, infinities, the largest number and 1, as bits of f32."""


def arguments(technique: Technique, seed: int) -> list[object]:
    rng = np.random.default_rng(seed)

    def made(value: object) -> object:
        if not isinstance(value, list):
            return value
        bits = rng.integers(0, 1 << 32, value[1], dtype=np.uint32)
        if value[0] == "f4":
            special = rng.random(value[1]) < 0.3
            bits[special] = rng.choice(NEAR_SPECIAL, int(special.sum()))
        return bits.view(value[0])

    return [made(value) for value in technique.check["arguments"]]


def memory(ptx: str, technique: Technique, seed: int) -> list[np.ndarray]:
    values = arguments(technique, seed)
    execute(ptx, "k", 1, technique.check["block"], values)
    return [value for value in values if isinstance(value, np.ndarray)]


@ALL
def test_both_texts_are_assembled_for_the_least_architecture_and_every_later_one(technique: Technique) -> None:
    machine = {}
    for arch in ("sm_80", "sm_90"):
        for which in ("before", "after"):
            machine[which] = assemble(technique.module(getattr(technique, which)), arch).bytes
        assert machine["before"] != machine["after"]


@ALL
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_leave_the_same_memory(technique: Technique, seed: int) -> None:
    before = memory(technique.module(technique.before), technique, seed)
    after = memory(technique.module(technique.after), technique, seed)
    untouched = [v for v in arguments(technique, seed) if isinstance(v, np.ndarray)]
    assert any(a.tobytes() != b.tobytes() for a, b in zip(before, untouched, strict=True)), "it stores something"
    for mine, theirs in zip(before, after, strict=True):
        if technique.verdict.endswith("aside"):
            assert np.array_equal(mine, theirs, equal_nan=True)
            assert np.array_equal(np.signbit(mine[~np.isnan(mine)]), np.signbit(theirs[~np.isnan(theirs)]))
        else:
            assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("technique", [t for t in techniques() if t.verdict != "tested"], ids=lambda t: t.name)
def test_what_is_said_to_be_proved_is_proved(technique: Technique) -> None:
    verdict = prove(technique.module(technique.before), technique.module(technique.after), "k")
    assert isinstance(verdict, Proved), verdict
    assert verdict.aside == ((NAN_PAYLOADS,) if technique.verdict.endswith("aside") else ())


@ALL
def test_a_file_says_when_it_helps_and_never_an_effect_that_was_not_measured(technique: Technique) -> None:
    assert technique.summary.endswith(".")
    assert technique.helps.endswith(".")
    assert technique.answers
    assert technique.least in known_targets()
    assert technique.measured == "unmeasured" or "on " in technique.measured, "an effect names its device"


def test_lints_that_techniques_answer_are_lints() -> None:
    codes = {
        code
        for path in FOLDER.parent.joinpath("lints").glob("*.py")
        for code in ("BANK_CONFLICT", "UNCOALESCED", "LOAD_USED_AT_ONCE", "DEPENDENT_LOADS", "PREDICATE_PRESSURE",
                     "REDUNDANT_PREDICATE", "BARRIER_UNNEEDED", "BARRIER_SCOPE")
        if f'"{code}"' in path.read_text()
    }  # fmt: skip
    assert {code for technique in techniques() for code in technique.answers} <= codes


def test_the_bank_conflict_that_padding_answers_is_gone_after_it() -> None:
    (padding,) = [t for t in techniques() if t.name == "padding"]
    found = [
        [f for f in lints.check(parse(padding.module(body)), "k", "sm_80") if f.code == "BANK_CONFLICT"]
        for body in (padding.before, padding.after)
    ]
    assert [len(f) for f in found] == [1, 0]


def test_at_most_three_are_chosen_and_only_those_that_fit() -> None:
    (padding,) = [t for t in techniques() if t.name == "padding"]
    conflict = lints.check(parse(padding.module(padding.before)), "k", "sm_80")
    assert choose(conflict, "sm_80")[0].name == "padding"
    many = [lints.Finding("LOAD_USED_AT_ONCE", "warning", ""), lints.Finding("UNCOALESCED", "warning", "")]
    chosen = choose(many, "sm_90")
    assert len(chosen) == MOST
    assert not any(t.facts for t in chosen), "none whose facts are not given"
    shared = [lints.Finding("BARRIER_SCOPE", "warning", "")]
    assert choose(shared, "sm_80") == ()
    assert [t.name for t in choose(shared, "sm_80", ["%ntid.x == 32"])] == ["shuffle_reduction"]
    assert choose([], "sm_80") == ()
