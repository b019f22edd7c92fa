"""Candidates on the executor, bit for bit against their baselines, every rewritten block executed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hybridcc.passes.arguments import flatten
from hybridcc.passes.execute import execute
from hybridcc.passes.regions import find
from hybridcc.passes.splice import splice, splice_all
from hybridcc.ptx import parse
from tests.regions import kernels
from tests.regions.kernels import compiled
from tests.splice.conv1d import COUNTED, unrolled


def floats(*shape: int) -> np.ndarray:
    made = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    made.flat[:2] = (1e-41, -0.0)
    return made


LAUNCHES = {
    kernels.conv1d: ((2,), (32,), lambda: [floats(80), floats(11), np.zeros(50, np.float32)]),
    kernels.colsum: ((1,), (32,), lambda: [floats(7, 20), np.zeros(20, np.float32)]),
    kernels.matmul_naive: ((2, 2), (8, 4), lambda: [floats(7, 6), floats(6, 9), np.zeros((7, 9), np.float32)]),
    kernels.nbody: ((1,), (16,), lambda: [floats(13, 2), np.zeros((13, 2), np.float32)]),
    kernels.gridstride: ((1,), (8,), lambda: [floats(61), np.zeros(61, np.float32)]),
    kernels.matmul_tiled: ((2, 2), (16, 16), lambda: [floats(32, 32), floats(32, 32), np.zeros((32, 32), np.float32)]),
    kernels.rows_and_columns: ((1,), (4,), lambda: [floats(5, 7), floats(7), np.zeros(4, np.float32)]),
    kernels.two_loops: ((1,), (4,), lambda: [floats(7), floats(9), np.zeros(4, np.float32)]),
    kernels.warp_sum: ((1,), (32,), lambda: [floats(32), np.zeros(32, np.float32)]),
    kernels.histogram: ((1,), (8,), lambda: [np.arange(45, dtype=np.int32) * 7, np.zeros(64, np.int32)]),
}


def run(function, ptx: str) -> tuple[list[bytes], dict[str, int]]:
    """(every array after one launch, executions of each block by label)."""
    kernel = compiled(function)
    grid, block, make = LAUNCHES[function]
    arrays = make()
    result = execute(ptx, kernel.entry, grid, block, flatten(kernel.arguments, arrays))
    return [a.tobytes() for a in arrays], dict(result.block_counts)


@cache
def baseline(function) -> list[bytes]:
    return run(function, compiled(function).ptx)[0]


@pytest.mark.parametrize("function", LAUNCHES)
def test_identity_behaves_alike(function):
    kernel = compiled(function)
    module = parse(kernel.ptx)
    reached = 0
    for region in find(kernel):
        candidate = splice(module, region, region.text)
        memory, counts = run(function, candidate.text)
        assert memory == baseline(function)
        reached += any(counts.get(label, 0) for label in candidate.rewritten)
    assert reached


@pytest.mark.parametrize("text", [COUNTED, unrolled(2), unrolled(4), unrolled(8)])
def test_hand_rewrites_of_conv1d_behave_alike(text):
    kernel = compiled(kernels.conv1d)
    (region,) = find(kernel)
    candidate = splice(parse(kernel.ptx), region, text)
    memory, counts = run(kernels.conv1d, candidate.text)
    assert memory == baseline(kernels.conv1d)
    assert all(counts.get(label, 0) > 0 for label in candidate.rewritten)


@pytest.mark.parametrize(("bound", "holds"), [("%in0 >= 8", True), ("%in0 >= 12", False), ("%in1 < 20", True)])
def test_a_guard_picks_the_version(bound, holds):
    """The last one holds for some threads only: each takes its own way."""
    kernel = compiled(kernels.conv1d)
    (region,) = find(kernel)
    candidate = splice(parse(kernel.ptx), region, f"// guard: {bound}\n{unrolled(8)}")
    memory, counts = run(kernels.conv1d, candidate.text)
    assert memory == baseline(kernels.conv1d)
    loop = candidate.parts[0].new_names["$main"]
    assert (counts.get(loop, 0) > 0) == holds
    assert (counts.get(candidate.parts[0].fallback, 0) > 0) == (bound != "%in0 >= 8")


def test_a_guard_on_a_loop_whose_header_is_the_entry():
    """Both versions, and the original's own back edge, in a loop inside a loop."""
    kernel = compiled(kernels.rows_and_columns)
    inner = find(kernel)[0]
    extent = next(k for k, p in enumerate(inner.live_in) if p.origin_note == "A.shape[1]")
    for bound in (f"%in{extent} >= 3", f"%in{extent} >= 30"):
        candidate = splice(parse(kernel.ptx), inner, f"// guard: {bound}\n{inner.text}")
        assert run(kernels.rows_and_columns, candidate.text)[0] == baseline(kernels.rows_and_columns)


def test_two_rewrites_at_once_behave_alike():
    kernel = compiled(kernels.two_loops)
    candidate = splice_all(parse(kernel.ptx), [(r, r.text) for r in find(kernel)])
    memory, _ = run(kernels.two_loops, candidate.text)
    assert memory == baseline(kernels.two_loops)


def test_a_wrong_rewrite_is_spliced_and_seen():
    kernel = compiled(kernels.conv1d)
    (region,) = find(kernel)
    short = COUNTED.replace("mov.u64 %left, %in0;", "add.s64 %left, %in0, -1;")
    memory, _ = run(kernels.conv1d, splice(parse(kernel.ptx), region, short).text)
    assert memory != baseline(kernels.conv1d)
