"""How often each byte occurs: counted in shared memory by every block, then added up."""

import numpy as np
from numba import cuda, int32

import hybridcc

SIZES = {"tiny": (5000, 2), "small": (1 << 20, 128), "large": (1 << 28, 1056)}
TOLERANCE = 0


def launch(n, blocks):
    data = np.random.default_rng(0).integers(0, 256, n, np.uint8)
    return blocks, 256, (data, np.zeros(256, np.int32))


def cuda_arguments(data, counts):
    return data, counts, np.int32(data.size)


def reference(data, counts):
    return {"counts": np.bincount(data, minlength=256).astype(np.int32)}


def work(data, counts):
    return {"bytes": data.nbytes, "int32": data.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(uint8[::1], int32[::1])", examples=example)
def histogram(data, counts):
    local = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    local[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), data.shape[0], cuda.gridsize(1)):
        cuda.atomic.add(local, data[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(counts, t, local[t])
