"""A sparse matrix (ELLPACK: the k-th entries of all rows together, -1 where a row is shorter) times a vector."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (130, 6), "small": (1 << 14, 16), "large": (1 << 20, 32)}
TOLERANCE = 1e-12


def launch(rows, width):
    random = np.random.default_rng(0)
    columns = random.integers(0, rows, (width, rows), np.int32)
    columns[random.random((width, rows)) < 0.2] = -1
    x = random.random(rows)
    return -(-rows // 128), 128, (columns, random.random((width, rows)), x, np.zeros(rows))


def cuda_arguments(columns, values, x, y):
    return columns, values, x, y, np.int32(columns.shape[0]), np.int32(y.size)


def reference(columns, values, x, y):
    return {"y": np.where(columns >= 0, values * x[columns], 0.0).sum(axis=0)}


def work(columns, values, x, y):
    return {"bytes": sum(a.nbytes for a in (columns, values, x, y)), "fp64": values.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int32[:, ::1], float64[:, ::1], float64[::1], float64[::1])", examples=example)
def ell_spmv(columns, values, x, y):
    row = cuda.grid(1)
    if row < y.shape[0]:
        total = 0.0
        for k in range(columns.shape[0]):
            column = columns[k, row]
            if column >= 0:
                total += values[k, row] * x[column]
        y[row] = total
