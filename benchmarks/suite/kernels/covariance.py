"""The covariance matrix of columns whose means are known: a thread for each pair of them."""

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (30, 20), "small": (512, 128), "large": (1024, 1024)}
TOLERANCE = 1e-9


def launch(samples, columns):
    data = np.random.default_rng(0).random((samples, columns))
    blocks = -(-columns // 16)
    return (blocks, blocks), (16, 16), (data, data.mean(axis=0), np.zeros((columns, columns)))


def cuda_arguments(data, means, out):
    return data, means, out, *(np.int32(n) for n in data.shape)


def reference(data, means, out):
    centred = data - means
    return {"out": centred.T @ centred / (len(data) - 1)}


def work(data, means, out):
    return {"bytes": data.nbytes + means.nbytes + out.nbytes, "fp64": 3 * data.size * data.shape[1]}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float64[:, ::1], float64[::1], float64[:, ::1])", examples=example)
def covariance(data, means, out):
    j, i = cuda.grid(2)
    samples, n = data.shape
    if i < n and j < n:
        total = 0.0
        for k in range(samples):
            total += (data[k, i] - means[i]) * (data[k, j] - means[j])
        out[i, j] = total / (samples - 1)
