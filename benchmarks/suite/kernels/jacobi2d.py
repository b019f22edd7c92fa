"""One sweep of Jacobi's method for Laplace's equation, in doubles: a thread for each point, no loop."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (21, 34), "small": (1024, 1024), "large": (4096, 8192)}
TOLERANCE = 1e-12


def launch(height, width):
    old = np.random.default_rng(0).random((height, width))
    return (-(-width // 32), -(-height // 8)), (32, 8), (old, np.zeros_like(old))


def cuda_arguments(old, new):
    return old, new, np.int32(old.shape[0]), np.int32(old.shape[1])


def reference(old, new):
    new = new.copy()
    new[1:-1, 1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[:-2, 1:-1] + old[2:, 1:-1])
    return {"new": new}


def work(old, new):
    return {"bytes": old.nbytes + new.nbytes, "fp64": 4 * old.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float64[:, ::1], float64[:, ::1])", examples=example)
def jacobi2d(old, new):
    j, i = cuda.grid(2)
    n, m = old.shape
    if i >= 1 and i < n - 1 and j >= 1 and j < m - 1:
        new[i, j] = 0.25 * (old[i, j + 1] + old[i, j - 1] + old[i - 1, j] + old[i + 1, j])
