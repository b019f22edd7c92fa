"""Kernels whose profiles are checked: loops, divergence, early exits, barriers in loops, two loops of unlike weight."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, int32, void

VECTOR, MATRIX, INTS = float32[::1], float32[:, ::1], int32[::1]


def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s


def colsum(a, y):
    i = cuda.grid(1)
    if i < a.shape[1]:
        s = float32(0)
        for j in range(a.shape[0]):
            s += a[j, i]
        y[i] = s


def rowsum(a, y):
    i = cuda.grid(1)
    if i < a.shape[0]:
        s = float32(0)
        for j in range(a.shape[1]):
            s += a[i, j]
        y[i] = s


def matmul(a, b, c):
    i = cuda.grid(1)
    n = b.shape[1]
    row, column = i // n, i % n
    if row < a.shape[0]:
        t = float32(0)
        for k in range(a.shape[1]):
            t += a[row, k] * b[k, column]
        c[row, column] = t


def gridstride(x, y):
    start = cuda.grid(1)
    for i in range(start, x.shape[0], cuda.gridsize(1)):
        y[i] = x[i] * x[i] + float32(1)


def mandelbrot(out, step, limit):
    i = cuda.grid(1)
    if i < out.shape[0]:
        cr, ci = -2.0 + (i % 512) * step, -1.2 + (i // 512) * step
        zr, zi = 0.0, 0.0
        n = 0
        while n < limit and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            n += 1
        out[i] = n


def nbody(pos, acc):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        ax = float32(0)
        for j in range(pos.shape[0]):
            d = pos[j, 0] - pos[i, 0]
            e = pos[j, 1] - pos[i, 1]
            r = d * d + e * e + float32(0.01)
            ax += d / (r * math.sqrt(r))
        acc[i] = ax


def block_sum(x, y):
    shared = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = x[i] if i < x.shape[0] else float32(0)
    cuda.syncthreads()
    n = cuda.blockDim.x // 2
    while n > 0:
        if t < n:
            shared[t] += shared[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        y[cuda.blockIdx.x] = shared[0]


def divergent(x, y):
    i = cuda.grid(1)
    if i >= x.shape[0]:
        return
    v = x[i]
    if v == 0:
        y[i] = -1
        return
    n = 0
    while v != 1 and n < 200:
        if v % 2 == 0:
            v //= 2
        else:
            v = 3 * v + 1
        n += 1
    y[i] = n


def two_loops(x, y, short):
    """The loop that runs seldom is the longer text."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        v = x[i]
        for _ in range(short):
            v = v * float32(1.5) + float32(0.25)
            v = math.sqrt(v) / (v + float32(3.0))
            v = v * v - float32(0.125)
            v = math.sqrt(math.fabs(v)) + float32(0.5)
            v = v / (v * v + float32(1.0))
            v = v * float32(0.75) + math.sqrt(v + float32(2.0))
        for k in range(400):
            v = v * float32(0.999) + x[k]
        y[i] = v


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).random(shape, np.float32)


def cases(scale: int) -> dict[str, tuple]:
    """name -> (function, signature, grid, block, values). ``scale`` 1 suits the executor, 8 a GPU."""
    blocks = 16 * scale * scale
    n = 128 * blocks
    side = 64 * scale
    hailstones = np.random.default_rng(5).integers(0, 5000, n).astype(np.int32)
    zeros = np.zeros
    f32 = np.float32
    return {
        "conv1d": (conv1d, void(VECTOR, VECTOR, VECTOR), blocks, 128, (_random(n + 60), _random(61), zeros(n, f32))),
        "colsum": (colsum, void(MATRIX, VECTOR), blocks, 128, (_random(64, n), zeros(n, f32))),
        "rowsum": (rowsum, void(MATRIX, VECTOR), scale, 64, (_random(side, 300), zeros(side, f32))),
        "matmul": (matmul, void(MATRIX, MATRIX, MATRIX), side * side // 128, 128,
                   (_random(side, 96), _random(96, side), zeros((side, side), f32))),
        "gridstride": (gridstride, void(VECTOR, VECTOR), scale * scale, 128, (_random(n), zeros(n, f32))),
        "mandelbrot": (mandelbrot, void(int32[::1], float64, int32), blocks, 128,
                       (zeros(n, np.int32), np.float64(0.006), np.int32(60))),
        "nbody": (nbody, void(MATRIX, VECTOR), 4 * scale, 64, (_random(256 * scale, 2), zeros(256 * scale, f32))),
        "block_sum": (block_sum, void(VECTOR, VECTOR), blocks, 256, (_random(256 * blocks - 7), zeros(blocks, f32))),
        "divergent": (divergent, void(INTS, INTS), blocks, 128, (hailstones, zeros(n, np.int32))),
        "two_loops": (two_loops, void(VECTOR, VECTOR, int32), 4 * blocks, 128,
                      (_random(4 * n), zeros(4 * n, f32), np.int32(4))),
        "saxpy": (saxpy, void(float32, VECTOR, VECTOR), blocks, 128, (f32(2), _random(n), _random(n))),
    }  # fmt: skip
