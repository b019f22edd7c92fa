"""European calls by backward induction over a binomial tree held in a local array: a thread for each option."""

import math

import numpy as np
from numba import cuda, float32

import hybridcc

NODES = 65
"""Room for trees of up to 64 steps."""

SIZES = {"tiny": (40, 9), "small": (1 << 14, 64), "large": (1 << 17, 64)}
TOLERANCE = 1e-3


def launch(n, steps):
    random = np.random.default_rng(0)
    spot, strike = random.uniform(5, 30, n).astype("f4"), random.uniform(5, 30, n).astype("f4")
    step = 1.0 / steps
    up = math.exp(0.3 * math.sqrt(step))
    chance = (math.exp(0.02 * step) - 1 / up) / (up - 1 / up)
    numbers = (up, chance, math.exp(-0.02 * step))
    return -(-n // 64), 64, (spot, strike, np.zeros(n, "f4"), np.int64(steps), *(np.float32(x) for x in numbers))


def cuda_arguments(spot, strike, price, steps, up, chance, discount):
    return spot, strike, price, np.int32(price.size), np.int32(steps), up, chance, discount


def reference(spot, strike, price, steps, up, chance, discount):
    steps, up, chance, discount = int(steps), float(up), float(chance), float(discount)
    value = [np.maximum(spot * up ** (2 * j - steps) - strike, 0.0).astype("f8") for j in range(steps + 1)]
    for level in range(steps, 0, -1):
        value = [discount * (chance * value[j + 1] + (1 - chance) * value[j]) for j in range(level)]
    return {"price": value[0]}


def work(spot, strike, price, steps, *_):
    """Three arrays; a product with two more and a fused multiply-add for each node of the tree."""
    nodes = int(steps) * (int(steps) + 1) // 2
    return {"bytes": 3 * spot.nbytes, "fp32": 3 * nodes * spot.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[::1], float32[::1], float32[::1], int64, float32, float32, float32)", examples=example)
def binomial(spot, strike, price, steps, up, chance, discount):
    i = cuda.grid(1)
    if i < price.shape[0]:
        value = cuda.local.array(NODES, float32)
        s = spot[i]
        for _ in range(steps):
            s = s / up
        for j in range(steps + 1):
            value[j] = max(s - strike[i], float32(0))
            s = s * up * up
        for level in range(steps, 0, -1):
            for j in range(level):
                value[j] = discount * (chance * value[j + 1] + (float32(1) - chance) * value[j])
        price[i] = value[0]
