"""One-dimensional convolution: every thread sums len(w) products.

Numba's loop checks each index for being negative and keeps its iterator in three registers; the rewrite walks two
pointers instead.
"""

import numpy as np
from numba import cuda, float32

import hybridcc


def example():
    """A launch to profile and to test with: grid, block and arguments."""
    random = np.random.default_rng(1)
    y = np.zeros(4096, np.float32)
    w = random.random(31, np.float32)
    x = random.random(y.size + w.size - 1, np.float32)
    return y.size // 256, 256, (x, w, y)


@hybridcc.jit("void(float32[::1], float32[::1], float32[::1])", examples=example)
def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s
