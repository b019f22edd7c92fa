"""Linear equations modulo a power of two: what is found solves them, and what was put in is found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.passes.verify.proof.two_adic import solve


@pytest.mark.parametrize("width", [32, 64])
def test_a_combination_that_exists_is_found(width: int) -> None:
    mask = (1 << width) - 1
    numbers = st.integers(0, mask) | st.integers(0, 40) | st.sampled_from((1 << (width - 1), mask, 12, 96))

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        rows, unknowns = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6))
        columns = [[data.draw(numbers) for _ in range(rows)] for _ in range(unknowns)]
        hidden = [data.draw(st.integers(-8, 8)) for _ in range(unknowns)]
        target = [sum(c * col[i] for c, col in zip(hidden, columns, strict=True)) & mask for i in range(rows)]
        found = solve(columns, target, width)
        assert found is not None
        for i in range(rows):
            assert sum(c * col[i] for c, col in zip(found, columns, strict=True)) & mask == target[i]

    check()


def test_what_does_not_exist_is_not_found_and_constants_come_out_small() -> None:
    assert solve([[2, 4, 6]], [1, 2, 3], 64) is None
    assert solve([[1, 1, 1], [0, 1, 2]], [5, 3, 1], 64) == [5, (1 << 64) - 2]
    assert solve([[4, 8, 12]], [(1 << 64) - 4, (1 << 64) - 8, (1 << 64) - 12], 64) == [(1 << 64) - 1]
