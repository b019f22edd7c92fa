"""Numba's own kernels on the executor against NumPy: shared memory, atomics, warps, calls, libdevice, printing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda, float32, int32, uint32

from hybridcc.errors import ExecutionError
from hybridcc.frontends import numba
from hybridcc.passes.arguments import flatten
from hybridcc.passes.execute import execute

BLOCK = 64


def run(function, signature, grid, block, *values, **options):
    kernel = numba.compile(function, signature, "sm_90")
    return execute(kernel.ptx, kernel.entry, grid, block, flatten(kernel.arguments, values), **options)


def histogram(data, bins):
    own = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        own[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < data.shape[0]:
        cuda.atomic.add(own, data[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(bins, t, own[t])


@pytest.mark.parametrize("schedule", ["lowest", "random", "reversed"])
def test_histogram(schedule):
    data, bins = np.random.default_rng(2).integers(0, 16, 1000, np.int32), np.zeros(16, np.int32)
    run(histogram, "void(int32[::1], int32[::1])", 16, BLOCK, data, bins, schedule=schedule)
    assert (bins == np.bincount(data, minlength=16)).all()


def warp_sums(data, out):
    i = cuda.grid(1)
    s = data[i]
    step = 16
    while step > 0:
        s += cuda.shfl_down_sync(0xFFFFFFFF, s, step)
        step //= 2
    if cuda.laneid == 0:
        out[i // 32] = s


def test_sums_by_shuffles_add_in_the_order_of_the_tree():
    data, out = np.random.default_rng(3).random(256, np.float32), np.zeros(8, np.float32)
    run(warp_sums, "void(float32[::1], float32[::1])", 4, BLOCK, data, out)
    tree = data.reshape(8, 32)
    while tree.shape[1] > 1:
        half = tree.shape[1] // 2
        tree = tree[:, :half] + tree[:, half:]
    assert (out == tree[:, 0]).all()


def scan(data):
    row = cuda.shared.array(BLOCK, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    row[t] = data[i]
    cuda.syncthreads()
    step = 1
    while step < BLOCK:
        add = row[t - step] if t >= step else float32(0)
        cuda.syncthreads()
        row[t] += add
        cuda.syncthreads()
        step *= 2
    data[i] = row[t]


def racing_scan(data):
    row = cuda.shared.array(BLOCK, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    row[t] = data[i]
    cuda.syncthreads()
    step = 1
    while step < BLOCK:
        add = row[t - step] if t >= step else float32(0)
        row[t] += add
        cuda.syncthreads()
        step *= 2
    data[i] = row[t]


def test_a_scan_with_barriers_and_one_that_lacks_them():
    data = np.random.default_rng(4).integers(0, 100, 2 * BLOCK).astype(np.float32)
    wanted = data.reshape(2, BLOCK).cumsum(axis=1).reshape(-1)
    given = data.copy()
    run(scan, "void(float32[::1])", 2, BLOCK, data)
    assert (data == wanted).all()
    with pytest.raises(ExecutionError) as stopped:
        run(racing_scan, "void(float32[::1])", 2, BLOCK, given)
    assert stopped.value.reason == "DATA_RACE"
    assert "shared" in str(stopped.value)


def tiled(a, b, c):
    left, right = cuda.shared.array((8, 8), float32), cuda.shared.array((8, 8), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range(a.shape[1] // 8):
        left[ty, tx] = a[y, tile * 8 + tx]
        right[ty, tx] = b[tile * 8 + ty, x]
        cuda.syncthreads()
        for k in range(8):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    c[y, x] = total


def test_a_tiled_matrix_product():
    random = np.random.default_rng(5)
    a, b = (random.integers(-9, 9, s).astype(np.float32) for s in ((16, 24), (24, 32)))
    c = np.zeros((16, 32), np.float32)
    run(tiled, "void(float32[:,::1], float32[:,::1], float32[:,::1])", (4, 2), (8, 8), a, b, c)
    assert (c == a @ b).all()


def votes(data, out):
    i = cuda.grid(1)
    even = data[i] % 2 == 0
    out[i, 0] = cuda.ballot_sync(0xFFFFFFFF, even)
    out[i, 1] = cuda.all_sync(0xFFFFFFFF, even)
    out[i, 2] = cuda.any_sync(0xFFFFFFFF, even)
    out[i, 3] = cuda.match_any_sync(0xFFFFFFFF, data[i])
    out[i, 4] = cuda.popc(uint32(data[i])) + cuda.clz(data[i])


def test_votes_and_matches():
    data, out = np.random.default_rng(6).integers(0, 5, 64, np.int32), np.zeros((64, 5), np.uint32)
    run(votes, "void(int32[::1], uint32[:,::1])", 1, 64, data, out)
    for i, row in enumerate(out.tolist()):
        warp = data[i // 32 * 32 :][:32]
        even, equal = ([int(b) for b in bits] for bits in (warp % 2 == 0, warp == data[i]))
        assert row[0] == sum(b << k for k, b in enumerate(even))
        assert row[1:3] == [int(all(even)), int(any(even))]
        assert row[3] == sum(b << k for k, b in enumerate(equal))
        assert row[4] == int(data[i]).bit_count() + 32 - int(data[i]).bit_length()


def elementary(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i, 0] = math.exp(x[i])
        out[i, 1] = math.sin(x[i]) + math.cos(x[i])
        out[i, 2] = math.log(abs(x[i]) + 1.0)
        out[i, 3] = x[i] ** 3 / (1.0 + math.sqrt(abs(x[i])))
        out[i, 4] = math.tanh(x[i]) * math.atan2(x[i], 2.0) + math.erf(x[i])


@pytest.mark.parametrize(("kind", "within"), [("float64", 5e-16), ("float32", 4e-7)])
def test_libdevice(kind, within):
    """libdevice's own arithmetic: the approximations it starts from are refined, so the result is nearly exact."""
    x = np.concatenate([np.linspace(-20, 20, 400), [0.0, -0.0, 1e-30, 1000.0, -1000.0]]).astype(kind)
    out = np.zeros((x.size, 5), kind)
    run(elementary, f"void({kind}[::1], {kind}[:,::1])", 7, BLOCK, x, out)
    wide = x.astype(np.float64)
    erf = np.array([math.erf(v) for v in wide])
    with np.errstate(over="ignore"):
        truth = np.stack([np.exp(wide), np.sin(wide) + np.cos(wide), np.log(np.abs(wide) + 1),
                          wide**3 / (1 + np.sqrt(np.abs(wide))),
                          np.tanh(wide) * np.arctan2(wide, 2) + erf], axis=1)  # fmt: skip
    finite = np.abs(truth) < np.finfo(kind).max
    assert (np.isinf(out) == ~finite).all()
    assert np.allclose(out[finite], truth[finite], rtol=within * 8, atol=within * 8)


@cuda.jit(device=True, inline="never")
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def lengths(out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = collatz(i + 1)
        if i == 3:
            print("three", out[i])


def test_a_device_function_and_a_print():
    def plain(n):
        steps = 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    out = np.zeros(100, np.int64)
    result = run(lengths, "void(int64[::1])", 2, BLOCK, out)
    assert out.tolist() == [plain(n + 1) for n in range(100)]
    assert any("vprintf" in f for f in result.flags)


def strided(a, b):
    i = cuda.grid(1)
    if i < a.shape[0]:
        b[-1 - i] = a[i] + b[-1 - i]


def test_views_with_strides_and_negative_indices():
    a, b = np.arange(60, dtype=np.float64)[::3], np.arange(40, dtype=np.float64)[::-2]
    wanted = b + a[::-1]
    run(strided, "void(float64[:], float64[:])", 1, 32, a, b)
    assert (b == wanted).all()
