"""The report says what happened, fits a screen, and prints no number that nobody measured."""

import io
import json

import pytest
from rich.console import Console

from hybridcc.manifest import files_of, manifest_of
from hybridcc.report.terminal import show
from hybridcc.runtime.bundle import to_json
from tests.report.made import FASTER, REFUTED, TESTED, candidate, kernel_record


def printed(record, width=100) -> str:
    out = io.StringIO()
    manifest = json.loads(to_json(manifest_of(record)))
    show(manifest, Console(file=out, width=width, no_color=True), "out/conv1d")
    return out.getvalue()


def test_it_fits_one_screen_and_says_the_verdict_first():
    text = printed(kernel_record(candidate(0, REFUTED), candidate(1, TESTED), candidate(2, None)))
    lines = text.splitlines()
    assert len(lines) <= 40
    assert lines[0].startswith("conv1d")
    assert "sm_80, sm_90: tested, not measured: r0-1 selected" in lines[1]
    for said in (
        "r0-0: failed [REFUTED] refuted: y[3] is 1.0",
        "r0-1: chosen [UNMEASURED] tested(bitwise), 61/75 inputs",
        "r0-2: failed [NAME_COLLISION]",
        "inputs made from types",
        "4 left out",
        "40 (+10)",
        "out/conv1d",
    ):
        assert said in text


def test_nothing_unmeasured_is_a_number():
    text = printed(kernel_record(candidate(0, TESTED)))
    assert "not_measured (no sm_80 GPU here)" in text
    assert "x [" not in text
    assert "5.50x [5.40, 5.60] H200" in printed(kernel_record(candidate(0, TESTED, FASTER), how="measured"))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_any_width(width):
    text = printed(kernel_record(candidate(0, TESTED)), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "UNMEASURED" in text


def test_failures_are_shown_with_their_codes():
    record = kernel_record(failures=(("rewrite", "RECORDING_MISMATCH", "no answer is recorded for prompt 12ab"),))
    text = printed(record)
    assert "rewrite failed (RECORDING_MISMATCH)" in text
    assert "rewrite failed [RECORDING_MISMATCH]: no answer is recorded" in text


def test_the_manifest_is_json_and_names_every_file():
    record = kernel_record(candidate(0, TESTED), candidate(1, REFUTED))
    files = files_of(record)
    assert {"baseline.sm_80.ptx", "baseline.sm_90.cubin", "selected.sm_80.cubin", "r0-1.sm_90.ptx"} <= set(files)
    assert to_json(manifest_of(record)) == to_json(json.loads(to_json(manifest_of(record))))
