"""Sums of columns: a thread for each column goes down the rows."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (33, 100), "small": (1024, 2048), "large": (4096, 16384)}
TOLERANCE = 1e-3


def launch(rows, columns):
    a = np.random.default_rng(0).random((rows, columns), np.float32)
    return -(-columns // 256), 256, (a, np.zeros(columns, np.float32))


def cuda_arguments(a, y):
    return a, y, *(np.int32(n) for n in a.shape)


def reference(a, y):
    return {"y": a.sum(axis=0, dtype="f8")}


def work(a, y):
    return {"bytes": a.nbytes + y.nbytes, "fp32": a.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[::1])", examples=example)
def colsum(a, y):
    i = cuda.grid(1)
    if i < a.shape[1]:
        s = float32(0)
        for j in range(a.shape[0]):
            s += a[j, i]
        y[i] = s
