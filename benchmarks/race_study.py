"""How often a race is wrong: the same against itself, and N trips of a loop against 1.02 N, hundreds of times.

    python benchmarks/race_study.py --part 1/2 --seconds 540 --out FOLDER     on a machine with a GPU
    python benchmarks/race_study.py --part 2/2 --seconds 540 --out FOLDER
    python benchmarks/race_study.py --pool FOLDER/race_study-part*.json       anywhere: one JSON and one plot
    python benchmarks/race_study.py --only scale --same 40 --loops 0          a few races of some cases, a second each
    python benchmarks/race_study.py --rehearse [--same 20 --loops 12]         no GPU: a made-up clock with noise

500 races of five kernels (3 us to 3 ms) against their own bytes, and 100 of a loop (7 us, 74 us, 1.2 ms), in an order
that is shuffled once for all and dealt out to the parts. Every race is ``hybridcc.runtime.race.race`` as users get it,
with one second of rounds (``--budget``), loading and timing alike, except for two things that keep a study of 600
within minutes: the two processes of a race are reused for up to fifty races each (a user's race starts both afresh),
memory and code being given back and loaded anew for each; and ``--compared`` launches of the variant are compared
instead of a hundred.

A part that runs out of time keeps what it has. Parts are pooled only if their conditions match: GPU, driver, clocks,
versions, settings, machine code. Block by block ratios are kept by process and round, so that other statistics can be
tried on them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import ROOT, facts, use_checkout

use_checkout()

import race_kernels as kernels  # noqa: E402
from race_plot import plot  # noqa: E402

from hybridcc.runtime import race as racing  # noqa: E402
from hybridcc.runtime import race_children, race_statistics, race_timing  # noqa: E402
from hybridcc.runtime.device import Device  # noqa: E402

SAVE_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One race of the study: ``right`` is what the truth asks for."""

    index: int
    case: str
    right: str


SAME = ("scale", "stencil", "mandelbrot", "matmul", "nbody")


