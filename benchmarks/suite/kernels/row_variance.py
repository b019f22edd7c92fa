"""The variance of every row in two passes: a thread for each row."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (70, 45), "small": (4096, 256), "large": (1 << 16, 1024)}
TOLERANCE = 1e-3


def launch(rows, columns):
    data = np.random.default_rng(0).random((rows, columns), np.float32)
    return -(-rows // 64), 64, (data, np.zeros(rows, np.float32))


def cuda_arguments(data, variance):
    return data, variance, *(np.int32(n) for n in data.shape)


def reference(data, variance):
    return {"variance": data.astype("f8").var(axis=1, ddof=1)}


def work(data, variance):
    return {"bytes": data.nbytes + variance.nbytes, "fp32": 3 * data.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[::1])", examples=example)
def row_variance(data, variance):
    i = cuda.grid(1)
    if i < data.shape[0]:
        n = data.shape[1]
        total = float32(0)
        for j in range(n):
            total += data[i, j]
        mean = total / float32(n)
        squares = float32(0)
        for j in range(n):
            d = data[i, j] - mean
            squares += d * d
        variance[i] = squares / float32(n - 1)
