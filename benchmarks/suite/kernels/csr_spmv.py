"""A sparse matrix (compressed rows) times a vector: a thread for each row."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (130, 5), "small": (1 << 14, 16), "large": (1 << 20, 32)}
TOLERANCE = 1e-3


def launch(rows, mean):
    random = np.random.default_rng(0)
    lengths = random.integers(0, 2 * mean + 1, rows)
    begin = np.zeros(rows + 1, np.int32)
    begin[1:] = np.cumsum(lengths)
    columns = random.integers(0, rows, begin[-1], np.int32)
    values = random.random(begin[-1], np.float32)
    return -(-rows // 128), 128, (begin, columns, values, random.random(rows, np.float32), np.zeros(rows, np.float32))


def cuda_arguments(begin, columns, values, x, y):
    return begin, columns, values, x, y, np.int32(y.size)


def reference(begin, columns, values, x, y):
    sums = np.concatenate([[0.0], np.cumsum(values.astype("f8") * x[columns])])
    return {"y": sums[begin[1:]] - sums[begin[:-1]]}


def work(begin, columns, values, x, y):
    return {"bytes": sum(a.nbytes for a in (begin, columns, values, x, y)), "fp32": values.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int32[::1], int32[::1], float32[::1], float32[::1], float32[::1])", examples=example)
def csr_spmv(begin, columns, values, x, y):
    row = cuda.grid(1)
    if row < y.shape[0]:
        total = float32(0)
        for k in range(begin[row], begin[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total
