"""No wrong acceptance: of 200 changed rewrites none is proved that the executor tells apart (see tests/deep)."""

from __future__ import annotations

from collections import Counter

import pytest
from judging import judge

SEED = 1


@pytest.mark.parametrize(("kernel", "count"), [("saxpy", 100), ("stencil", 100)])
def test_what_is_proved_is_never_told_apart(kernel: str, count: int) -> None:
    judged = list(judge(kernel, kernel, 1, SEED, 0, count))
    assert len(judged) == count
    assert [j for j in judged if j.outcome == "WRONG"] == []
    outcomes = Counter(j.outcome for j in judged)
    assert outcomes["refuted"] > count // 2, outcomes
    assert outcomes["proved"] > 0, "no mutant was harmless: the prover was not asked"
