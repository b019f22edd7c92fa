"""Linear equations modulo 2^width, which is no field: a pivot is an entry with the fewest factors of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

_NONE: Final = (1 << 64) - 1


def solve(columns: Sequence[Sequence[int]], target: Sequence[int], width: int) -> list[int] | None:
    """Coefficients c with ``Σ c[k] * columns[k] == target`` modulo 2^width in every row, or None.

    Earlier columns are preferred, columns that are not needed get 0, and of several coefficients that do equally
    well the one nearest to zero is taken. ``width`` is at most 64.
    """
    import numpy as np

    matrix = np.array([*columns, target], dtype=np.uint64).T.copy() << np.uint64(64 - width)
    pivots = _eliminate(matrix, len(columns))
    if matrix[len(pivots) :, -1].any():
        return None
    coefficients = [0] * len(columns)
    for row in range(len(pivots) - 1, -1, -1):
        column, valuation = pivots[row]
        rest = int(matrix[row, -1])
        for other, c in enumerate(coefficients):
            if c and other != column:
                rest = (rest - int(matrix[row, other]) * c) & _NONE
        if rest & ((1 << valuation) - 1):
            return None
        size = 1 << max(width - max(valuation - (64 - width), 0), 1)
        c = (rest >> valuation) % size
        coefficients[column] = (c - size if c > size // 2 else c) & ((1 << width) - 1)
    return coefficients


def _eliminate(matrix: np.ndarray, unknowns: int) -> list[tuple[int, int]]:
    """Bring the matrix to echelon form in place; (column, factors of two) of each row's pivot."""
    import numpy as np

    free = list(range(unknowns))
    pivots: list[tuple[int, int]] = []
    while len(pivots) < len(matrix) and free:
        top = len(pivots)
        part = matrix[top:, free].T
        low = part & (~part + np.uint64(1))
        low[low == 0] = _NONE
        least = int(low.argmin())
        lowest = int(low.flat[least])
        if lowest == _NONE:
            break
        column = free.pop(least // part.shape[1])
        row = top + least % part.shape[1]
        matrix[[top, row]] = matrix[[row, top]]
        valuation = lowest.bit_length() - 1
        odd = int(matrix[top, column]) >> valuation
        matrix[top] *= np.uint64(pow(odd, -1, 1 << 64))
        factors = matrix[:, column] >> np.uint64(valuation)
        # Rows above may hold an entry with fewer factors of two: back-substitution takes care of those.
        factors[(matrix[:, column] & np.uint64(lowest - 1)) != 0] = 0
        factors[top] = 0
        matrix -= factors[:, None] * matrix[top]
        pivots.append((column, valuation))
    return pivots
