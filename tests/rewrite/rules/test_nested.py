"""Loops in loops: the inner one is counted, and what is around it stays."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32

from tests.rewrite.rules.made import Made, differing, made


def blur(image, out, radius):
    x, y = cuda.grid(2)
    rows, columns = image.shape
    if radius <= y < rows - radius and radius <= x < columns - radius:
        s = float32(0)
        for dy in range(-radius, radius + 1):
            for dx in range(-radius, radius + 1):
                s += image[y + dy, x + dx]
        out[y, x] = s


def layers(old, new):
    """Stores in every trip, which unrolling leaves in their order; the last trip of an odd number is one by itself."""
    x = cuda.grid(1)
    if x < old.shape[1]:
        for z in range(1, old.shape[0] - 1):
            new[z, x] = (old[z - 1, x] + old[z + 1, x]) * float32(0.5) - old[z, x]


@cache
def kernel(name: str) -> Made:
    if name == "blur":
        return made(blur, "void(float32[:, ::1], float32[:, ::1], int64)", 4)
    return made(layers, "void(float32[:, ::1], float32[:, ::1])", 2)


@given(radius=st.integers(-1, 2), seed=st.integers(0, 9))
@settings(max_examples=4, deadline=None)
def test_a_blur_of_any_radius_is_the_same(radius: int, seed: int) -> None:
    """With one below zero the guard fails, and the loops make no trips."""
    image = np.random.default_rng(seed).random((6, 6), np.float32)
    assert differing(kernel("blur"), (1, 1), (6, 6), (image, np.zeros_like(image), radius)) == []


@given(rows=st.integers(1, 13), columns=st.integers(1, 4), same=st.booleans())
@settings(max_examples=8, deadline=None)
def test_layers_are_the_same_even_where_both_arrays_are_one(rows: int, columns: int, same: bool) -> None:
    old = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) ** 2
    assert differing(kernel("layers"), 1, 4, (old, old if same else np.zeros_like(old))) == []


def test_the_inner_loop_is_under_a_guard_that_the_radius_is_not_negative() -> None:
    text = kernel("blur").proposal("counted loop, 4x batched, guarded")
    assert "// guard: %in" in text
    assert ">= 0" in text
    turn = text.partition("$MANY:")[2].partition("bra")[0]
    assert "shr" not in turn
    assert turn.count("ld.global.f32") == 4
