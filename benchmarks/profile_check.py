"""Profiles on a GPU, held against the executor's counts, the clock and Nsight Compute.

    python benchmarks/profile_check.py --out FOLDER     on a machine with a GPU
    python benchmarks/profile_check.py --rehearse       all but the GPU

For each kernel: block counts of the clone on the GPU against the executor's, exactly; at a larger size the overhead of
counting and of reading clocks; and the share of each region by model, by clock and, where ``ncu`` reads counters, by
its samples. Medians of 7 launches, arguments restored before each, clocks as found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import ROOT, facts, use_checkout

use_checkout()
sys.setrecursionlimit(20_000)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path)
    options.add_argument("--rehearse", action="store_true")
    options.add_argument("--only", nargs="*", default=[])
    options.add_argument("--raw", action="store_true", help="keep each instruction's samples in ncu-KERNEL.txt")
    given = options.parse_args()
    from profile_kernels import cases

    rows: list[dict[str, Any]] = []
    large = cases(8)
    for name, small in cases(1).items():
        if given.only and name not in given.only:
            continue
        began = time.monotonic()
        try:
            row = {"kernel": name, **check(name, small, large[name], given)}
        except Exception as error:  # the other kernels still count; the row says what failed
            row = {"kernel": name, "failed": f"{type(error).__name__}: {error}"[:400]}
        rows.append({**row, "seconds": round(time.monotonic() - began, 1)})
        print(json.dumps(rows[-1]), flush=True)
    if not given.only:
        rows.append({"kernel": "two_loops.ptx", **longer_is_colder(given.rehearse)})
        print(json.dumps(rows[-1]), flush=True)
    result = {"machine": facts(), "kernels": rows}
    if given.out is not None:
        (given.out / "profile_check.json").write_text(json.dumps(result, indent=1) + "\n")
    return int(any("failed" in row or row["counts_equal"] is False for row in rows))


def check(name: str, small: tuple, large: tuple, given: argparse.Namespace) -> dict[str, Any]:
    from hybridcc.passes.profile.executed import executed
    from hybridcc.passes.profile.hot import hot_regions

    kernel, launch = compiled(small)
    exact = executed(kernel, launch)
    row: dict[str, Any] = {
        "executed": {h.region.id: round(h.share, 3) for h in hot_regions(kernel, exact)},
        "estimated": {h.region.id: round(h.share, 3) for h in hot_regions(kernel, estimated(kernel))},
        "counts_equal": None,
    }
    return row if given.rehearse else {**row, **on_device(name, kernel, launch, exact, large, given)}


def longer_is_colder(rehearse: bool) -> dict[str, Any]:
    """The kernel of tests/profile/two_loops.ptx, whose loop of three trips is the longer text: is the other first?"""
    from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.profiling import profile

    ptx = (ROOT / "tests" / "profile" / "two_loops.ptx").read_text()
    arguments = (
        Argument("out", ArrayType("float32", 1), (Field("data", ".u64"),)),
        Argument("n", ScalarType("uint32"), (Field("value", ".u32"),)),
    )
    kernel = Kernel("k", "k", ptx, "sm_90", "ptx", arguments)
    launch = Launch((1, 1, 1), (256, 1, 1), (np.zeros(256, np.float32), np.uint32(5)))
    row: dict[str, Any] = {"counts_equal": None}
    for origin in ("executed", "estimated") if rehearse else ("measured", "executed", "estimated"):
        hot = profile(kernel, launch, origin).hot
        row[origin] = {h.region.id: round(h.share, 3) for h in hot}
        row[f"{origin}_right"] = "2000" in hot[0].region.text
    return row


def compiled(case: tuple) -> tuple[Any, Any]:
    from hybridcc.frontends.numba import compile
    from hybridcc.passes.verify.launch import Launch, as_shape

    function, signature, grid, block, values = case
    return compile(function, signature, "sm_90"), Launch(as_shape(grid), as_shape(block), values)


def estimated(kernel: Any) -> Any:
    from hybridcc.profiling import profile

    return profile(kernel, None, "estimated").best


def on_device(name: str, kernel: Any, launch: Any, exact: Any, large: tuple, given: Any) -> dict[str, Any]:
    from hybridcc.passes.profile.hot import hot_regions
    from hybridcc.passes.regions import find
    from hybridcc.runtime import device
    from hybridcc.runtime.profiling import measure

    regions = find(kernel)
    here = measure(kernel, launch, device.current(), regions, every=1)
    _, big = compiled(large)
    found = measure(kernel, big, device.current(), regions, every=1)
    row = {
        "counts_equal": here.profile.counts == exact.counts,
        "microseconds": round(1e6 * found.seconds, 2),
        "counting_overhead": round(found.counting_overhead, 3),
        "timing_overhead": None if found.timing_overhead is None else round(found.timing_overhead, 3),
        "modelled": {h.region.id: round(h.share, 3) for h in hot_regions(kernel, found.profile)},
        "clock": {region: round(share, 3) for region, share in found.profile.shares.items()},
    }
    sampled = measure(kernel, big, device.current(), (), every=16)
    total, part = sum(found.profile.counts), sum(sampled.profile.counts)
    row["sampled_overhead"] = round(sampled.counting_overhead, 3)
    row["sampled_count_ratio"] = round(part / total, 4) if total else None
    row["ncu"], row["ncu_own"] = by_nsight(kernel, big, regions, given, name)
    return row


def by_nsight(kernel: Any, launch: Any, regions: Any, given: Any, name: str) -> tuple[Any, ...]:
    """Each region's part of all samples, and of those in which no other warp was served in its place."""
    from hybridcc.errors import ProfileError
    from hybridcc.runtime import nsight

    if shutil.which("ncu") is None:
        return "not measured: no ncu", ""
    try:
        code, samples = nsight.run(kernel, launch, "sm_90")
        if given.raw and given.out is not None:
            _keep(given.out / f"ncu-{name}.txt", code, samples)
        both = [(one, nsight.by_block(code, one)) for one in (samples, samples.own())]
    except ProfileError as error:
        return f"not measured: {error.what}", ""
    return tuple({r.id: round(nsight.share_of(counts, r, sum(one.counts)), 3) for r in regions} for one, counts in both)


def _keep(path: Path, code: Any, samples: Any) -> None:
    """For each machine instruction its samples and commonest stall, what ncu shows, and our block and text."""
    rows = itertools.zip_longest(
        samples.counts, samples.contended, samples.stalls, samples.sass, code.blocks, code.text, fillvalue="-"
    )
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
