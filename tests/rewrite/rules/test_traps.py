"""Where a rule must hold back: wraparounds that matter, exits that hang on data, stores that loads may not pass."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32

from hybridcc.passes.rewrite.rules.subject import Unrecognised
from tests.rewrite.rules.made import Made, compiled, differing, made, of_kernel


def behind(x, y, n):
    """x[j - 1] is the last element in the first trip."""
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for j in range(n):
            s = s * float32(0.5) + x[j - 1]
        y[i] = s


def shifted(x, y, begin, end):
    """Indices that begin wherever the caller says, below zero too."""
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = 0
        for j in range(begin, end):
            s = s * 3 + x[j]
        y[i] = s


def stepping(x, y, begin, end, step):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = 0
        for j in range(begin, end, step):
            s = s * 3 + x[j]
        y[i] = s


def downwards(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = 0
        for j in range(x.shape[0] - 1, -1, -1):
            s = s * 3 + x[j]
        y[i] = s


def until(x, y):
    """It stops at the first zero."""
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = 0
        for j in range(x.shape[0]):
            if x[j] == 0:
                break
            s = s * 3 + x[j]
        y[i] = s


def prefix(a):
    """Each trip loads what the one before stored."""
    i = cuda.grid(1)
    if i < a.shape[0]:
        for j in range(1, a.shape[1]):
            a[i, j] += a[i, j - 1]


def spread(a, b):
    """``a`` and ``b`` may be one array: what is stored may be what the next trip loads."""
    i = cuda.grid(1)
    if i == 0:
        for j in range(b.shape[0] - 3):
            b[j + 3] = a[j] * float32(0.5) + float32(1)


@cache
def kernel(name: str) -> Made:
    match name:
        case "behind":
            return made(behind, "void(float32[::1], float32[::1], int64)")
        case "shifted":
            return made(shifted, "void(int64[::1], int64[::1], int64, int64)")
        case "stepping":
            return made(stepping, "void(int64[::1], int64[::1], int64, int64, int64)")
        case "downwards":
            return made(downwards, "void(int64[::1], int64[::1])")
        case "prefix":
            return made(prefix, "void(float32[:, ::1])")
        case _:
            return made(spread, "void(float32[::1], float32[::1])")


def numbers(count: int) -> np.ndarray:
    return np.arange(7, 7 + count, dtype=np.int64)


@given(n=st.integers(0, 13))
@settings(max_examples=6, deadline=None)
def test_an_index_that_is_negative_once_still_counts_from_the_end(n: int) -> None:
    x = np.arange(1, 14, dtype=np.float32)
    assert differing(kernel("behind"), 1, 4, (x, np.zeros(3, np.float32), n)) == []


@given(begin=st.integers(-12, 12), end=st.integers(-12, 12))
@settings(max_examples=10, deadline=None)
def test_a_range_that_begins_below_zero_counts_from_the_end(begin: int, end: int) -> None:
    assert differing(kernel("shifted"), 1, 4, (numbers(12), np.zeros(3, np.int64), begin, end)) == []


def test_a_wraparound_that_may_matter_is_dropped_under_a_guard_alone() -> None:
    found = kernel("shifted").proposals
    dropped = [p for p in found if p.rule.startswith("counted") and "and.b64" not in _one(p.text)]
    assert dropped
    assert all("guard: %in" in p.text for p in dropped)
    assert any("guarded" not in p.rule for p in found)


def _one(text: str) -> str:
    return text.partition("$ONE:")[2].partition("bra")[0]


@given(begin=st.integers(-9, 9), end=st.integers(-9, 9), step=st.sampled_from([-3, -2, -1, 1, 2, 3]))
@settings(max_examples=10, deadline=None)
def test_steps_of_either_sign_are_the_same_if_the_rules_know_them(begin: int, end: int, step: int) -> None:
    try:
        known = kernel("stepping")
    except Unrecognised:
        return
    assert differing(known, 1, 4, (numbers(12), np.zeros(3, np.int64), begin, end, step)) == []


@given(count=st.integers(0, 13))
@settings(max_examples=6, deadline=None)
def test_a_loop_that_counts_down_is_the_same(count: int) -> None:
    assert differing(kernel("downwards"), 1, 4, (numbers(count), np.zeros(3, np.int64))) == []


def test_a_loop_that_data_ends_is_no_counted_one() -> None:
    region = compiled(until, "void(int64[::1], int64[::1])")
    try:
        found = of_kernel(region)
    except Unrecognised:
        return
    assert [p.rule for p in found.proposals] == ["simplified in place"]
    for zero in (0, 2, 5):
        x = numbers(6)
        x[zero] = 0
        assert differing(found, 1, 4, (x, np.zeros(3, np.int64))) == []


@given(rows=st.integers(1, 3), columns=st.integers(0, 14))
@settings(max_examples=6, deadline=None)
def test_what_a_trip_stores_the_next_one_loads(rows: int, columns: int) -> None:
    a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    assert differing(kernel("prefix"), 1, 4, (a,)) == []


@given(count=st.integers(3, 17))
@settings(max_examples=6, deadline=None)
def test_no_load_passes_a_store_of_an_array_that_may_be_the_same(count: int) -> None:
    a = np.arange(count, dtype=np.float32)
    assert differing(kernel("spread"), 1, 1, (a, a)) == []


@pytest.mark.parametrize("name", ["prefix", "spread"])
def test_a_turn_keeps_loads_and_stores_in_their_order(name: str) -> None:
    for proposal in kernel(name).proposals:
        turn = proposal.text.partition("$MANY:")[2].partition("bra")[0]
        accesses = "".join(line.split()[0][:2] for line in turn.splitlines() if line.strip()[:3] in ("ld.", "st."))
        trip = {"prefix": "ldldst", "spread": "ldst"}[name]
        assert accesses == trip * accesses.count("st")