def plan(same: int, loops: int, only: Sequence[str] = ()) -> list[Planned]:
    """Every race, in the order in which they are run. Loops are as often the faster side as the slower. ``only`` names
    cases, the races being shared among these: "same scale", "scale", "loop 74 us", "74 us"."""

    def kept(kind: str, names: Sequence[str]) -> list[str]:
        return [f"{kind} {name}" for name in names if not only or {name, f"{kind} {name}"} & set(only)]

    names, targets = kept("same", SAME), kept("loop", tuple(kernels.LOOPS))
    cases = [(names[i % len(names)], "same") for i in range(same if names else 0)]
    cases += [
        (targets[i % len(targets)], (kernels.FASTER, kernels.SLOWER)[i // len(targets) % 2])
        for i in range(loops if targets else 0)
    ]
    random.Random(2).shuffle(cases)
    return [Planned(index, case, right) for index, (case, right) in enumerate(cases)]


def main() -> int:
    given = arguments()
    if given.pool:
        return pool(given.pool, given.out)
    number, parts = (int(text) for text in given.part.split("/"))
    planned = plan(given.same, given.loops, given.only)
    if not planned:
        print(f"no races of {', '.join(given.only)}: there are {', '.join((*SAME, *kernels.LOOPS))}")
        return 2
    mine = [race for race in planned if race.index % parts == number - 1]
    name = f"race_study-part{number}of{parts}{'-rehearsal' if given.rehearse else ''}.json"
    with simulated() if given.rehearse else contextlib.nullcontext():
        results = run(planned, mine, given, given.out / name)
    print(summary(results["races"]))
    return 1 if results["failures"] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", default="1/1", help="which share of the races: 1/2, 2/2")
    parser.add_argument("--seconds", type=float, default=540.0, help="no race is begun after so many")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of timing per race")
    parser.add_argument("--compared", type=int, default=12, help="launches of the variant compared per race")
    parser.add_argument("--same", type=int, default=500, help="races of a kernel against itself")
    parser.add_argument("--loops", type=int, default=100, help="races of the loop")
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="of these cases: scale, '7 us'")
    parser.add_argument("--rehearse", action="store_true", help="on a simulated GPU")
    parser.add_argument("--pool", type=Path, nargs="+", metavar="JSON", help="join the parts' results")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


# --- racing ---


def run(planned: Sequence[Planned], mine: Sequence[Planned], given: argparse.Namespace, path: Path) -> dict[str, Any]:
    begin = time.monotonic()
    device, make = simulated_cases() if given.rehearse else real_cases()
    entrants = {key: make(*key) for key in sorted({(race.case, race.right) for race in planned})}
    results: dict[str, Any] = {
        "conditions": conditions(device, given, entrants.values()),
        "machine": facts(),
        "part": given.part,
        "planned": len(mine),
        "races": [],
        "failures": [],
    }
    print(f"{len(mine)} races; {time.monotonic() - begin:.0f} s to compile {len(entrants)} cases", flush=True)
    saved = time.monotonic()
    with race_children.Children() as children:
        for race in mine:
            if time.monotonic() - begin > given.seconds:
                print(f"out of time after {len(results['races'])} of {len(mine)} races", flush=True)
                break
            results["races"].append(one(race, entrants[race.case, race.right], device, given, children))
            if time.monotonic() - saved > SAVE_EVERY_S:
                saved = time.monotonic()
                save(path, results)
                print(f"{len(results['races'])} races in {saved - begin:.0f} s", flush=True)
    results["seconds"] = time.monotonic() - begin
    results["machine_after"] = facts()
    results["failures"] = [race for race in results["races"] if race["void"] or race["deviations"]]
    save(path, results)
    print(f"written to {path}, {results['seconds']:.0f} s", flush=True)
    return results


def one(
    planned: Planned,
    entrants: kernels.Entrants,
    device: Device,
    given: argparse.Namespace,
    children: race_children.Children,
) -> dict[str, Any]:
    begin = time.monotonic()
    raced = racing.race(
        entrants.baseline, [entrants.variant], entrants.arguments, entrants.launch, device,
        budget_s=given.budget, seed=planned.index, children=children, compared=given.compared,
    )  # fmt: skip
    measured = raced.measurements.get("v")
    clocks = sorted(sample.sm_mhz for sample in raced.samples if sample.sm_mhz)
    return {
        **asdict(planned),
        "verdict": measured.kind if measured is not None else "void",
        "measurement": None if measured is None else asdict(measured),
        "control": None if raced.control is None else asdict(raced.control),
        "noise_floor": raced.noise_floor,
        "logs": {pair: block_logs(raced, pair) for pair in ("v", race_statistics.CONTROL)},
        "sm_mhz": [clocks[0], statistics.median(clocks), clocks[-1]] if clocks else [],
        "launches": raced.facts.get("launches"),
        "rounds": raced.facts.get("rounds"),
        "load_and_block_s": raced.facts.get("load_and_block_s"),
        "l2": raced.facts.get("l2"),
        "compared": dict(raced.compared),
        "notes": dict(raced.notes),
        "void": raced.void,
        "deviations": [asdict(deviation) for deviation in raced.deviations],
        "seconds": round(time.monotonic() - begin, 3),
    }


def block_logs(raced: racing.Race, pair: str) -> list[list[list[float]]]:
    """log(baseline time / variant time) of each sound block, by process and round."""
    found: dict[int, list[list[float]]] = {}
    for (process, _), logs in race_statistics.paired(raced.samples, pair).logs.items():
        found.setdefault(process, []).append([round(value, 6) for value in logs])
    return list(found.values())


def real_cases() -> tuple[Device, Callable[[str, str], kernels.Entrants]]:
    from hybridcc.runtime import device as devices

    device = devices.current()
    same = kernels.numba_kernels()

    def make(case: str, right: str) -> kernels.Entrants:
        kind, _, name = case.partition(" ")
        if kind == "same":
            return same[name](device.arch)
        return kernels.loop(name, right, device.arch, device.multiprocessors)

    return device, make


def conditions(device: Device, given: argparse.Namespace, entrants: Iterator[Any] | Any) -> dict[str, Any]:
    """Runs may be pooled when all of this is equal."""
    from hybridcc.runtime.clocks import open_clocks

    found = facts()
    clocks = None if given.rehearse else open_clocks(device.uuid)
    files = sorted((ROOT / "runtime").glob("race*.py"))
    return {
        "gpu": device.name,
        "arch": device.arch,
        "multiprocessors": device.multiprocessors,
        "memory_bytes": device.memory_bytes,
        "driver": [device.driver, found["driver_version"]],
        "highest_sm_and_memory_mhz": list(clocks.highest()) if clocks is not None else [],
        "python": found["python"],
        "versions": found["versions"],
        "code": {f"{e.name}, {e.right}": e.code for e in entrants},
        "race": hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16],
        "settings": {
            "budget_s": given.budget,
            "compared": given.compared,
            "processes": racing.PROCESSES,
            "batch_us": race_timing.BATCH_US,
            "error_rate": race_statistics.ERROR_RATE,
            "margin": race_statistics.MARGIN,
            "rounds_per_process": [race_statistics.LEAST_ROUNDS, race_statistics.MOST_ROUNDS],
            "blocks_per_round_at_most": race_statistics.MOST_BLOCKS,
            "races_per_process_at_most": race_children.MOST_JOBS,
            "same": given.same,
            "loops": given.loops,
            "only": sorted(given.only),
        },
    }


