"""Which times are impossible, on figures of a GPU that are known."""

from __future__ import annotations

import pytest

from hybridcc.runtime.race_roofline import NO_WORK, Work, bounds, impossible

H200 = {"arch": "sm_90", "multiprocessors": 132, "peak_gb_s": 4800.0, "peak_sm_mhz": 1980.0, "l2_bytes": 60 << 20}


def verdict(us, work=NO_WORK, threads=1 << 20, launches=1, **facts):
    return impossible(us, bounds({**H200, **facts}, threads, launches, work))


@pytest.mark.parametrize(
    ("us", "work", "named"),
    [
        (100.0, Work(bytes=480_000_001), "GB/s"),
        (100.0, Work(fp32=3_345_408_000_00), "f32"),
        (100.0, Work(fp64=1_672_704_000_00), "f64"),
        (100.0, Work(int32=1_672_704_000_00), "i32"),
    ],
)
def test_more_than_the_peak_is_impossible_and_the_peak_is_not(us, work, named):
    assert named in verdict(us, work)
    assert not verdict(1.001 * us * (2 if work.fp32 or work.fp64 else 1) * 100, work)
    assert not verdict(us, NO_WORK)


def test_stored_bytes_count_beyond_what_the_cache_keeps():
    gigabyte = 1 << 30
    least = (gigabyte - (60 << 20)) / 4800e9 * 1e6
    assert not verdict(least * 1.001, written_bytes=gigabyte, sets=1)
    assert verdict(least * 0.999, written_bytes=gigabyte, sets=1)
    assert not verdict(0.5, threads=1, written_bytes=60 << 20, sets=1)
    assert verdict(0.5, threads=1, written_bytes=60 << 20, sets=3, launches=30)
    assert not verdict(0.5, threads=1, written_bytes=60 << 20, sets=3, launches=1)


def test_each_warp_issues_an_instruction():
    warps = 1 << 22
    least = warps / (132 * 4 * 1980)
    assert "warp" in verdict(least * 0.99, threads=32 * warps)
    assert not verdict(least * 1.01, threads=32 * warps)


def test_what_is_not_known_bounds_nothing():
    assert not impossible(1e-9, bounds({}, 1 << 30, 1, Work(10**12, 10**12, 10**12)))
    assert not impossible(1e-9, bounds({**H200, "arch": "sm_10", "peak_gb_s": 0}, 1 << 30, 1, NO_WORK))
