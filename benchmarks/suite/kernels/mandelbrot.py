"""How long points of the plane stay near under z -> z^2 + c, in doubles as Python's numbers are."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (12, 20, 30), "small": (512, 512, 60), "large": (2048, 2048, 100)}
TOLERANCE = 0


def launch(height, width, limit):
    counts = np.zeros((height, width), np.int32)
    return (-(-width // 32), -(-height // 8)), (32, 8), (counts, np.int64(limit))


def cuda_arguments(counts, limit):
    return counts, *(np.int32(n) for n in counts.shape), np.int32(limit)


def reference(counts, limit):
    height, width = counts.shape
    re = np.arange(width) * (3.0 / width) - 2.0
    im = (np.arange(height) * (2.0 / height) - 1.0)[:, None]
    zr, zi, found = np.zeros(counts.shape), np.zeros(counts.shape), np.zeros_like(counts)
    for _ in range(limit):
        going = zr * zr + zi * zi < 4
        found += going
        zr, zi = np.where(going, zr * zr - zi * zi + re, zr), np.where(going, 2 * zr * zi + im, zi)
    return {"counts": found}


def work(counts, limit):
    """Seven results a step; at least a fifth of the points of this window stay to the end."""
    return {"bytes": counts.nbytes, "fp64": 7 * int(limit) * counts.size // 5}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int32[:, ::1], int64)", examples=example)
def mandelbrot(counts, limit):
    x, y = cuda.grid(2)
    if x < counts.shape[1] and y < counts.shape[0]:
        re = x * (3.0 / counts.shape[1]) - 2.0
        im = y * (2.0 / counts.shape[0]) - 1.0
        zr = 0.0
        zi = 0.0
        n = 0
        while n < limit and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + re, 2.0 * zr * zi + im
            n += 1
        counts[y, x] = n
