"""A product of matrices, a thread for each element of the result."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (17, 20, 33), "small": (256, 256, 256), "large": (1024, 1024, 1024)}
TOLERANCE = 1e-3


def launch(m, k, n):
    random = np.random.default_rng(0)
    a, b = random.random((m, k), np.float32), random.random((k, n), np.float32)
    return (-(-n // 32), -(-m // 8)), (32, 8), (a, b, np.zeros((m, n), np.float32))


def cuda_arguments(a, b, c):
    return a, b, c, np.int32(a.shape[0]), np.int32(b.shape[1]), np.int32(a.shape[1])


def reference(a, b, c):
    return {"c": a.astype("f8") @ b}


def work(a, b, c):
    return {"bytes": a.nbytes + b.nbytes + c.nbytes, "fp32": a.size * b.shape[1]}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])", examples=example)
def matmul_naive(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        t = float32(0)
        for k in range(a.shape[1]):
            t += a[i, k] * b[k, j]
        c[i, j] = t
