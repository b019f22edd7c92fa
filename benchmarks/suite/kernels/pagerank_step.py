"""One step of PageRank by pulling: a thread for each page sums what the pages that link to it pass on."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (130, 5), "small": (1 << 16, 8), "large": (1 << 20, 32)}
TOLERANCE = 1e-9


def launch(pages, mean):
    random = np.random.default_rng(0)
    begin = np.zeros(pages + 1, np.int32)
    begin[1:] = np.cumsum(random.integers(0, 2 * mean + 1, pages))
    links = random.integers(0, pages, begin[-1], np.int32)
    degree = random.integers(1, 2 * mean, pages, np.int32)
    rank = random.random(pages)
    return -(-pages // 128), 128, (begin, links, degree, rank, np.zeros(pages), np.float64(0.85))


def cuda_arguments(begin, links, degree, rank, fresh, damping):
    return begin, links, degree, rank, fresh, np.int32(rank.size), damping


def reference(begin, links, degree, rank, fresh, damping):
    sums = np.concatenate([[0.0], np.cumsum(rank[links] / degree[links])])
    return {"fresh": (1 - damping) / rank.size + damping * (sums[begin[1:]] - sums[begin[:-1]])}


def work(begin, links, degree, rank, fresh, damping):
    """A division counts as one result here; it takes about ten."""
    return {"bytes": sum(a.nbytes for a in (begin, links, degree, rank, fresh)), "fp64": 2 * links.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(int32[::1], int32[::1], int32[::1], float64[::1], float64[::1], float64)", examples=example)
def pagerank_step(begin, links, degree, rank, fresh, damping):
    page = cuda.grid(1)
    if page < rank.shape[0]:
        total = 0.0
        for k in range(begin[page], begin[page + 1]):
            source = links[k]
            total += rank[source] / degree[source]
        fresh[page] = (1.0 - damping) / rank.shape[0] + damping * total
