"""Every right rewrite that is proved, against its baseline on a thousand launches drawn at random.

    python -m tests.deep.executions --jobs 16      # goes on where it was stopped
    python -m tests.deep.executions --table        # what was done

One line of JSON per rewrite and seed, 100 launches each. The exit code is 1 if a launch told two apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, TypeAlias

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "proof")]

Key: TypeAlias = tuple[str, str, str, int, int]
"""Frontend, kernel, rewrite, unroll, seed."""

LAUNCHES: Final = 100
TRIES: Final = 8
"""Launches drawn for one that both sides run: the baseline faults, or takes long, on some."""
SEEDS: Final = range(1, 11)


def main() -> int:
    from tests.deep.mutations import prepare, read
    from tests.deep.seeds import GUARDED, ITSELF, plan

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).with_name("executions.jsonl"))
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--only", nargs="*", default=[], help="names of kernels")
    options.add_argument("--seconds", type=float, default=float("inf"), help="start nothing after so long")
    options.add_argument("--table", action="store_true", help="print the table of what was done, and do nothing")
    given = options.parse_args()
    rows = read(given.out)
    if given.table:
        return report(rows)
    done = {tuple(row["key"]) for row in rows}
    keys = [key for key in plan(list(SEEDS), given.only) if key[2] not in (ITSELF, GUARDED) and key not in done]
    until = time.monotonic() + given.seconds
    with ProcessPoolExecutor(given.jobs, initializer=prepare) as pool:
        for future in as_completed([pool.submit(run, key, until) for key in keys]):
            row = future.result()
            if row is None:
                continue
            rows.append(row)
            with given.out.open("a") as file:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
            print(*row["key"], row["launches"], row["verdict"], f"{row['cpu_seconds']} s", flush=True)
    return report(rows)


def run(key: Key, until: float) -> dict[str, Any] | None:
    """One rewrite on LAUNCHES random launches of one seed; None if it is too late to begin."""
    if time.monotonic() > until:
        return None
    from hybridcc.passes.verify.testing import examine
    from tests.proof import rewrites, rewrites_mlir
    from tests.proof.judging import at_random

    frontend, kernel, rewrite, unroll, seed = key
    before = time.process_time()
    mlir = frontend == "numba-cuda-mlir"
    reference = at_random(kernel, seed, mlir=mlir)
    text = rewrites_mlir.candidate(kernel, unroll) if mlir else rewrites.candidate(rewrite, unroll)
    most, found = LAUNCHES, examine(reference, text, most=LAUNCHES)
    while found.launches and found.launches < LAUNCHES and most < TRIES * LAUNCHES:
        most += LAUNCHES - found.launches
        found = examine(reference, text, most=most)
    return {
        "key": key,
        "verdict": type(found.verdict).__name__,
        "why": getattr(found.verdict, "counterexample", getattr(found.verdict, "reason", "")),
        "launches": found.launches,
        "left_out": dict(found.skipped),
        "cpu_seconds": round(time.process_time() - before, 1),
    }


def report(rows: list[dict[str, Any]]) -> int:
    """A table; 1 if a launch told two apart."""
    launches: dict[str, Counter[str]] = {}
    for row in rows:
        frontend, _, rewrite, unroll, _ = row["key"]
        counts = launches.setdefault(f"{frontend} | {rewrite} {unroll}x", Counter())
        counts.update({"launches": row["launches"], "seeds": 1, "left out": sum(row["left_out"].values())})
    print("| front end | rewrite | seeds | random launches, equal on all | left out |\n| --- | --- | --- | --- | --- |")
    for name, counts in sorted(launches.items()):
        print(f"| {name} | {counts['seeds']} | {counts['launches']} | {counts['left out']} |")
    bad = [row for row in rows if row["verdict"] != "Tested"]
    for row in bad:
        print(row["verdict"].upper(), *row["key"], row["why"])
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
