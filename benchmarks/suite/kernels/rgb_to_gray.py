"""Colour image to grey bytes, with weights written as Python numbers: doubles."""

import numpy as np
from numba import cuda, uint8

import hybridcc

SIZES = {"tiny": (13, 41), "small": (1024, 1024), "large": (8192, 8192)}
TOLERANCE = 0


def launch(height, width):
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return (-(-width // 32), -(-height // 8)), (32, 8), (image, np.zeros((height, width), np.uint8))


def cuda_arguments(image, gray):
    return image, gray, np.int32(gray.shape[0]), np.int32(gray.shape[1])


def reference(image, gray):
    r, g, b = (image[..., k].astype("f8") for k in range(3))
    return {"gray": np.floor(0.299 * r + 0.587 * g + 0.114 * b + 0.5 + 1e-12).astype(np.uint8)}


def work(image, gray):
    return {"bytes": image.nbytes + gray.nbytes, "fp64": 4 * gray.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(uint8[:, :, ::1], uint8[:, ::1])", examples=example)
def rgb_to_gray(image, gray):
    x, y = cuda.grid(2)
    if x < gray.shape[1] and y < gray.shape[0]:
        r = image[y, x, 0]
        g = image[y, x, 1]
        b = image[y, x, 2]
        gray[y, x] = uint8(0.299 * r + 0.587 * g + 0.114 * b + 0.5)
