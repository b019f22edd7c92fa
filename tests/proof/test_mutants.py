"""No wrong acceptance: of 200 changed rewrites none is proved that the executor tells apart (see tests/deep)."""

from __future__ import annotations

from collections import Counter

import pytest
from judging import ITSELF, judge

SEED = 1


@pytest.mark.parametrize(("kernel", "count"), [("saxpy", 100), ("stencil", 100)])
def test_what_is_proved_is_never_told_apart(kernel: str, count: int) -> None:
    judged = list(judge(kernel, kernel, 1, SEED, 0, count))
    assert len(judged) == count
    assert [j for j in judged if j.outcome == "WRONG"] == []
    outcomes = Counter(j.outcome for j in judged)
    assert outcomes["refuted"] > count // 2, outcomes
    assert outcomes["proved"] > 0, "no mutant was harmless: the prover was not asked"


@pytest.mark.parametrize(
    ("kernel", "rewrite", "kind", "count"),
    [
        ("reduce_shared", ITSELF, "barrier", 12),
        ("reduce_shared", ITSELF, "dropped", 6),
        ("warp_sum", "warp_sum", "shuffle", 16),
    ],
)
def test_barriers_and_shuffles_are_judged_by_races_and_by_barriers_too(
    kernel: str, rewrite: str, kind: str, count: int
) -> None:
    """Removed, moved and narrowed barriers leave the outputs of the executor's own schedule alone, now and then."""
    judged = list(judge(kernel, rewrite, 1, SEED, 0, count, frozenset((kind,))))
    assert len(judged) == count
    assert [j for j in judged if j.outcome == "WRONG"] == []
    refuted = [j for j in judged if j.outcome == "refuted"]
    assert len(refuted) > count // 2, judged
    assert kind != "barrier" or any("DATA_RACE" in j.why for j in refuted)
    assert kind != "barrier" or any(j.why.startswith("barriers") for j in refuted)
