"""Regions that are too long to be asked about in one piece: where they are cut, and where never."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from hybridcc import sources
from hybridcc.asking import CHARACTERS_PER_TOKEN, body_of, fitting, prompts_of
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region, cut
from hybridcc.passes.regions.cut import AROUND, TOO_LONG, barriers
from hybridcc.passes.splice import splice_all
from hybridcc.pipeline import Options, optimize
from hybridcc.ptx import isa, parse
from hybridcc.ptx.canonical import canonical_key
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction
from hybridcc.records import Budget
from hybridcc.runtime.assemble import assemble
from tests.rewrite.test_feedback import Scripted

SUITE = Path(__file__).parents[2] / "benchmarks" / "suite" / "kernels"


@cache
def kernel_of(name: str) -> Kernel:
    (source,) = sources.load(str(SUITE / f"{name}.py"), ["sm_80"])
    return source.kernels[0]


def parts_of(name: str, most: int) -> tuple[Kernel, Region, tuple[Region, ...]]:
    kernel = kernel_of(name)
    (region,) = body_of(kernel)
    return kernel, region, cut(kernel, region, lambda part: len(part.text) <= most)


CASES = [
    ("black_scholes", 3000),
    ("transpose", 3000),
    ("matmul_tiled", 4000),
    ("softmax_rows", 4000),
    ("nbody", 1500),
]


@pytest.mark.parametrize(("name", "most"), CASES)
def test_parts_are_in_order_apart_and_short_enough(name: str, most: int) -> None:
    _, region, parts = parts_of(name, most)
    assert [part.id for part in parts] == [f"body.{n}" for n in range(len(parts))]
    taken: set[int] = set()
    for part in parts:
        if part.ineligible == AROUND:
            continue
        assert not part.statements & taken
        assert part.statements <= region.statements
        taken |= part.statements
        assert len(part.text) <= most or part.ineligible == TOO_LONG
    assert any(part.eligible for part in parts)


@pytest.mark.parametrize(("name", "most"), CASES)
def test_parts_stitched_unchanged_are_the_kernel(name: str, most: int) -> None:
    kernel, _, parts = parts_of(name, most)
    module = parse(kernel.ptx)
    eligible = [part for part in parts if part.eligible]
    stitched = splice_all(module, [(part, part.text) for part in eligible])
    before, after = (next(f for f in m.entries if f.name == kernel.entry) for m in (module, stitched.module))
    assert barriers(before) == barriers(after)
    codes = [re.sub(r"\s+", " ", str(assemble(text, "sm_80").registers)) for text in (kernel.ptx, stitched.text)]
    assert codes[0] == codes[1]


@pytest.mark.parametrize(("name", "most"), [("transpose", 3000), ("matmul_tiled", 4000), ("softmax_rows", 4000)])
def test_no_cut_lies_between_a_barrier_and_an_access_that_it_orders(name: str, most: int) -> None:
    """These kernels access memory that threads share all around their barriers: a part with the one has the other."""
    _, region, parts = parts_of(name, most)
    cfg = region.cfg
    waiting = {
        n for n in region.statements
        if isinstance(s := cfg.statements[n], Instruction) and Effect.BARRIER in isa.effects(s)
    }  # fmt: skip
    shared = {
        n
        for n in region.statements
        if isinstance(s := cfg.statements[n], Instruction)
        and isa.effects(s) & {Effect.READ, Effect.WRITE}
        and isa.memory_space(s) in (".shared", ".global")
    }
    assert waiting
    assert shared
    for part in (p for p in parts if p.ineligible != AROUND):
        inside = part.statements
        if inside & waiting:
            assert shared <= inside
        if inside & shared:
            assert waiting <= inside


def test_a_region_that_fits_is_left_as_it_is() -> None:
    kernel = kernel_of("nbody")
    (region,) = body_of(kernel)
    assert cut(kernel, region, lambda part: True) == (region,)
    assert fitting(kernel, (region,), None) == (region,)


def test_what_cannot_be_cut_says_so() -> None:
    _, _, parts = parts_of("nbody", 40)
    assert any(part.ineligible == TOO_LONG for part in parts)
    assert all(not part.eligible or len(part.text) <= 40 for part in parts)


def test_a_window_bounds_every_prompt() -> None:
    (source,) = sources.load(str(SUITE / "black_scholes.py"), ["sm_80"])
    window = 8500
    whole = prompts_of(source, body=True)
    parts = prompts_of(source, body=True, window=window)
    assert len(parts) > len(whole) == 1
    assert all(len(prompt.text) <= window * CHARACTERS_PER_TOKEN for prompt in parts)


def test_parts_are_asked_alone_and_stitched() -> None:
    """Each part is answered with its own text, made a little longer; all together are judged as one more."""

    class Same(Scripted):
        def propose(self, prompt, *, count, seed):
            from hybridcc.passes.rewrite import Answer

            part = next(p for p in parts if p.key == prompt.region)
            return (Answer(changed(part), "test"),)

    (source,) = sources.load(str(SUITE / "black_scholes.py"), ["sm_80"])
    kernel = source.kernels[0]
    parts = [p for p in fitting(kernel, body_of(kernel), 12000) if p.eligible]
    options = Options("tested", "proved", launches=2, answers=1, budget=Budget(0), body=True, window=12000)
    record = optimize(source.kernels, options, Same(()), ())
    candidates = record.architectures[0].candidates
    passed = [c for c in candidates if "+" not in c.name and c.evidence is not None and c.fate.kind != "failed"]
    assert len(passed) >= 2, [(c.name, c.fate) for c in candidates]
    (joined,) = [c for c in candidates if "+" in c.name]
    assert joined.region == "+".join(c.region for c in passed)
    assert joined.evidence is not None
    assert joined.fate.kind != "failed", joined.fate
    assert joined.ptx is not None
    assert canonical_key(parse(joined.ptx), kernel.entry) != canonical_key(parse(kernel.ptx), kernel.entry)


def changed(part: Region) -> str:
    """An output mixed with the lane's number and unmixed again, which the assembler cannot see through: the same bits,
    other machine code."""
    port = next((k for k, p in enumerate(part.live_out) if p.type in (".b64", ".f64", ".u64", ".s64")), None)
    if port is None:
        return part.text
    return f"""{part.text}
  .reg .b32 %lane<2>; .reg .b64 %wide<2>, %bits;
  mov.u32 %lane0, %laneid;
  min.u32 %lane1, %lane0, 31;
  cvt.u64.u32 %wide0, %lane0;
  cvt.u64.u32 %wide1, %lane1;
  mov.b64 %bits, %out{port};
  xor.b64 %bits, %bits, %wide0;
  xor.b64 %bits, %bits, %wide1;
  mov.b64 %out{port}, %bits;
"""
