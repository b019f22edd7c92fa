"""How often a byte occurs in a text: every thread counts in its own part, and adds to one number."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (3000, 2), "small": (1 << 20, 64), "large": (1 << 28, 1056)}
TOLERANCE = 0


def launch(n, blocks):
    text = np.random.default_rng(0).integers(97, 123, n, np.uint8)
    return blocks, 256, (text, np.uint8(101), np.zeros(1, np.int64))


def cuda_arguments(text, byte, count):
    return text, byte, count, np.int32(text.size)


def reference(text, byte, count):
    return {"count": np.array([(text == byte).sum()])}


def work(text, byte, count):
    return {"bytes": text.nbytes, "int32": 2 * text.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(uint8[::1], uint8, int64[::1])", examples=example)
def byte_count(text, byte, count):
    found = 0
    for i in range(cuda.grid(1), text.shape[0], cuda.gridsize(1)):
        if text[i] == byte:
            found += 1
    cuda.atomic.add(count, 0, found)
