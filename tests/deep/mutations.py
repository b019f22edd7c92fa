"""Thousands of mutants before the executor and the prover; resumable, one line of JSON per batch.

    python tests/deep/mutations.py --out tests/deep/mutations.jsonl --batches 5 --seeds 1 2 3

A batch that stands in the file already is not run again. The exit code is 1 if any proof was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.setrecursionlimit(20_000)
sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "proof")]

REWRITES = (
    ("saxpy", "saxpy", 1),
    ("stencil", "stencil", 1),
    ("mandelbrot", "mandelbrot", 1),
    ("mandelbrot", "mandelbrot", 4),
    ("colsum", "colsum", 1),
    ("colsum", "colsum", 4),
    ("conv1d", "conv1d", 1),
    ("conv1d", "conv1d", 4),
    ("prefix", "prefix", 1),
    ("prefix", "prefix_forwarded", 1),
    ("dot_rows", "dot_rows", 4),
    ("dot_rows", "dot_rows_pipelined", 1),
    ("matmul_naive", "matmul_naive", 1),
    ("nbody", "nbody", 1),
)
BATCH = 25


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).with_name("mutations.jsonl"))
    options.add_argument("--batches", type=int, default=4, help=f"batches of {BATCH} mutants per rewrite and seed")
    options.add_argument("--seeds", type=int, nargs="+", default=[1])
    options.add_argument("--only", nargs="*", default=[], help="names of rewrites")
    options.add_argument("--seconds", type=float, default=float("inf"), help="start no batch after so long")
    given = options.parse_args()
    done = read(given.out)
    began = time.monotonic()
    for seed in given.seeds:
        for batch in range(given.batches):
            for kernel, rewrite, unroll in REWRITES:
                key = [kernel, rewrite, unroll, seed, batch]
                if (given.only and rewrite not in given.only) or any(row["key"] == key for row in done):
                    continue
                if time.monotonic() - began > given.seconds:
                    return report(done)
                row = run(kernel, rewrite, unroll, seed, batch)
                done.append({"key": key, **row})
                with given.out.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
                print(key, row["outcomes"], f"{row['cpu_seconds']} s", flush=True)
    return report(done)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(kernel: str, rewrite: str, unroll: int, seed: int, batch: int) -> dict[str, Any]:
    from tests.proof.judging import judge

    before = time.process_time()
    judged = list(judge(kernel, rewrite, unroll, seed, batch * BATCH, (batch + 1) * BATCH))
    kinds = sorted({j.kind for j in judged})
    return {
        "outcomes": dict(Counter(j.outcome for j in judged)),
        "kinds": {kind: dict(Counter(j.outcome for j in judged if j.kind == kind)) for kind in kinds},
        "wrong": [[j.kind, j.change, j.why] for j in judged if j.outcome == "WRONG"],
        "cpu_seconds": round(time.process_time() - before, 1),
    }


def report(rows: list[dict[str, Any]]) -> int:
    """A table by rewrite; 1 if a proof was wrong."""
    totals: dict[tuple[str, int], Counter[str]] = {}
    for row in rows:
        _, rewrite, unroll, _, _ = row["key"]
        totals.setdefault((rewrite, unroll), Counter()).update(row["outcomes"])
    columns = ("refuted", "unknown", "proved", "invalid", "WRONG")
    print("| rewrite | " + " | ".join(columns) + " |\n| --- |" + " --- |" * len(columns))
    for (rewrite, unroll), counts in sorted(totals.items()):
        print(f"| {rewrite} {unroll}x | " + " | ".join(str(counts[c]) for c in columns) + " |")
    whole = sum(totals.values(), Counter())
    print("| all | " + " | ".join(str(whole[c]) for c in columns) + " |")
    return 1 if whole["WRONG"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
