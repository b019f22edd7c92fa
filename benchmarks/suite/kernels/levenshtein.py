"""The edit distance of pairs of short strings, row by row in a local array: a thread for each pair."""

import numpy as np
from numba import cuda, int32

import hybridcc

LENGTH = 24
CELLS = LENGTH + 1
SIZES = {"tiny": (40,), "small": (1 << 14,), "large": (1 << 18,)}
TOLERANCE = 0


def launch(n):
    random = np.random.default_rng(0)
    first, second = (random.integers(97, 101, (n, LENGTH), np.uint8) for _ in range(2))
    return -(-n // 128), 128, (first, second, np.zeros(n, np.int32))


def cuda_arguments(first, second, distance):
    return first, second, distance, np.int32(distance.size)


def reference(first, second, distance):
    n = len(first)
    row = np.tile(np.arange(LENGTH + 1), (n, 1))
    for i in range(LENGTH):
        diagonal = row[:, 0].copy()
        row[:, 0] = i + 1
        for j in range(LENGTH):
            cost = diagonal + (first[:, i] != second[:, j])
            diagonal = row[:, j + 1].copy()
            row[:, j + 1] = np.minimum(np.minimum(row[:, j + 1] + 1, row[:, j] + 1), cost)
    return {"distance": row[:, LENGTH].astype(np.int32)}


def work(first, second, distance):
    """A cell takes about 6 operations."""
    return {"bytes": first.nbytes + second.nbytes + distance.nbytes, "int32": 6 * LENGTH * LENGTH * len(first)}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(uint8[:, ::1], uint8[:, ::1], int32[::1])", examples=example)
def levenshtein(first, second, distance):
    t = cuda.grid(1)
    if t < distance.shape[0]:
        row = cuda.local.array(CELLS, int32)
        for j in range(CELLS):
            row[j] = j
        for i in range(LENGTH):
            diagonal = row[0]
            row[0] = i + 1
            for j in range(LENGTH):
                cost = diagonal
                if first[t, i] != second[t, j]:
                    cost += 1
                diagonal = row[j + 1]
                row[j + 1] = min(min(row[j + 1] + 1, row[j] + 1), cost)
        distance[t] = row[LENGTH]
