"""Prices of European options by the closed formula, in double precision: a thread for each option."""

import math

import numpy as np
from numba import cuda

import hybridcc

SIZES = {"tiny": (300,), "small": (1 << 18,), "large": (1 << 22,)}
TOLERANCE = 1e-9


def launch(n):
    random = np.random.default_rng(0)
    spot, strike, years = random.uniform(5, 30, n), random.uniform(1, 100, n), random.uniform(0.25, 10, n)
    outputs = np.zeros(n), np.zeros(n)
    return -(-n // 256), 256, (*outputs, spot, strike, years, np.float64(0.02), np.float64(0.3))


def cuda_arguments(call, put, spot, strike, years, rate, volatility):
    return call, put, spot, strike, years, np.int32(spot.size), rate, volatility


def reference(call, put, spot, strike, years, rate, volatility):
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / (volatility * np.sqrt(years))
    d2 = d1 - volatility * np.sqrt(years)
    discounted = strike * np.exp(-rate * years)
    call = spot * _normal(d1) - discounted * _normal(d2)
    return {"call": call, "put": discounted * (1 - _normal(d2)) - spot * (1 - _normal(d1))}


def _normal(d):
    k = 1 / (1 + 0.2316419 * np.abs(d))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * np.exp(-0.5 * d * d) * series
    return np.where(d > 0, 1 - tail, tail)


def work(call, put, spot, *_):
    """Five arrays of doubles; about 60 operations, those of exp and log (about 15 each) among them."""
    return {"bytes": 5 * spot.nbytes, "fp64": 60 * spot.size}


def example():
    return launch(*SIZES["tiny"])


@cuda.jit(device=True)
def normal(d):
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * math.exp(-0.5 * d * d) * series
    if d > 0:
        tail = 1.0 - tail
    return tail


@hybridcc.jit(
    "void(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64, float64)", examples=example
)
def black_scholes(call, put, spot, strike, years, rate, volatility):
    i = cuda.grid(1)
    if i >= spot.shape[0]:
        return
    s = spot[i]
    x = strike[i]
    t = years[i]
    root = math.sqrt(t)
    d1 = (math.log(s / x) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root)
    d2 = d1 - volatility * root
    cnd1 = normal(d1)
    cnd2 = normal(d2)
    discount = math.exp(-rate * t)
    call[i] = s * cnd1 - x * discount * cnd2
    put[i] = x * discount * (1.0 - cnd2) - s * (1.0 - cnd1)
