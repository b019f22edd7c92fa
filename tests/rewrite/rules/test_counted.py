"""Numba's counted loops: what the rules make of them computes the same, for any number of trips."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32

from tests.rewrite.rules.made import Made, differing, made


def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s


def colsum(a, y):
    i = cuda.grid(1)
    if i < a.shape[1]:
        s = float32(0)
        for j in range(a.shape[0]):
            s += a[j, i]
        y[i] = s


@cache
def kernel(name: str) -> Made:
    match name:
        case "conv1d":
            return made(conv1d, "void(float32[::1], float32[::1], float32[::1])")
        case _:
            return made(colsum, "void(float32[:, ::1], float32[::1])")


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@given(trips=st.integers(0, 21), threads=st.integers(1, 5), seed=st.integers(0, 9))
@settings(max_examples=8, deadline=None)
def test_a_convolution_of_any_width_is_the_same(trips: int, threads: int, seed: int) -> None:
    x, w = floats(seed, threads + trips), floats(seed + 1, trips)
    assert differing(kernel("conv1d"), 1, 8, (x, w, np.zeros(threads, np.float32))) == []


@given(rows=st.integers(0, 21), columns=st.integers(1, 5), seed=st.integers(0, 9))
@settings(max_examples=8, deadline=None)
def test_a_sum_of_any_number_of_rows_is_the_same(rows: int, columns: int, seed: int) -> None:
    a = floats(seed, rows, columns)
    assert differing(kernel("colsum"), 1, 8, (a, np.zeros(columns, np.float32))) == []


def test_the_range_machine_and_the_wraparound_are_gone_and_loads_come_first() -> None:
    text = kernel("conv1d").proposal("counted loop, 4x batched")
    turn = text.partition("$MANY:")[2].partition("bra")[0]
    opcodes = [line.split()[0].partition(".")[0] for line in turn.strip().splitlines()]
    assert opcodes[:8] == ["ld"] * 8
    assert opcodes[8:12] == ["fma"] * 4
    assert not {"selp", "shr", "and", "mul"} & set(opcodes)
