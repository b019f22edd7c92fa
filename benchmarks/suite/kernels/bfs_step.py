"""One level of a breadth-first search: a thread for each vertex looks whether a neighbour was reached last."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (150, 4), "small": (1 << 16, 8), "large": (1 << 21, 16)}
TOLERANCE = 0


def launch(vertices, mean):
    random = np.random.default_rng(0)
    begin = np.zeros(vertices + 1, np.int32)
    begin[1:] = np.cumsum(random.integers(0, 2 * mean + 1, vertices))
    edges = random.integers(0, vertices, begin[-1], np.int32)
    level = np.full(vertices, -1, np.int32)
    level[random.choice(vertices, vertices // 20, replace=False)] = 3
    return -(-vertices // 256), 256, (begin, edges, level, np.zeros(vertices, np.int32), np.int64(3))


def cuda_arguments(begin, edges, level, fresh, current):
    return begin, edges, level, fresh, np.int32(level.size), np.int32(current)


def reference(begin, edges, level, fresh, current):
    reached = np.concatenate([[0], np.cumsum(level[edges] == current)])
    near = reached[begin[1:]] > reached[begin[:-1]]
    return {"fresh": np.where((level < 0) & near, np.int32(current) + 1, level).astype(np.int32)}


def work(begin, edges, level, fresh, current):
    return {"bytes": sum(a.nbytes for a in (begin, level, fresh)), "int32": level.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int32[::1], int32[::1], int32[::1], int32[::1], int64)", examples=example)
def bfs_step(begin, edges, level, fresh, current):
    v = cuda.grid(1)
    if v < level.shape[0]:
        found = level[v]
        if found < 0:
            for k in range(begin[v], begin[v + 1]):
                if level[edges[k]] == current:
                    found = current + 1
                    break
        fresh[v] = found
