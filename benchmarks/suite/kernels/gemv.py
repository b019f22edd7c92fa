"""y = A x for a matrix of doubles: a thread for each row."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (70, 45), "small": (2048, 512), "large": (1 << 14, 2048)}
TOLERANCE = 1e-10


def launch(rows, columns):
    random = np.random.default_rng(0)
    return -(-rows // 128), 128, (random.random((rows, columns)), random.random(columns), np.zeros(rows))


def cuda_arguments(a, x, y):
    return a, x, y, *(np.int32(n) for n in a.shape)


def reference(a, x, y):
    return {"y": a @ x}


def work(a, x, y):
    return {"bytes": a.nbytes + x.nbytes + y.nbytes, "fp64": a.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float64[:, ::1], float64[::1], float64[::1])", examples=example)
def gemv(a, x, y):
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = 0.0
        for column in range(a.shape[1]):
            total += a[row, column] * x[column]
        y[row] = total
