"""The FNV-1a hash of keys of one length: a thread for each key."""

import numpy as np
from numba import cuda, uint32

import hybridcc

SIZES = {"tiny": (100, 11), "small": (1 << 16, 32), "large": (1 << 22, 48)}
TOLERANCE = 0


def launch(n, length):
    keys = np.random.default_rng(0).integers(0, 256, (n, length), np.uint8)
    return -(-n // 256), 256, (keys, np.zeros(n, np.uint32))


def cuda_arguments(keys, hashes):
    return keys, hashes, *(np.int32(n) for n in keys.shape)


def reference(keys, hashes):
    found = np.full(len(keys), 2166136261, np.uint32)
    for k in range(keys.shape[1]):
        found = (found ^ keys[:, k]) * np.uint32(16777619)
    return {"hashes": found}


def work(keys, hashes):
    return {"bytes": keys.nbytes + hashes.nbytes, "int32": 2 * keys.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(uint8[:, ::1], uint32[::1])", examples=example)
def fnv_hash(keys, hashes):
    i = cuda.grid(1)
    if i < keys.shape[0]:
        h = uint32(2166136261)
        for k in range(keys.shape[1]):
            h = uint32((h ^ keys[i, k]) * uint32(16777619))
        hashes[i] = h
