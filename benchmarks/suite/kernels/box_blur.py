"""Mean over a square window round each pixel: two nested loops, borders left as they are."""

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (20, 37, 2), "small": (512, 512, 2), "large": (4096, 4096, 3)}
TOLERANCE = 1e-5


def launch(height, width, radius):
    image = np.random.default_rng(0).random((height, width), np.float32)
    grid = (-(-width // 32), -(-height // 8))
    return grid, (32, 8), (image, np.zeros_like(image), np.int64(radius))


def cuda_arguments(image, out, radius):
    return image, out, np.int32(image.shape[0]), np.int32(image.shape[1]), np.int32(radius)


def reference(image, out, radius):
    r = int(radius)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype("f8"), (2 * r + 1, 2 * r + 1))
    out = out.copy()
    out[r:-r, r:-r] = windows.mean(axis=(2, 3))
    return {"out": out}


def work(image, out, radius):
    return {"bytes": image.nbytes + out.nbytes, "fp32": int(2 * radius + 1) ** 2 * image.size}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[:, ::1], int64)", examples=example)
def box_blur(image, out, radius):
    x, y = cuda.grid(2)
    height, width = image.shape
    if radius <= x < width - radius and radius <= y < height - radius:
        total = float32(0)
        for dy in range(-radius, radius + 1):
            for dx in range(-radius, radius + 1):
                total += image[y + dy, x + dx]
        out[y, x] = total / ((2 * radius + 1) * (2 * radius + 1))
