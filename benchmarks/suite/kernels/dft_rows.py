"""The discrete Fourier transform of real rows by its definition, with sines and cosines from a table."""

import math

import numpy as np
from numba import cuda, float32

import hybridcc

SIZES = {"tiny": (2, 40), "small": (64, 512), "large": (512, 512)}
TOLERANCE = 1e-2


def launch(rows, n):
    signal = np.random.default_rng(0).random((rows, n), np.float32)
    angles = 2 * math.pi * np.arange(n) / n
    cosines, sines = np.cos(angles).astype("f4"), np.sin(angles).astype("f4")
    return (-(-n // 128), rows), 128, (signal, cosines, sines, np.zeros((rows, n), "f4"), np.zeros((rows, n), "f4"))


def cuda_arguments(signal, cosines, sines, real, imaginary):
    return signal, cosines, sines, real, imaginary, np.int32(signal.shape[1])


def reference(signal, cosines, sines, real, imaginary):
    found = np.fft.fft(signal.astype("f8"), axis=1)
    return {"real": found.real, "imaginary": found.imag}


def work(signal, cosines, sines, real, imaginary):
    """Two fused multiply-adds for each pair, and the index by an integer addition and a comparison."""
    pairs = signal.size * signal.shape[1]
    return {"bytes": signal.nbytes + real.nbytes + imaginary.nbytes, "fp32": 2 * pairs}


def example():
    return launch(*SIZES["tiny"])


@hybridcc.jit("void(float32[:, ::1], float32[::1], float32[::1], float32[:, ::1], float32[:, ::1])", examples=example)
def dft_rows(signal, cosines, sines, real, imaginary):
    k = cuda.grid(1)
    row = cuda.blockIdx.y
    n = signal.shape[1]
    if k < n:
        re = float32(0)
        im = float32(0)
        for t in range(n):
            at = (k * t) % n
            re += signal[row, t] * cosines[at]
            im -= signal[row, t] * sines[at]
        real[row, k] = re
        imaginary[row, k] = im
