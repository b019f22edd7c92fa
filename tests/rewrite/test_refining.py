"""What a race says goes back to the rewriter too. The speeds here are a stand-in's: none was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hybridcc import sources
from hybridcc.passes.kernel import Kernel
from hybridcc.pipeline import Options, optimize
from hybridcc.records import Budget, CandidateRecord, KernelRecord, Machine, Speed
from hybridcc.sources import Source
from tests.build.test_whole_path import KERNEL, SIGNATURE, pointer_walk
from tests.rewrite.test_feedback import Scripted, fates

TWO_LOOPS = """
from numba import cuda, float32

def two(x, w, y, z):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[k] * w[k]
        y[i] = s
        cuda.syncthreads()
        t = float32(0)
        for k in range(x.shape[0]):
            t = t + x[k]
        z[i] = t
"""


class Stand:
    """A race by table: the ratio of a candidate, by its name."""

    def __init__(self, ratios: Mapping[str, float]) -> None:
        self.ratios = ratios
        self.races: list[list[str]] = []

    def __call__(self, kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
        self.races.append([c.name for c in candidates])
        return {c.name: self.speed(self.ratios[c.name]) for c in candidates}

    def speed(self, ratio: float) -> Speed:
        kind = "same" if abs(ratio - 1) < 0.01 else "faster" if ratio > 1 else "slower"
        return Speed(kind, "", ratio, (ratio - 0.01, ratio + 0.01), "a stand-in")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("refining") / "conv1d.py"
    path.write_text(KERNEL)
    (found,) = sources.load(str(path), ["sm_90"], signature=SIGNATURE)
    return found


def run(source: Source, rewriter: Scripted, race: Stand, rounds: int = 3) -> KernelRecord:
    options = Options("tested", launches=12, budget=Budget(rounds))
    return optimize(source.kernels, options, rewriter, race=race)


def test_a_slower_rewrite_goes_back_with_how_its_machine_code_differs(source: Source) -> None:
    rewriter = Scripted((pointer_walk(2),), lambda asked: pointer_walk(8))
    race = Stand({"r0-0": 0.98, "r0-1": 1.5})
    record = run(source, rewriter, race, rounds=1)
    (asked,) = rewriter.follow_ups
    assert "SLOWER: the rewrite is correct, but 1.02x slower than the original on a stand-in" in asked.text
    assert "Its machine code differs so:" in asked.text
    assert "  instructions: " in asked.text
    assert record.architectures[0].selection.variant == "r0-1"
    assert race.races == [["r0-0"], ["r0-0", "r0-1"]], "what is new runs beside the fastest so far"
    assert record.told[0].mended


def test_a_faster_one_is_asked_for_until_the_rounds_are_over(source: Source) -> None:
    unrolls = iter([8, 16, 3])
    rewriter = Scripted((pointer_walk(4),), lambda asked: pointer_walk(next(unrolls)))
    record = run(source, rewriter, Stand({"r0-0": 1.2, "r0-1": 1.4, "r0-2": 1.3, "r0-3": 1.1}))
    assert "FASTER: the rewrite is correct, and 1.20x faster" in rewriter.follow_ups[0].text
    assert "FASTER: the rewrite is correct, and 1.40x faster" in rewriter.follow_ups[1].text
    assert len(rewriter.follow_ups) == 2, "the best has been told, and nothing better came"
    assert record.architectures[0].selection.variant == "r0-1"
    assert [t.mended for t in record.told] == [True, False]


def test_a_race_that_says_same_ends_the_asking(source: Source) -> None:
    rewriter = Scripted((pointer_walk(4),), lambda asked: pointer_walk(8))
    record = run(source, rewriter, Stand({"r0-0": 1.0}))
    assert not rewriter.follow_ups
    assert fates(record.architectures[0]) == {"r0-0": "SAME"}


def test_only_what_passed_every_check_is_raced(source: Source) -> None:
    race = Stand({"r0-1": 1.2})
    run(source, Scripted((pointer_walk(4, last=1), pointer_walk(4), "prose")), race)
    assert race.races == [["r0-1"]]


def test_winners_of_two_regions_are_raced_together(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_LOOPS)
    (found,) = sources.load(
        str(path), ["sm_90"], signature="two(float32[::1], float32[::1], float32[::1], float32[::1])"
    )
    from hybridcc.asking import regions_of

    regions = [r for r in regions_of(found.kernels[0]) if r.eligible]
    assert len(regions) == 2
    by_key = {r.key: r for r in regions}

    class Nudging(Scripted):
        """Answers with the region itself and one instruction more, which the assembler cannot drop."""

        def propose(self, prompt, *, count, seed):
            from hybridcc.passes.rewrite.rewriter import Answer

            region = by_key[prompt.region]
            out = next(k for k, port in enumerate(region.live_out) if port.type == ".f32")
            nudge = f"  .reg .pred %is;\n  .reg .b32 %bits;\n  mov.b32 %bits, %out{out};\n"
            nudge += f"  setp.eq.u32 %is, %bits, 0x80000000;\n  selp.f32 %out{out}, 0f80000000, %out{out}, %is;\n"
            return () if prompt.root else (Answer(region.text + nudge, "nudging"),)

    race = Stand({"r0-0": 1.2, "r1-0": 1.1, "r0-0+r1-0": 1.3})
    record = optimize(found.kernels, Options("tested", launches=12), Nudging(()), race=race)
    assert race.races[-1] == ["r0-0", "r0-0+r1-0"]
    assert record.architectures[0].selection.variant == "r0-0+r1-0"
