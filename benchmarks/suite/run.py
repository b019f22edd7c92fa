"""A run of the suite: build in processes, race all cases at both sizes within the time given, write results.

The large sizes come first, so that a run that is cut short has them all. What fails is a row or a failure of the
results, never the end of the run.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from benchmarks.suite import outputs, results
from benchmarks.suite.build_all import build_all, read_all
from benchmarks.suite.building import STOCK, Built
from benchmarks.suite.case import MEASURED, Case, load
from benchmarks.suite.choices import Choices
from benchmarks.suite.racing import race_case
from hybridcc.errors import HybridccError
from hybridcc.runtime.device import Device
from hybridcc.runtime.race_children import Children
from hybridcc.runtime.race_worker import TOO_FEW_ROUNDS

BUILD_SHARE = 0.4
"""Of the time, at most, for building."""

LEAST_RACE_S, MOST_RACE_S = 0.8, 8.0
"""Seconds of timing in one race."""

OVERHEAD_S = 3.0
"""What a race is taken to need besides timing, until some have been held."""

AGAIN = 3.0
"""Times the seconds, for a race that was given too few."""

SAVE_EVERY_S = 30.0

OUTPUTS_S = 30.0
"""Kept for comparing what all contenders compute with NumPy, after the races."""

LOOKED_AT = 3
"""Cases for which stock's code is compared with what Numba loads."""


@dataclass(slots=True)
class Options:
    names: Sequence[str]
    rewriter: str
    jobs: int
    seconds: float
    samples: int
    out: Path
    built: Path | None = None
    choices: Choices | None = None
    """Of an earlier run: what it chose races alone."""
    sizes: Sequence[str] = MEASURED


@dataclass(slots=True)
class Run:
    """On its way. ``overheads`` are seconds that races took besides timing."""

    options: Options
    begin: float = field(default_factory=time.monotonic)
    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    stock_is_numbas: dict[str, bool] = field(default_factory=dict)

    def left(self) -> float:
        return self.options.seconds - (time.monotonic() - self.begin)

    def race_s(self, contenders: Sequence[int]) -> float:
        """Seconds of timing for the first of the races that are left, which have so many contenders each: shared in
        that proportion, since a round times them all. 0 where there is no time for it."""
        recent = self.overheads[-12:]
        overhead = sum(recent) / len(recent) if recent else OVERHEAD_S
        left = self.left() - OUTPUTS_S
        if left < overhead + LEAST_RACE_S:
            return 0.0
        share = (left - overhead * len(contenders)) * contenders[0] / sum(contenders)
        return min(MOST_RACE_S, max(LEAST_RACE_S, share))


def run(options: Options, device: Device, progress: Callable[[str], None]) -> dict[str, Any]:
    """The results, which were also written. Raises OutputError where they cannot be."""
    run = Run(options)
    before = facts()
    if options.built is not None:
        built, failed = read_all(options.names, options.built)
    else:
        built, failed = build_all(
            options.names, device.arch, options.rewriter, jobs=options.jobs,
            seconds=options.seconds * BUILD_SHARE, samples=options.samples, progress=progress,
        )  # fmt: skip
    run.failures += [{"part": f"{name}: build", "error": why} for name, why in failed.items()]
    built_s = time.monotonic() - run.begin
    progress(f"{len(built)} of {len(options.names)} cases built in {built_s:.0f} s")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())

    def save(done: bool) -> Path:
        return results.write(_data(run, before, stamp, built, built_s, done), options.out, stamp)

    _race_all(run, built, device, lambda: save(False), progress)
    save(False)
    _check_outputs(run, built, progress)
    data = _data(run, before, stamp, built, built_s, True)
    progress(f"written to {results.write(data, options.out, stamp)}")
    return data


