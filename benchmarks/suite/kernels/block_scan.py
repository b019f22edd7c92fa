"""Running sums within each block, after Hillis and Steele: two shared arrays that take turns."""

import numpy as np
from numba import cuda, int32

import hybridcc

SIZES = {"tiny": (1000,), "small": (1 << 20,), "large": (1 << 25,)}
TOLERANCE = 0


def launch(n):
    data = np.random.default_rng(0).integers(0, 1000, n, np.int32)
    return -(-n // 256), 256, (data, np.zeros(n, np.int32))


def cuda_arguments(data, out):
    return data, out, np.int32(data.size)


def reference(data, out):
    padded = np.zeros((-(-data.size // 256), 256), np.int64)
    padded.reshape(-1)[: data.size] = data
    return {"out": np.cumsum(padded, axis=1).reshape(-1)[: data.size].astype(np.int32)}


def work(data, out):
    return {"bytes": data.nbytes + out.nbytes, "int32": 8 * data.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int32[::1], int32[::1])", examples=example)
def block_scan(data, out):
    shared = cuda.shared.array((2, 256), int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    here = 0
    shared[here, t] = data[i] if i < data.shape[0] else 0
    cuda.syncthreads()
    offset = 1
    while offset < cuda.blockDim.x:
        there = 1 - here
        if t >= offset:
            shared[there, t] = shared[here, t] + shared[here, t - offset]
        else:
            shared[there, t] = shared[here, t]
        cuda.syncthreads()
        here = there
        offset *= 2
    if i < data.shape[0]:
        out[i] = shared[here, t]
