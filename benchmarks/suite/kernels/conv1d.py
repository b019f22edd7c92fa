"""A filter of finite response (one-dimensional convolution): every thread sums len(w) products."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (500, 31), "small": (1 << 20, 31), "large": (1 << 26, 31)}
TOLERANCE = 1e-4


def launch(n, taps):
    random = np.random.default_rng(0)
    w = random.random(taps, np.float32)
    x = random.random(n + taps - 1, np.float32)
    return -(-n // 256), 256, (x, w, np.zeros(n, np.float32))


def cuda_arguments(x, w, y):
    return x, w, y, np.int32(y.size), np.int32(w.size)


def reference(x, w, y):
    total = np.zeros(y.size)
    for k in range(w.size):
        total += x[k : k + y.size].astype("f8") * float(w[k])
    return {"y": total}


def work(x, w, y):
    return {"bytes": x.nbytes + w.nbytes + y.nbytes, "fp32": y.size * w.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[::1], float32[::1], float32[::1])", examples=example)
def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s
