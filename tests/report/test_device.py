"""A device may find what the executor did not: such a variant is out, with its own code, and never selected."""

from dataclasses import replace

from hybridcc.records import BASELINE, Speed
from hybridcc.refining import with_speed
from hybridcc.selection import select
from tests.report.made import FASTER, TESTED, candidate, machine


def test_a_deviation_on_the_device_is_a_failed_candidate():
    speed = Speed("inconclusive", "refuted on the device", device="H200", deviation="byte 4 of buffer 0 differs")
    out = with_speed(candidate(0, TESTED), speed)
    kept = replace(candidate(1, TESTED), speed=FASTER)
    selection, settled = select(machine(), [out, kept], "tested", "measured", ())
    assert (settled[0].fate.kind, settled[0].fate.code) == ("failed", "REFUTED_ON_DEVICE")
    assert "byte 4" in settled[0].fate.detail
    assert selection.variant == "r0-1"
    selection, _ = select(machine(), [out], "tested", "proved", ())
    assert selection.variant == BASELINE
