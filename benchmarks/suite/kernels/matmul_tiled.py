"""A product of square matrices by tiles in shared memory; the extents are multiples of the tile."""

import numpy as np
from numba import cuda, float32

import hybridcc

TILE = 16
SIZES = {"tiny": (32,), "small": (256,), "large": (1024,)}
TOLERANCE = 1e-3


def launch(n):
    random = np.random.default_rng(0)
    a, b = random.random((n, n), np.float32), random.random((n, n), np.float32)
    return (n // TILE, n // TILE), (TILE, TILE), (a, b, np.zeros((n, n), np.float32))


def cuda_arguments(a, b, c):
    return a, b, c, np.int32(a.shape[0])


def reference(a, b, c):
    return {"c": a.astype("f8") @ b}


def work(a, b, c):
    return {"bytes": a.nbytes + b.nbytes + c.nbytes, "fp32": a.size * b.shape[1]}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])", examples=example)
def matmul_tiled(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    j, i = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for tile in range(a.shape[1] // TILE):
        sa[ty, tx] = a[i, tile * TILE + tx]
        sb[ty, tx] = b[tile * TILE + ty, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[i, j] = total
