"""Sobel edge strength of a grey image: nine reads around each pixel, no loop."""

import math

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (19, 35), "small": (1024, 1024), "large": (8192, 8192)}
TOLERANCE = 1e-4


def launch(height, width):
    image = np.random.default_rng(0).random((height, width), np.float32)
    return (-(-width // 32), -(-height // 8)), (32, 8), (image, np.zeros_like(image))


def cuda_arguments(image, out):
    return image, out, np.int32(image.shape[0]), np.int32(image.shape[1])


def reference(image, out):
    a = image.astype("f8")
    right, left = a[:, 2:], a[:, :-2]
    gx = (right - left)[:-2] + 2 * (right - left)[1:-1] + (right - left)[2:]
    down, up = a[2:], a[:-2]
    gy = (down - up)[:, :-2] + 2 * (down - up)[:, 1:-1] + (down - up)[:, 2:]
    out = out.copy()
    out[1:-1, 1:-1] = np.sqrt(gx * gx + gy * gy)
    return {"out": out}


def work(image, out):
    return {"bytes": image.nbytes + out.nbytes, "fp32": 16 * image.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1])", examples=example)
def sobel(image, out):
    x, y = cuda.grid(2)
    if 0 < x < image.shape[1] - 1 and 0 < y < image.shape[0] - 1:
        gx = (
            image[y - 1, x + 1] + 2 * image[y, x + 1] + image[y + 1, x + 1]
            - image[y - 1, x - 1] - 2 * image[y, x - 1] - image[y + 1, x - 1]
        )  # fmt: skip
        gy = (
            image[y + 1, x - 1] + 2 * image[y + 1, x] + image[y + 1, x + 1]
            - image[y - 1, x - 1] - 2 * image[y - 1, x] - image[y - 1, x + 1]
        )  # fmt: skip
        out[y, x] = math.sqrt(gx * gx + gy * gy)
