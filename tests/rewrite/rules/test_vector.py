"""Vector loads: what the guard lets through is aligned, and what it does not let through is computed all the same."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float64

from tests.rewrite.rules.made import Made, differing, made


def gemv(a, x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float64(0)
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = s


@cache
def kernel() -> Made:
    return made(gemv, "void(float64[:, ::1], float64[::1], float64[::1])")


def test_loads_side_by_side_are_one_behind_a_test_of_both_addresses() -> None:
    text = kernel().proposal("counted loop, 4x batched vector, guarded")
    assert text.count("ld.global.v2.f64") == 4
    assert text.count("// guard: ") == 2
    assert text.count("multiple of 16") == 2


@given(rows=st.integers(1, 3), columns=st.integers(0, 11), seed=st.integers(0, 9))
@settings(max_examples=8, deadline=None)
def test_rows_of_any_length_are_the_same(rows: int, columns: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.standard_normal((rows, columns)), random.standard_normal(columns), np.zeros(rows)
    assert differing(kernel(), 1, 4, values) == []
