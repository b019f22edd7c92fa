"""Matrix product, one thread per element of the result, with no shared memory."""

import numpy as np
from numba import cuda, float32

import hybridcc


def example():
    """A launch to profile and to test with: grid, block and arguments."""
    random = np.random.default_rng(3)
    a = random.random((64, 48), np.float32)
    b = random.random((48, 64), np.float32)
    c = np.zeros((64, 64), np.float32)
    return (2, 8), (32, 8), (a, b, c)


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])", examples=example)
def matmul_naive(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        t = float32(0)
        for k in range(a.shape[1]):
            t += a[i, k] * b[k, j]
        c[i, j] = t
