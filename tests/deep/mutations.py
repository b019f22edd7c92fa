"""Thousands of mutants before the executor and the prover (tests/proof/judging.py).

    python -m tests.deep.mutations --jobs 16 --seconds 500     # goes on where it was stopped
    python -m tests.deep.mutations --table                     # the table for docs/proof.md, nothing run

One line of JSON per batch; a batch that stands in the file already is not run again. Mutants that come up twice are
counted once. The exit code is 1 if any proof was wrong, or a baseline is not proved equal to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Final, TypeAlias

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "proof")]

Key: TypeAlias = tuple[str, str, int, int, int]
"""Kernel, rewrite, unroll, seed, batch. A batch of -1 is the baseline's proof against itself."""

BATCH: Final = 25
ENOUGH: Final = 10_000
"""Wrong rewrites that the executor tells apart."""
MEMORY_BYTES: Final = 4 << 30
COLUMNS: Final = ("refuted", "unknown", "proved", "invalid", "WRONG")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).with_name("mutations.jsonl"))
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--enough", type=int, default=ENOUGH, help="wrong rewrites after which no batch is started")
    options.add_argument("--seeds", type=int, nargs="+", default=[1])
    options.add_argument("--only", nargs="*", default=[], help="names of rewrites")
    options.add_argument("--batches", type=int, default=400, help=f"at most so many of {BATCH} per rewrite and seed")
    options.add_argument("--seconds", type=float, default=float("inf"), help="start no batch after so long")
    options.add_argument("--table", action="store_true", help="print the table of what was done, and do nothing")
    given = options.parse_args()
    rows = read(given.out)
    if not given.table:
        done = {tuple(row["key"]) for row in rows}
        keys = (k for k in plan(given.seeds, given.batches, given.only) if k not in done)
        campaign(keys, rows, given)
    return report(rows)


def rewrites() -> list[tuple[str, str, int]]:
    """Every right rewrite, and the kernels with barriers and shuffles as they stand."""
    from tests.proof.judging import ITSELF
    from tests.proof.rewrites import FACTS, REWRITES
    from tests.proof.test_kernels import DEEP, QUICK

    listed = [*QUICK, *DEEP]
    others = [name for name in REWRITES if name not in {rewrite for _, rewrite, _ in listed}]
    listed += [(max((k for k in FACTS if name.startswith(k)), key=len), name, 1) for name in others]
    return [*dict.fromkeys(listed), ("reduce_shared", ITSELF, 1), ("warp_sum", ITSELF, 1)]


def plan(seeds: list[int], batches: int, only: list[str]) -> Iterator[Key]:
    """Baselines first, then a batch of each rewrite in turn."""
    chosen = [r for r in rewrites() if not only or r[1] in only or r[0] in only]
    for kernel in dict.fromkeys(kernel for kernel, _, _ in chosen):
        yield kernel, "itself", 1, 0, -1
    for seed in seeds:
        for batch in range(batches):
            for kernel, rewrite, unroll in chosen:
                yield kernel, rewrite, unroll, seed, batch


def campaign(keys: Iterator[Key], rows: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Workers judge, this process alone writes."""
    began = time.monotonic()
    seen = {digest for row in rows for digest in row.get("refuted", ())}
    with ProcessPoolExecutor(given.jobs, initializer=prepare) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            more = time.monotonic() - began < given.seconds and len(seen) < given.enough
            while more and len(running) < given.jobs + 2 and (key := next(keys, None)) is not None:
                running.add(pool.submit(run, key))
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                row = future.result()
                rows.append(row)
                seen |= set(row.get("refuted", ()))
                with given.out.open("a") as file:
                    file.write(json.dumps(row, separators=(",", ":")) + "\n")
                print(
                    *row["key"], row["outcomes"], f"{row['cpu_seconds']} s, {len(seen)} wrong ones in all", flush=True
                )


def prepare() -> None:
    """Terms nest as deep as a kernel's expressions do; a solver that grows must not take the others with it."""
    import resource

    sys.setrecursionlimit(20_000)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(key: Key) -> dict[str, Any]:
    from hybridcc.passes.verify import proving
    from tests.proof.judging import judge, task

    kernel, rewrite, unroll, seed, batch = key
    before = time.process_time()
    if batch < 0:
        itself = proving.run(task(kernel, None))
        outcomes = {type(itself).__name__.lower(): 1}
        return {"key": key, "outcomes": outcomes, "cpu_seconds": round(time.process_time() - before, 1)}
    judged = list(judge(kernel, rewrite, unroll, seed, batch * BATCH, (batch + 1) * BATCH))
    kinds = sorted({j.kind for j in judged})
    return {
        "key": key,
        "outcomes": dict(Counter(j.outcome for j in judged)),
        "kinds": {kind: dict(Counter(j.outcome for j in judged if j.kind == kind)) for kind in kinds},
        "refuted": [j.digest for j in judged if j.outcome == "refuted"],
        "unknown": [[j.kind, j.change, j.why[:80]] for j in judged if j.outcome == "unknown"],
        "wrong": [[j.kind, j.change, j.why] for j in judged if j.outcome == "WRONG"],
        "cpu_seconds": round(time.process_time() - before, 1),
    }


def report(rows: list[dict[str, Any]]) -> int:
    """Two tables, by rewrite and by kind of change; 1 if a proof was wrong or a run void."""
    judged = [row for row in rows if row["key"][4] >= 0]
    void = sorted(
        {row["key"][0] for row in judged}
        - {row["key"][0] for row in rows if row["outcomes"].get("proved") and row["key"][4] < 0}
    )
    by_rewrite: dict[str, Counter[str]] = {}
    by_kind: dict[str, Counter[str]] = {}
    for row in judged:
        kernel, rewrite, unroll, _, _ = row["key"]
        title = f"{kernel} itself" if rewrite == "itself" else f"{rewrite} {unroll}x"
        by_rewrite.setdefault(title, Counter()).update(row["outcomes"])
        for kind, counts in row["kinds"].items():
            by_kind.setdefault("two changes" if " and " in kind or " twice" in kind else kind, Counter()).update(counts)
    distinct = len({digest for row in judged for digest in row["refuted"]})
    seeds = sorted({row["key"][3] for row in judged})
    for title, table in (("rewrite", by_rewrite), ("change", by_kind)):
        print(f"| {title} | " + " | ".join(COLUMNS) + " |\n| --- |" + " --- |" * len(COLUMNS))
        for name, counts in [*sorted(table.items()), ("all", sum(table.values(), Counter()))]:
            print(f"| {name} | " + " | ".join(str(counts[c]) for c in COLUMNS) + " |")
        print()
    seconds = sum(row["cpu_seconds"] for row in judged)
    print(f"{distinct} distinct wrong rewrites told apart by the executor; seeds {seeds}; {seconds:.0f} CPU seconds.")
    if void:
        print(f"VOID, no proof of the baseline against itself: {', '.join(void)}")
    wrong = [entry for row in judged for entry in row["wrong"]]
    for entry in wrong:
        print("WRONG", *entry)
    return 1 if wrong or void else 0


if __name__ == "__main__":
    raise SystemExit(main())
