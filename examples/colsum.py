"""Column sums of a matrix in row order: neighbouring threads read neighbouring elements."""

import numpy as np
from numba import cuda, float32

import hybridcc


def example():
    """A launch to profile and to test with: grid, block and arguments."""
    a = np.random.default_rng(2).random((128, 512), np.float32)
    y = np.zeros(a.shape[1], np.float32)
    return y.size // 256, 256, (a, y)


@hybridcc.jit("void(float32[:, ::1], float32[::1])", examples=example)
def colsum(a, y):
    i = cuda.grid(1)
    if i < a.shape[1]:
        s = float32(0)
        for j in range(a.shape[0]):
            s += a[j, i]
        y[i] = s