def save(path: Path, results: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(results, default=str) + "\n")
    os.replace(unfinished, path)


# --- joining parts ---

CLOCK_SHARE = 0.02
"""Median SM clocks of the parts, for each case, must agree within this share."""


def pool(paths: Sequence[Path], out: Path) -> int:
    parts = [json.loads(path.read_text()) for path in paths]
    problems = mismatches(parts)
    for problem in problems:
        print(f"not pooled: {problem}")
    if problems:
        return 1
    races = sorted((race for part in parts for race in part["races"]), key=lambda race: race["index"])
    joined = {
        "conditions": parts[0]["conditions"],
        "parts": [
            {**{key: part.get(key) for key in ("part", "planned", "seconds", "machine", "machine_after")},
             "races": len(part["races"])}
            for part in parts
        ],
        "summary": counts(races),
        "races": races,
    }  # fmt: skip
    name = f"race_study-{joined['conditions']['gpu'].replace(' ', '-').lower()}"
    save(out / f"{name}.json", joined)
    (out / f"{name}.svg").write_text(plot(joined))
    print(summary(races))
    print(f"written to {out / name}.json and .svg")
    return 0


def mismatches(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why the parts are not of one study; empty if they are."""
    first = parts[0]["conditions"]
    found = [
        f"{key}: {first[key]} and {part['conditions'].get(key)}"
        for part in parts[1:]
        for key in first
        if part["conditions"].get(key) != first[key]
    ]
    indices = [race["index"] for part in parts for race in part["races"]]
    if len(set(indices)) < len(indices):
        found.append("a race occurs in two parts")
    for case in sorted({race["case"] for part in parts for race in part["races"]}):
        clocks = [
            statistics.median(race["sm_mhz"][1] for race in part["races"] if race["case"] == case and race["sm_mhz"])
            for part in parts
            if any(race["case"] == case and race["sm_mhz"] for race in part["races"])
        ]
        if clocks and max(clocks) > (1 + CLOCK_SHARE) * min(clocks):
            found.append(f"the SM clock of {case} was {' and '.join(f'{clock:.0f}' for clock in clocks)} MHz")
    return found


def counts(races: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By case: how many races came to each verdict, how many were right and wrong, and times."""
    found: dict[str, dict[str, Any]] = {}
    for case in sorted({race["case"] for race in races}):
        of_case = [race for race in races if race["case"] == case]
        measured = [race["measurement"] for race in of_case if race["measurement"]]
        decided = [race for race in of_case if race["verdict"] in ("faster", "slower", "same")]
        times = [m["baseline_us"] for m in measured if m["baseline_us"]]
        floors = [race["noise_floor"] for race in of_case if race["noise_floor"] is not None]
        found[case] = {
            "races": len(of_case),
            **{verdict: sum(race["verdict"] == verdict for race in of_case) for verdict in VERDICTS},
            "right": sum(race["verdict"] == race["right"] for race in of_case),
            "wrong": sum(race["verdict"] != race["right"] for race in decided),
            "baseline_us": statistics.median(times) if times else None,
            "noise_floor": statistics.median(floors) if floors else None,
            "rounds": statistics.median(m["rounds"] for m in measured) if measured else None,
            "blocks": statistics.median(m["blocks"] for m in measured) if measured else None,
            "spread": spreads(of_case),
            "seconds": statistics.median(race["seconds"] for race in of_case),
        }
    return found


def spreads(races: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the control's rounds within a process: their sigma, from the median distance to the median, typical of the
    races."""
    each = [
        1.4826 * _distance([statistics.median(blocks) for blocks in rounds])
        for race in races
        for rounds in race["logs"][race_statistics.CONTROL]
    ]
    return statistics.median(each) if each else None


def _distance(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


VERDICTS = ("faster", "slower", "same", "inconclusive", "void")


def summary(races: Sequence[Mapping[str, Any]]) -> str:
    after = f"{'right':>7s}{'wrong':>7s}{'floor':>8s}{'rounds':>7s}{'blocks':>7s}{'spread':>8s}{'s':>6s}"
    lines = [f"{'case':18s}{'us':>9s}{'races':>6s}" + "".join(f"{v[:9]:>10s}" for v in VERDICTS) + after]
    table = counts(races)
    for case, row in table.items():
        lines.append(
            f"{case:18s}{row['baseline_us'] or 0:9.1f}{row['races']:6d}"
            + "".join(f"{row[verdict]:10d}" for verdict in VERDICTS)
            + f"{row['right']:7d}{row['wrong']:7d}{row['noise_floor'] or 0:8.2%}{row['rounds'] or 0:7.0f}"
            + f"{row['blocks'] or 0:7.0f}{row['spread'] or 0:8.2%}{row['seconds']:6.2f}"
        )
    same = [race for race in races if race["right"] == "same"]
    false = sum(race["verdict"] in ("faster", "slower") for race in same)
    lines.append(f"the same against itself: {len(same)} races, {false} false faster or slower")
    longer = [race for race in races if race["right"] != "same" and race["case"] != "loop 7 us"]
    if longer:
        right = sum(race["verdict"] == race["right"] for race in longer)
        lines.append(f"2 % at 74 us and 1.2 ms: {right} of {len(longer)} right ({right / len(longer):.0%})")
    short = [race for race in races if race["case"] == "loop 7 us"]
    wrong = sum(race["verdict"] in VERDICTS[:3] and race["verdict"] != race["right"] for race in short)
    lines.append(f"2 % at 7 us: {wrong} of {len(short)} wrong")
    return "\n".join(lines)


# --- without a GPU ---


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """Races of this process go to the tests' simulated GPU, under noise that switches, drifts and has outliers."""
    from tests.simulated.gpu import NOISE
    from tests.simulated.worker import COMMAND

    noise = {"sigma": 0.004, "instance": 0.002, "drift": 0.02, "modes": 0.03, "switch": 0.01, "outliers": 0.01}
    before = race_children.WORKER
    race_children.WORKER, os.environ[NOISE] = COMMAND, json.dumps(noise)
    try:
        yield
    finally:
        race_children.WORKER = before
        del os.environ[NOISE]


def simulated_cases() -> tuple[Device, Callable[[str, str], kernels.Entrants]]:
    import numpy as np

    from hybridcc.passes.kernel import Argument, ArrayType, Field
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.runtime.race import Contender

    size = 256
    device = Device(0, "Simulated GPU", "sm_90", "13.0", 132, 1 << 32, 1 << 20, "ab" * 16)
    times = dict(zip(SAME, (3.0, 12.0, 80.0, 290.0, 3000.0), strict=True)) | {
        "7 us": 7.0,
        "74 us": 74.0,
        "1.2 ms": 1200.0,
    }
    pointers = [Argument(name, ArrayType("float32", 1), (Field("data", ".u64"),)) for name in "xy"]

    def side(name: str, us: float) -> Contender:
        return Contender(name, json.dumps({"kernel": "double", "us": us, "size": size}).encode(), "k")

    def make(case: str, right: str) -> kernels.Entrants:
        us = times[case.partition(" ")[2]]
        baseline = us * 1.02 if right == kernels.FASTER else us
        variant = us * 1.02 if right == kernels.SLOWER else us
        launch = Launch((4, 1, 1), (64, 1, 1), (np.ones(size, np.float32), np.zeros(size, np.float32)))
        return kernels.Entrants(case, side("baseline", baseline), side("v", variant), pointers, launch, right)

    return device, make


if __name__ == "__main__":
    sys.exit(main())
