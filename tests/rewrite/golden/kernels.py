"""The ten kernels whose prompts are kept beside this file, as a Numba user writes them."""

import math

import numpy as np
from numba import cuda, float32

import hybridcc

RANDOM = np.random.default_rng(1)


def floats(*shape):
    return RANDOM.random(shape, np.float32)


def vectors():
    return 4, 32, (np.float32(1.5), floats(100), floats(100))


@hybridcc.jit("void(float32, float32[::1], float32[::1])", examples=vectors)
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def convolution():
    return 4, 32, (floats(130), floats(7), floats(100))


@hybridcc.jit("void(float32[::1], float32[::1], float32[::1])", examples=convolution)
def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s


def columns():
    return 2, 32, (floats(19, 50), floats(50))


@hybridcc.jit("void(float32[:, ::1], float32[::1])", examples=columns)
def colsum(a, y):
    i = cuda.grid(1)
    if i < a.shape[1]:
        s = float32(0)
        for j in range(a.shape[0]):
            s += a[j, i]
        y[i] = s


def matrices():
    return (1, 2), (16, 8), (floats(13, 17), floats(17, 15), floats(13, 15))


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])", examples=matrices)
def matmul_naive(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        s = float32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def bodies():
    return 2, 32, (floats(50, 4), floats(50, 4))


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])", examples=bodies)
def nbody(pos, acc):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        x, y, z = pos[i, 0], pos[i, 1], pos[i, 2]
        ax, ay, az = float32(0), float32(0), float32(0)
        for j in range(pos.shape[0]):
            dx, dy, dz = pos[j, 0] - x, pos[j, 1] - y, pos[j, 2] - z
            r = dx * dx + dy * dy + dz * dz + float32(0.01)
            f = pos[j, 3] / (r * math.sqrt(r))
            ax += f * dx
            ay += f * dy
            az += f * dz
        acc[i, 0], acc[i, 1], acc[i, 2] = ax, ay, az


def long_vectors():
    return 2, 32, (floats(500), floats(500))


@hybridcc.jit("void(float32[::1], float32[::1])", examples=long_vectors)
def gridstride(x, y):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        y[i] = x[i] * x[i] + float32(1)


def rows():
    return 2, 32, (floats(50, 21), floats(50, 21), floats(50))


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], float32[::1])", examples=rows)
def dot_rows(a, b, y):
    i = cuda.grid(1)
    if i < a.shape[0]:
        s = float32(0)
        for j in range(a.shape[1]):
            s += a[i, j] * b[i, j]
        y[i] = s


def points():
    return 4, 32, (np.zeros(100, np.int64), 0.01, 40)


@hybridcc.jit("void(int64[::1], float64, int64)", examples=points)
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


def line():
    return 4, 32, (floats(100), floats(100))


@hybridcc.jit("void(float32[::1], float32[::1])", examples=line)
def stencil(x, y):
    i = cuda.grid(1)
    if 0 < i < x.shape[0] - 1:
        y[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]


def blocks():
    return 2, 64, (floats(128), floats(2))


@hybridcc.jit("void(float32[::1], float32[::1])", examples=blocks)
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
