"""Accelerations of bodies that attract each other: every thread goes through all of them."""

import math

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (97,), "small": (4096,), "large": (1 << 14,)}
TOLERANCE = 1e-3


def launch(n):
    bodies = np.random.default_rng(0).random((n, 4), np.float32)
    return -(-n // 128), 128, (bodies, np.zeros((n, 3), np.float32))


def cuda_arguments(bodies, acceleration):
    return bodies, acceleration, np.int32(bodies.shape[0])


def reference(bodies, acceleration):
    p = bodies.astype("f8")
    found = np.empty(acceleration.shape)
    for i in range(len(p)):
        d = p[:, :3] - p[i, :3]
        square = (d * d).sum(axis=1) + 0.01
        found[i] = (d * (p[:, 3] / (square * np.sqrt(square)))[:, None]).sum(axis=0)
    return {"acceleration": found}


def work(bodies, acceleration):
    """A pair takes about 14 results, the root and the division as one each."""
    return {"bytes": bodies.nbytes + acceleration.nbytes, "fp32": 14 * len(bodies) ** 2}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])", examples=example)
def nbody(bodies, acceleration):
    i = cuda.grid(1)
    if i < bodies.shape[0]:
        ax = float32(0)
        ay = float32(0)
        az = float32(0)
        for j in range(bodies.shape[0]):
            dx = bodies[j, 0] - bodies[i, 0]
            dy = bodies[j, 1] - bodies[i, 1]
            dz = bodies[j, 2] - bodies[i, 2]
            square = dx * dx + dy * dy + dz * dz + float32(0.01)
            pull = bodies[j, 3] / (square * math.sqrt(square))
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        acceleration[i, 0] = ax
        acceleration[i, 1] = ay
        acceleration[i, 2] = az
