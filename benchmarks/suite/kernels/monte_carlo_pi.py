"""Points in a quarter circle, drawn by a xorshift generator in every thread."""

import numpy as np
from numba import cuda, float32, uint32

import hybridcc

SIZES = {"tiny": (70, 20), "small": (1 << 14, 256), "large": (1 << 18, 1024)}
TOLERANCE = 0


def launch(n, points):
    seeds = np.random.default_rng(0).integers(1, 1 << 32, n, np.uint32)
    return -(-n // 128), 128, (seeds, np.zeros(n, np.int32), np.int64(points))


def cuda_arguments(seeds, hits, points):
    return seeds, hits, np.int32(seeds.size), np.int32(points)


def reference(seeds, hits, points):
    state, found = seeds.copy(), np.zeros_like(hits)
    for _ in range(points):
        state = _next(state)
        x = state.astype("f4") * np.float32(2.0**-32)
        state = _next(state)
        y = state.astype("f4") * np.float32(2.0**-32)
        found += x.astype("f8") ** 2 + y.astype("f8") ** 2 < 1
    return {"hits": found}


def _next(state):
    state = state ^ (state << np.uint32(13))
    state = state ^ (state >> np.uint32(17))
    return state ^ (state << np.uint32(5))


def work(seeds, hits, points):
    """Two draws of six operations each, two conversions, and four results."""
    each = int(points) * seeds.size
    return {"bytes": seeds.nbytes + hits.nbytes, "int32": 12 * each, "fp32": 4 * each}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(uint32[::1], int32[::1], int64)", examples=example)
def monte_carlo_pi(seeds, hits, points):
    i = cuda.grid(1)
    if i < seeds.shape[0]:
        state = seeds[i]
        found = 0
        for _ in range(points):
            state = uint32(state ^ (state << uint32(13)))
            state = uint32(state ^ (state >> uint32(17)))
            state = uint32(state ^ (state << uint32(5)))
            x = float32(state) * float32(2.0**-32)
            state = uint32(state ^ (state << uint32(13)))
            state = uint32(state ^ (state >> uint32(17)))
            state = uint32(state ^ (state << uint32(5)))
            y = float32(state) * float32(2.0**-32)
            if x * x + y * y < float32(1):
                found += 1
        hits[i] = found
