"""How many steps a number takes to 1 in Collatz's sequence: 64-bit integers, loops of unlike length."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (200,), "small": (1 << 16,), "large": (1 << 22,)}
TOLERANCE = 0


def launch(n):
    return -(-n // 256), 256, (np.arange(1, n + 1, dtype=np.int64), np.zeros(n, np.int32))


def cuda_arguments(start, steps):
    return start, steps, np.int32(start.size)


def reference(start, steps):
    value, found = start.copy(), np.zeros_like(steps)
    while (going := value != 1).any():
        value = np.where(going, np.where(value % 2 == 0, value // 2, 3 * value + 1), value)
        found += going
    return {"steps": found}


def work(start, steps):
    """A step takes at least four 32-bit operations. About 108 steps for a number up to 4 million."""
    typical = 10.5 * np.log2(start.size) - 123 if start.size > 1 << 20 else 40
    return {"bytes": start.nbytes + steps.nbytes, "int32": int(4 * typical * start.size)}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int64[::1], int32[::1])", examples=example)
def collatz(start, steps):
    i = cuda.grid(1)
    if i < start.shape[0]:
        value = start[i]
        n = 0
        while value > 1:
            if value % 2 == 0:
                value //= 2
            else:
                value = 3 * value + 1
            n += 1
        steps[i] = n
