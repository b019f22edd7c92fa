"""One step of heat conduction in a box: each thread goes up a column of the grid."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (7, 10, 35), "small": (128, 128, 128), "large": (256, 512, 512)}
TOLERANCE = 1e-5


def launch(depth, height, width):
    old = np.random.default_rng(0).random((depth, height, width), np.float32)
    return (-(-width // 32), -(-height // 8)), (32, 8), (old, np.zeros_like(old), np.float32(0.1))


def cuda_arguments(old, new, rate):
    return old, new, *(np.int32(n) for n in old.shape), rate


def reference(old, new, rate):
    a, new = old.astype("f8"), new.copy()
    c = a[1:-1, 1:-1, 1:-1]
    around = a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
    around = around + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:]
    new[1:-1, 1:-1, 1:-1] = c + float(rate) * (around - 6 * c)
    return {"new": new}


def work(old, new, rate):
    return {"bytes": old.nbytes + new.nbytes, "fp32": 7 * old.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, :, ::1], float32[:, :, ::1], float32)", examples=example)
def heat3d(old, new, rate):
    x, y = cuda.grid(2)
    if 0 < x < old.shape[2] - 1 and 0 < y < old.shape[1] - 1:
        for z in range(1, old.shape[0] - 1):
            c = old[z, y, x]
            around = (
                old[z - 1, y, x] + old[z + 1, y, x] + old[z, y - 1, x]
                + old[z, y + 1, x] + old[z, y, x - 1] + old[z, y, x + 1]
            )  # fmt: skip
            new[z, y, x] = c + rate * (around - 6.0 * c)
