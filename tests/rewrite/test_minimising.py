"""A winner is reduced to the edits that matter; what they are is said. Speeds here are a stand-in's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc import sources
from hybridcc.asking import regions_of
from hybridcc.minimising import ddmin
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.rewrite.hunks import difference
from hybridcc.pipeline import Options, optimize
from hybridcc.records import Budget, CandidateRecord, KernelRecord, Machine, Speed
from hybridcc.sources import Source
from tests.build.test_whole_path import KERNEL, SIGNATURE, pointer_walk
from tests.rewrite.test_feedback import Scripted

ADD = "fma.rn.f32 %out0, %a0, %b0, %out0;"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("minimising") / "conv1d.py"
    path.write_text(KERNEL)
    (found,) = sources.load(str(path), ["sm_90"], signature=SIGNATURE)
    return found


def with_idle_code(answer: str) -> str:
    """Registers that nothing reads: the assembler leaves them out."""
    answer = answer.replace(".reg .pred %p;", ".reg .pred %p;\n.reg .b64 %idle<3>;", 1)
    return answer.replace("$MAIN:", "mov.u64 %idle0, 7;\nadd.s64 %idle1, %idle0, 1;\n$MAIN:", 1)


def run(source: Source, answer: str, race=None, checks: int = 24) -> KernelRecord:
    options = Options("tested", "proved", launches=12, answers=1, regions=1, budget=Budget(0), minimise=checks)
    return optimize(source.kernels, options, Scripted((answer,)), race=race)


def test_what_the_assembler_leaves_out_is_left_out(source: Source) -> None:
    record = run(source, with_idle_code(pointer_walk(4)))
    by_name = {c.name: c for c in record.architectures[0].candidates}
    reduced = by_name["r0-0-min"]
    assert reduced.minimised is not None
    assert reduced.minimised.of == "r0-0"
    dropped = "\n".join(reduced.minimised.dropped)
    assert re.search(r"^\+ mov\.u64 +%\w+, 7;$", dropped, re.MULTILINE), dropped
    assert not re.search(r"\+ mov\.u64 +%\w+, 7;", "\n".join(reduced.minimised.matter))
    assert reduced.machine is not None
    assert by_name["r0-0"].machine is not None
    assert reduced.machine.instructions == by_name["r0-0"].machine.instructions
    assert reduced.evidence is not None
    assert type(reduced.evidence.verdict) is type(by_name["r0-0"].evidence.verdict)  # type: ignore[union-attr]


class ByText:
    """A race that calls a text faster by how it is written."""

    def __init__(self, slow_if: str) -> None:
        self.slow_if = slow_if

    def __call__(self, kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
        return {c.name: self.speed(1.2 if self.slow_if in c.answer else 1.5) for c in candidates}

    @staticmethod
    def speed(ratio: float) -> Speed:
        return Speed("faster", "", ratio, (ratio - 0.01, ratio + 0.01), "a stand-in")


def test_with_a_race_an_edit_that_is_no_faster_is_dropped(source: Source) -> None:
    """To the stand-in every text is as fast as the winner, so little has to stay; what does still passes the tests."""
    record = run(source, with_idle_code(pointer_walk(4)), ByText("never"), checks=6)
    (reduced,) = [c for c in record.architectures[0].candidates if c.minimised is not None]
    assert reduced.minimised is not None
    assert reduced.minimised.checks > 1
    assert not re.search(r"\+ mov\.u64 +%\w+, 7;", "\n".join(reduced.minimised.matter))
    assert reduced.speed.kind == "faster"


def test_a_budget_that_runs_out_is_said(source: Source) -> None:
    record = run(source, with_idle_code(pointer_walk(4)), checks=1)
    reduced = [c for c in record.architectures[0].candidates if c.minimised is not None]
    assert all(c.minimised is not None and not c.minimised.complete for c in reduced)
    assert all(c.minimised is not None and c.minimised.checks <= 1 for c in reduced)


def test_nothing_is_reduced_unasked(source: Source) -> None:
    record = run(source, pointer_walk(4), checks=0)
    assert [c.name for c in record.architectures[0].candidates] == ["r0-0"]


def test_the_whole_difference_is_the_rewrite_and_none_of_it_the_original(source: Source) -> None:
    from hybridcc.passes.splice import splice
    from hybridcc.ptx import parse
    from hybridcc.ptx.canonical import canonical_key

    kernel: Kernel = source.kernels[0]
    region = next(r for r in regions_of(kernel) if r.eligible)
    rewrite = pointer_walk(4).removeprefix("```ptx\n").rstrip().removesuffix("```")
    found = difference(region.text, rewrite)
    module = parse(kernel.ptx)
    keys = [
        canonical_key(splice(module, region, text).module, kernel.entry)
        for text in (rewrite, found.text(range(found.edits)), region.text, found.text(()))
    ]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert keys[0] != keys[2]


@given(st.sets(st.integers(0, 23), max_size=6))
def test_delta_debugging_finds_what_is_needed(needed: set[int]) -> None:
    assert ddmin(range(24), lambda kept: needed <= kept) == needed


@given(st.lists(st.sets(st.integers(0, 15), min_size=1, max_size=4), min_size=1, max_size=3))
def test_delta_debugging_ends_where_nothing_more_can_be_taken(ways: list[set[int]]) -> None:
    def passes(kept: frozenset[int]) -> bool:
        return any(way <= kept for way in ways)

    found = ddmin(range(16), passes)
    assert passes(found)
    assert not any(passes(found - {n}) for n in found)
