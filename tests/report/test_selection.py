"""Selection: every mix of verdicts and speeds leaves each candidate one fate, and doubts leave the baseline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.passes.verdict import Proved
from hybridcc.records import BASELINE, PENDING
from hybridcc.selection import accepted, select
from tests.report.made import (
    FASTER,
    INCONCLUSIVE,
    NOT_MEASURED,
    PROVED,
    REFUTED,
    SAME,
    SLOWER,
    TESTED,
    UNKNOWN,
    candidate,
    machine,
)

VERDICTS = (TESTED, REFUTED, UNKNOWN, PROVED, Proved("c", ("contraction",)), None)
SPEEDS = (FASTER, SLOWER, SAME, INCONCLUSIVE, NOT_MEASURED)

candidates = st.lists(
    st.tuples(st.sampled_from(VERDICTS), st.sampled_from(SPEEDS), st.sampled_from((0, 8))), max_size=4
)


@given(candidates, st.sampled_from(("proved", "tested")), st.sampled_from(("measured", "proved", "transfer")))
def test_every_candidate_has_one_fate_and_only_accepted_ones_are_chosen(drawn, accept, how):
    given_ = [candidate(i, *each) for i, each in enumerate(drawn)]
    selection, settled = select(machine(), given_, accept, how, ())
    assert [c.name for c in settled] == [c.name for c in given_]
    assert all(c.fate is not PENDING and c.fate.code != "PENDING" for c in settled)
    chosen = [c for c in settled if c.fate.kind == "chosen"]
    assert [c.name for c in chosen] == ([] if selection.variant == BASELINE else [selection.variant])
    for c in chosen:
        assert c.evidence is not None
        assert accepted(c.evidence.verdict, accept)
        if how != "proved" or selection.measured:
            assert c.speed.kind == "faster"


@pytest.mark.parametrize(
    ("verdict", "accept", "how", "variant", "code"),
    [
        (TESTED, "proved", "measured", BASELINE, "BELOW_POLICY"),
        (TESTED, "tested", "measured", BASELINE, "NOT_MEASURED"),
        (TESTED, "tested", "proved", "r0-0", "UNMEASURED"),
        (PROVED, "proved", "proved", "r0-0", "UNMEASURED"),
        (TESTED, "tested", "transfer", BASELINE, "NO_TRANSFER"),
        (Proved("c", ("contraction",)), "proved", "proved", BASELINE, "BELOW_POLICY"),
        (REFUTED, "tested", "proved", BASELINE, "NONE_VERIFIED"),
        (UNKNOWN, "tested", "proved", BASELINE, "NONE_VERIFIED"),
        (None, "tested", "proved", BASELINE, "NONE_VERIFIED"),
    ],
)
def test_without_a_measurement(verdict, accept, how, variant, code):
    selection, _ = select(machine(), [candidate(0, verdict)], accept, how, ())
    assert (selection.variant, selection.code, selection.measured) == (variant, code, False)


def test_the_first_line_says_what_to_do():
    selection, _ = select(machine(), [candidate(0, TESTED)], "proved", "measured", ())
    assert "--accept tested" in selection.reason
    selection, _ = select(machine(), [candidate(0, PROVED), candidate(1, PROVED)], "proved", "measured", ())
    assert selection.reason.startswith("proved, not measured: baseline selected, 2 variants carried; ")
    assert "--select proved" in selection.reason


def test_the_fastest_wins_and_ties_go_to_the_baseline():
    raced = [candidate(0, TESTED, SAME), candidate(1, TESTED, FASTER), candidate(2, TESTED, SLOWER)]
    selection, settled = select(machine(), raced, "tested", "measured", ())
    assert selection.variant == "r0-1"
    assert selection.measured
    assert [c.fate.kind for c in settled] == ["tie", "chosen", "slower"]
    selection, settled = select(machine(), [raced[0]], "tested", "measured", ())
    assert selection.variant == BASELINE
    assert settled[0].fate.kind == "tie"


def test_an_unmeasured_variant_that_spills_more_is_not_taken():
    selection, settled = select(machine(), [candidate(0, TESTED, spills=8)], "tested", "proved", ())
    assert (selection.variant, selection.code) == (BASELINE, "MORE_SPILLS")
    selection, settled = select(
        machine(), [candidate(0, TESTED, spills=8), candidate(1, TESTED)], "tested", "proved", ()
    )
    assert selection.variant == "r0-1"
    assert settled[0].fate.kind == "skipped"
