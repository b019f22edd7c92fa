"""The sum of each block's part: a tree in shared memory."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (1000,), "small": (1 << 20,), "large": (1 << 26,)}
TOLERANCE = 1e-4


def launch(n):
    data = np.random.default_rng(0).random(n, np.float32)
    blocks = -(-n // 256)
    return blocks, 256, (data, np.zeros(blocks, np.float32))


def cuda_arguments(data, sums):
    return data, sums, np.int32(data.size)


def reference(data, sums):
    padded = np.zeros(256 * sums.size)
    padded[: data.size] = data
    return {"sums": padded.reshape(-1, 256).sum(axis=1)}


def work(data, sums):
    return {"bytes": data.nbytes + sums.nbytes, "fp32": data.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[::1], float32[::1])", examples=example)
def block_sum(data, sums):
    shared = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = data[i] if i < data.shape[0] else float32(0)
    cuda.syncthreads()
    n = cuda.blockDim.x // 2
    while n > 0:
        if t < n:
            shared[t] += shared[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = shared[0]
