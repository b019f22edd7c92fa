"""y = a x + y: a thread for each element, no loop."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (1000,), "small": (1 << 20,), "large": (1 << 25,)}
TOLERANCE = 1e-5


def launch(n):
    random = np.random.default_rng(0)
    return -(-n // 256), 256, (np.float32(1.5), random.random(n, np.float32), random.random(n, np.float32))


def cuda_arguments(a, x, y):
    return a, x, y, np.int32(y.size)


def reference(a, x, y):
    return {"y": float(a) * x.astype("f8") + y}


def work(a, x, y):
    return {"bytes": 3 * x.nbytes, "fp32": x.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32, float32[::1], float32[::1])", examples=example)
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]
