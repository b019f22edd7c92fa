"""A matrix turned over its diagonal, tile by tile through shared memory with a column to spare."""

import numpy as np
from numba import cuda, float32

import hybridcc

TILE = 32
PADDED = TILE + 1
ROWS = 8
SIZES = {"tiny": (40, 70), "small": (1024, 1024), "large": (8192, 8192)}
TOLERANCE = 0


def launch(height, width):
    a = np.random.default_rng(0).random((height, width), np.float32)
    grid = (-(-width // TILE), -(-height // TILE))
    return grid, (TILE, ROWS), (a, np.zeros((width, height), np.float32))


def cuda_arguments(a, out):
    return a, out, *(np.int32(n) for n in a.shape)


def reference(a, out):
    return {"out": a.T}


def work(a, out):
    return {"bytes": a.nbytes + out.nbytes}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])", examples=example)
def transpose(a, out):
    tile = cuda.shared.array((TILE, PADDED), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    for k in range(0, TILE, ROWS):
        if x < a.shape[1] and y + k < a.shape[0]:
            tile[ty + k, tx] = a[y + k, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    for k in range(0, TILE, ROWS):
        if x < out.shape[1] and y + k < out.shape[0]:
            out[y + k, x] = tile[tx, ty + k]
