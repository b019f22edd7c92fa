"""The kernels that region tests compile: the loops that Numba's users write."""

from __future__ import annotations

import math
from functools import cache

from numba import cuda, float32

from hybridcc.frontends.numba import compile
from hybridcc.passes.kernel import Kernel


def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s


def colsum(A, y):
    i = cuda.grid(1)
    if i < A.shape[1]:
        s = float32(0)
        for j in range(A.shape[0]):
            s += A[j, i]
        y[i] = s


def matmul_naive(A, B, C):
    j, i = cuda.grid(2)
    if i < C.shape[0] and j < C.shape[1]:
        t = float32(0)
        for k in range(A.shape[1]):
            t += A[i, k] * B[k, j]
        C[i, j] = t


def nbody(pos, acc):
    i = cuda.grid(1)
    n = pos.shape[0]
    if i < n:
        xi = pos[i, 0]
        yi = pos[i, 1]
        ax = float32(0)
        ay = float32(0)
        for j in range(n):
            dx = pos[j, 0] - xi
            dy = pos[j, 1] - yi
            d = dx * dx + dy * dy + float32(1e-6)
            inv = float32(1.0) / math.sqrt(d)
            ax += dx * inv
            ay += dy * inv
        acc[i, 0] = ax
        acc[i, 1] = ay


def gridstride(x, y):
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        y[i] = x[i] * x[i] + float32(1.0)


def matmul_tiled(A, B, C):
    sA = cuda.shared.array((16, 16), float32)
    sB = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    t = float32(0.0)
    for i in range(cuda.gridDim.x):
        sA[ty, tx] = A[y, tx + i * 16]
        sB[ty, tx] = B[ty + i * 16, x]
        cuda.syncthreads()
        for j in range(16):
            t += sA[ty, j] * sB[j, tx]
        cuda.syncthreads()
    C[y, x] = t


def rows_and_columns(A, x, y):
    """A loop in a loop, neither unrolled away."""
    i = cuda.grid(1)
    total = float32(0)
    for j in range(A.shape[0]):
        row = float32(0)
        for k in range(A.shape[1]):
            row += A[j, k] * x[k]
        total += row * row
    y[i] = total


def two_loops(x, w, y):
    """Two loops of one user, one after the other: two regions, not one."""
    i = cuda.grid(1)
    s = float32(0)
    for k in range(x.shape[0]):
        s += x[k]
    for k in range(w.shape[0]):
        s += w[k] * s
    y[i] = s


def early_return(x, y):
    i = cuda.grid(1)
    for k in range(x.shape[0]):
        if x[k] < float32(0):
            return
        y[i] += x[k]


def no_loop(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i] + float32(1)


def warp_sum(x, y):
    """A shuffle in a loop."""
    i = cuda.grid(1)
    v = x[i]
    for k in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> k)
    for _ in range(x.shape[0]):
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 1)
    y[i] = v


def histogram(x, h):
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        cuda.atomic.add(h, x[i] % 64, 1)


ONE, TWO = "float32[::1]", "float32[:, ::1]"
SIGNATURES = {
    conv1d: (ONE, ONE, ONE),
    colsum: (TWO, ONE),
    matmul_naive: (TWO, TWO, TWO),
    nbody: (TWO, TWO),
    gridstride: (ONE, ONE),
    matmul_tiled: (TWO, TWO, TWO),
    rows_and_columns: (TWO, ONE, ONE),
    two_loops: (ONE, ONE, ONE),
    early_return: (ONE, ONE),
    no_loop: (ONE, ONE),
    warp_sum: (ONE, ONE),
    histogram: ("int32[::1]", "int32[::1]"),
}


@cache
def compiled(function, arch: str = "sm_90", **options) -> Kernel:
    return compile(function, f"void({', '.join(SIGNATURES[function])})", arch, **options)
