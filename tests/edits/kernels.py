"""Kernels with memory that a rewrite may want laid out otherwise."""

import numpy as np
from numba import cuda, float32, int32

import hybridcc

TABLE = np.arange(37, dtype=np.float32) ** 2


def tile():
    a = np.random.default_rng(0).random((16, 16), np.float32)
    return 1, (16, 16), (a, np.zeros_like(a))


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])", examples=tile)
def turned(a, out):
    tile = cuda.shared.array((16, 16), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[y, x]
    cuda.syncthreads()
    out[y, x] = tile[x, y]


@hybridcc.jit("void(float32[::1], int32[::1], float32[::1])")
def looked_up(x, which, out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0.0)
        for k in range(4):
            total += table[(which[i] + k) % 37] * x[i]
        out[i] = total


@hybridcc.jit("void(int32[::1], int32[::1])")
def neighbours(x, out):
    i = cuda.threadIdx.x
    n = cuda.blockDim.x
    out[i] = x[(i + 1) % n] + x[i]


@hybridcc.jit("void(int32[::1])")
def counted(out):
    bins = cuda.shared.array(64, int32)
    i = cuda.threadIdx.x
    bins[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, i // 2, 1)
    cuda.syncthreads()
    out[i] = bins[i]


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])")
def columns(a, out):
    rows = cuda.shared.array((32, 32), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    rows[y, x] = a[y, x]
    cuda.syncthreads()
    out[y, x] = rows[x, y]