def _race_all(
    run: Run, built: Mapping[str, Built], device: Device, save: Callable[[], object], progress: Callable[[str], None]
) -> None:
    plan = [(size, name) for size in run.options.sizes for name in built]
    saved = time.monotonic()
    cases: dict[str, Case] = {}
    with Children() as children:
        for number, (size, name) in enumerate(plan):
            budget_s = run.race_s([_contenders(run, built[each], size) for size, each in plan[number:]])
            if not budget_s:
                left_out = len(plan) - number
                run.failures.append({"part": "time", "error": f"{left_out} races were not begun: the time was up"})
                break
            try:
                case = cases.setdefault(name, load(name)) if name not in cases else cases[name]
                row = race_case(case, built[name], size, device, children, budget_s, run.options.choices)
                if row["void"] == TOO_FEW_ROUNDS and run.left() > OUTPUTS_S + AGAIN * budget_s:
                    row = race_case(case, built[name], size, device, children, AGAIN * budget_s, run.options.choices)
            except Exception as error:  # a run on a lent GPU must not be lost to one case
                traceback.print_exc()
                run.failures.append({"part": f"{name} {size}", "error": f"{type(error).__name__}: {error}"})
                continue
            run.rows.append(row)
            run.overheads.append(max(0.0, row["seconds"] - row["budget_s"]))
            progress(f"{number + 1:3d}/{len(plan)} {told(row)}")
            if time.monotonic() - saved > SAVE_EVERY_S:
                save()
                saved = time.monotonic()


def _contenders(run: Run, built: Built, size: str) -> int:
    """With the control."""
    choices = run.options.choices
    rewrites = len(built.variants) if choices is None else len(set(choices.of(built.name, size).values()) - {STOCK})
    return rewrites + 3


def _check_outputs(run: Run, built: Mapping[str, Built], progress: Callable[[str], None]) -> None:
    """The first failure ends it: after a launch that faults, nothing works in this process."""
    for number, (name, each) in enumerate(built.items()):
        if run.left() < 0:
            run.failures.append({"part": "time", "error": f"outputs of {len(built) - number} cases were not checked"})
            return
        try:
            case = load(name)
            found = run.outputs[name] = outputs.check(case, each)
        except Exception as error:  # what was raced is not lost
            traceback.print_exc()
            run.failures.append({"part": f"{name}: outputs", "error": f"{type(error).__name__}: {error}"})
            return
        if not found["right"]:
            run.failures.append({"part": f"{name}: outputs", "error": f"not what NumPy says: {found['errors']}"})
        if number < LOOKED_AT:
            _look_at_stock(run, case, each)
    progress(f"{len(run.outputs)} cases compared with NumPy")


def _look_at_stock(run: Run, case: Case, built: Built) -> None:
    try:
        same = run.stock_is_numbas[case.name] = outputs.stock_is_numbas(case, built)
    except HybridccError as error:  # cuobjdump is not everywhere
        run.failures.append({"part": f"{case.name}: stock", "error": f"not compared with what Numba loads: {error}"})
        return
    if not same:
        run.failures.append({"part": f"{case.name}: stock", "error": "Numba loads other machine code than was raced"})


def told(row: Mapping[str, Any]) -> str:
    """A row in one line."""
    start = f"{row['kernel']:16s}{row['size']:6s}"
    if not row["over_stock"]:
        return f"{start} void: {row['void']}"
    ratios = "".join(
        f" {side} {ratio:.3f}x" if ratio is not None else f" {side} -"
        for side, ratio in row["over_stock"].items()
        if side != "stock"
    )
    stock = row["times"]["baseline"]["median_us"]
    return f"{start}{stock:10.1f} us{ratios} ({row['choices']['proved']['code']}, {row['seconds']:.1f} s)"


def _data(
    run: Run, before: Mapping[str, Any], stamp: str, built: Mapping[str, Built], built_s: float, done: bool
) -> dict[str, Any]:
    return {
        "suite_format": results.FORMAT,
        "made": stamp,
        "done": done,
        "machine": before,
        "machine_after": _facts() if done else None,
        "rewriter": sorted({each.rewriter for each in built.values()}),
        "choices": "" if run.options.choices is None else run.options.choices.made,
        "seconds": round(time.monotonic() - run.begin, 1),
        "build_seconds": round(built_s, 1),
        "summary": results.summary(run.rows, run.options.names),
        "kernels": run.rows,
        "outputs": run.outputs,
        "stock_is_numbas": run.stock_is_numbas,
        "failures": run.failures,
    }


def _facts() -> dict[str, Any] | None:
    try:
        return facts()
    except HybridccError:
        return None
