"""Every right rewrite of tests/proof over ten seeds: a proof that depends on luck is half a proof.

    python -m tests.deep.seeds --jobs 8 --seconds 500 --out seeds.jsonl     # goes on where it was stopped
    python -m tests.deep.seeds --table --out seeds.jsonl                    # writes docs/proof.md's table, nothing run

Every baseline against itself is a case too: its time is added to that of its rewrites. One line of JSON per proof.
Needs hybridcc, pytest, bitwuzla and z3, and no GPU. Seeds come in turn, so that a run cut short has tried every
rewrite. The exit code is 1 if a proof was not found.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Final, TypeAlias

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "proof")]

Key: TypeAlias = tuple[str, str, str, int, int]
"""Frontend, kernel, rewrite, unroll, seed."""

ITSELF: Final = "itself"
GUARDED: Final = "guarded"
"""The kernel's region rewritten under a guard, through the splicer."""
DOCS: Final = Path(__file__).parents[2] / "docs" / "proof.md"
MARKS: Final = ("<!-- seeds -->\n", "<!-- end of seeds -->\n")
MEMORY_BYTES: Final = 4 << 30
CPU_SECONDS: Final = 120
"""A proof that takes longer is none."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).with_name("seeds.jsonl"))
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)))
    options.add_argument("--only", nargs="*", default=[], help="names of kernels")
    options.add_argument("--seconds", type=float, default=float("inf"), help="start no proof after so long")
    options.add_argument("--table", action="store_true", help="write the table of what was done, and do nothing else")
    given = options.parse_args()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if not given.table:
        done = {tuple(row["key"]) for row in rows}
        campaign((k for k in plan(given.seeds, given.only) if k not in done), rows, given)
    lines = list(table(rows))
    print(*lines, sep="\n")
    if given.table:
        head, rest = DOCS.read_text().split(MARKS[0])
        DOCS.write_text(head + MARKS[0] + "\n".join(lines) + "\n" + MARKS[1] + rest.split(MARKS[1])[1])
    missed = [row for row in rows if row["verdict"] != "proved"]
    for row in missed:
        print("not proved:", *row["key"], row["reason"])
    return 1 if missed else 0


def plan(seeds: list[int], only: list[str]) -> Iterator[Key]:
    from tests.proof import test_kernels, test_kernels_mlir

    cases = [("numba-cuda", *case) for case in dict.fromkeys([*test_kernels.QUICK, *test_kernels.DEEP])]
    later = dict.fromkeys([*test_kernels_mlir.QUICK, *test_kernels_mlir.DEEP])
    cases += [("numba-cuda-mlir", kernel, kernel, unroll) for kernel, unroll in later]
    cases += [(_frontend(kernel), kernel, GUARDED, 1) for kernel in test_kernels.GUARDED]
    kernels = dict.fromkeys(case[:2] for case in cases)
    cases = [(frontend, kernel, ITSELF, 1) for frontend, kernel in kernels] + cases
    for seed in seeds:
        for frontend, kernel, rewrite, unroll in cases:
            if not only or kernel in only:
                yield frontend, kernel, rewrite, unroll, seed


def _frontend(kernel: str) -> str:
    return "numba-cuda-mlir" if kernel.endswith("_mlir") else "numba-cuda"


def campaign(keys: Iterator[Key], rows: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Workers prove, this process alone writes."""
    began = time.monotonic()
    with ProcessPoolExecutor(given.jobs, initializer=prepare) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            more = time.monotonic() - began < given.seconds
            while more and len(running) < given.jobs + 1 and (key := next(keys, None)) is not None:
                running.add(pool.submit(run, key))
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                row = future.result()
                rows.append(row)
                with given.out.open("a") as file:
                    file.write(json.dumps(row, separators=(",", ":")) + "\n")
                print(*row["key"], row["verdict"], f"{row['cpu_seconds']} s", row["reason"], flush=True)


class TooLong(Exception):
    """CPU_SECONDS are spent."""


def _stop(*_: object) -> None:
    raise TooLong


def prepare() -> None:
    """A solver that grows must not take the others with it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, _stop)


def run(key: Key) -> dict[str, Any]:
    from tests.proof import test_kernels, test_kernels_mlir

    frontend, kernel, rewrite, unroll, seed = key
    before = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        room = test_kernels if frontend == "numba-cuda" else test_kernels_mlir
        if kernel in test_kernels.GUARDED:
            room = test_kernels
        if rewrite == GUARDED:
            new = test_kernels.spliced_in(kernel, test_kernels.region_text(kernel))
        else:
            new = room.base(kernel) if rewrite == ITSELF else room.candidate(rewrite, unroll)
        found = room.prove(kernel, new, seed=seed)
    except TooLong:
        verdict, reason, aside = "unknown", f"more than {CPU_SECONDS} CPU seconds", ()
    else:
        verdict, reason = type(found).__name__.lower(), getattr(found, "reason", "")[:200]
        aside = getattr(found, "aside", ())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = round(time.process_time() - before, 1)
    return {"key": key, "verdict": verdict, "aside": list(aside), "reason": reason, "cpu_seconds": seconds}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown; ``in all`` adds the proof of the baseline against itself, of the same seed."""
    own = {(*row["key"][:2], row["key"][4]): row for row in rows if row["key"][2] == ITSELF}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["key"][2] != ITSELF:
            groups.setdefault(tuple(row["key"][:4]), []).append(row)
    yield "| front end | rewrite | unroll | seeds proved | CPU seconds, median | most | most in all |"
    yield "| --- " * 7 + "|"
    whole: list[float] = []
    for (frontend, kernel, rewrite, unroll), found in sorted(groups.items()):
        seconds = [row["cpu_seconds"] for row in found]
        beside = [own.get((frontend, kernel, row["key"][4])) for row in found]
        sums = [s + b["cpu_seconds"] for s, b in zip(seconds, beside, strict=True) if b and b["verdict"] == "proved"]
        proved = sum(row["verdict"] == "proved" for row in found)
        sense = "".join(f", {s} aside" for s in found[0]["aside"])
        whole += sums
        what = f"{kernel}, guarded" if rewrite == GUARDED else rewrite
        yield (
            f"| {frontend} | {what}{sense} | {unroll}x | {proved}/{len(found)} "
            f"| {statistics.median(seconds):.1f} | {max(seconds):.1f} | {max(sums, default=0):.1f} |"
        )
    good = sum(row["verdict"] == "proved" for row in rows)
    spent = sum(row["cpu_seconds"] for row in rows)
    seeds = sorted({row["key"][4] for row in rows})
    yield ""
    whose = "baselines against themselves included"
    yield f"{good} of {len(rows)} proved, {whose}; {spent:.0f} CPU seconds, seeds {seeds}."
    if whole:
        median, most = statistics.median(whole), max(whole)
        yield f"In all a rewrite's proof takes {median:.1f} CPU seconds (median), {most:.1f} at most."


if __name__ == "__main__":
    raise SystemExit(main())
