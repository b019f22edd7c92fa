"""Softmax of every row: a block for each row, with trees in shared memory for its maximum and its sum."""

import math

import numpy as np
from numba import cuda, float32

import hybridcc

THREADS = 128
SIZES = {"tiny": (3, 150), "small": (1024, 1024), "large": (1 << 13, 4096)}
TOLERANCE = 1e-4


def launch(rows, columns):
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    return rows, THREADS, (x, np.zeros_like(x))


def cuda_arguments(x, out):
    return x, out, *(np.int32(n) for n in x.shape)


def reference(x, out):
    shifted = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True))
    return {"out": shifted / shifted.sum(axis=1, keepdims=True)}


def work(x, out):
    """About ten results for each exp."""
    return {"bytes": x.nbytes + out.nbytes, "fp32": 13 * x.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])", examples=example)
def softmax_rows(x, out):
    shared = cuda.shared.array(THREADS, float32)
    row = cuda.blockIdx.x
    if row >= x.shape[0]:
        return
    t = cuda.threadIdx.x
    n = x.shape[1]
    largest = float32(-math.inf)
    for j in range(t, n, THREADS):
        largest = max(largest, x[row, j])
    shared[t] = largest
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            shared[t] = max(shared[t], shared[t + step])
        cuda.syncthreads()
        step //= 2
    largest = shared[0]
    cuda.syncthreads()
    total = float32(0)
    for j in range(t, n, THREADS):
        e = math.exp(x[row, j] - largest)
        out[row, j] = e
        total += e
    shared[t] = total
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step //= 2
    total = shared[0]
    for j in range(t, n, THREADS):
        out[row, j] /= total
