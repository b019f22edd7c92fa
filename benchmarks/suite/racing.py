"""One case at one size: stock Numba, fastmath, every rewrite that passed and the twin in one interleaved race."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from benchmarks.suite.building import FASTMATH, POLICIES, STOCK, TWIN, Built
from benchmarks.suite.case import BEYOND_LOOPS, Case
from benchmarks.suite.choices import Choices
from hybridcc.passes.verify.launch import describe
from hybridcc.runtime import race_job, race_roofline
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import Race, race
from hybridcc.runtime.race_children import Children
from hybridcc.runtime.race_roofline import Work

COMPARED = 20
"""Launches of each rewrite whose memory is compared with stock Numba's."""


def race_case(
    case: Case,
    built: Built,
    size: str,
    device: Device,
    children: Children,
    budget_s: float,
    before: Choices | None = None,
) -> dict[str, Any]:
    """The row of the results; with ``before``, of what was chosen then. Raises HybridccError where no race can be held
    at all."""
    begin = time.monotonic()
    if before is not None:
        built = before.left(built, size)
    launch = case.launch(size)
    twin = replace(built.twin, parameters=race_job.packed(case.cuda_arguments(*launch.values), launch))
    contenders = [built.fastmath, *(v.contender for v in built.variants), twin]
    raced = race(
        built.stock, contenders, case.arguments, launch, device, budget_s=budget_s, children=children, compared=COMPARED
    )
    row = {**head(case, built, size), "launch": describe(launch), "budget_s": round(budget_s, 2)}
    chosen = {policy: choose(policy, built, raced) for policy in POLICIES}
    if before is not None:
        chosen = {policy: _kept(name, before) for policy, name in before.of(case.name, size).items()}
    row |= judged(raced, chosen, launch.threads, Work(**case.work(*launch.values)))
    return {**row, "seconds": round(time.monotonic() - begin, 2)}


def head(case: Case, built: Built, size: str) -> dict[str, Any]:
    return {
        "kernel": case.name,
        "field": case.field,
        "size": size,
        "parameters": list(case.sizes[size]),
        "has_loop": case.has_loop,
        "beyond_loops": case.name in BEYOND_LOOPS,
        "regions": dict(built.regions),
        "whole_body": built.body,
        "answers": built.answers,
        "fates": dict(built.fates),
        "failures": list(built.failures),
        "variants": {
            v.contender.name: {"verdict": v.verdict, "text": v.text, "registers": v.registers, "spills": v.spills}
            for v in built.variants
        },
    }


def judged(raced: Race, chosen: Mapping[str, Mapping[str, Any]], threads: int, work: Work) -> dict[str, Any]:
    """What the race came to: times, ratios over stock of what each policy chose, and how far from the bound that is."""
    measured = raced.measurements
    times = times_of(raced)
    picks = {"stock": STOCK, FASTMATH: FASTMATH, TWIN: TWIN, **{p: c["variant"] for p, c in chosen.items()}}
    ratios = {side: 1.0 if name == STOCK else ratio_of(raced, name) for side, name in picks.items()}
    least = bound(raced.facts, threads, work)
    spent = {side: times[name]["median_us"] for side, name in picks.items() if name in times}
    return {
        "void": raced.void,
        "next_step": raced.next_step,
        "times": times,
        "measurements": {name: asdict(m) for name, m in measured.items()},
        "noise_floor": raced.noise_floor,
        "choices": chosen,
        "over_stock": None if raced.void else ratios,
        "over_cuda_cpp": None if raced.void else over(ratios, TWIN),
        "bound": None if least is None else {"us": least.least_us, "by": least.rate, "work": asdict(work)},
        "percent_of_bound": None if least is None else {s: 100 * least.least_us / us for s, us in spent.items()},
        "deviations": {d.contender: d.what for d in raced.deviations},
        "differences": dict(raced.differences),
        "compared": dict(raced.compared),
        "sm_mhz": clocks(raced),
        "facts": {name: raced.facts.get(name) for name in ("l2", "sets", "rounds", "launches", "load_and_block_s")},
        "attribution": {"rules": "not measured", "model": ratios["proved"], "both": "not measured"},
    }


def times_of(raced: Race) -> dict[str, dict[str, float]]:
    """Microseconds per launch of each contender, over all its sound samples."""
    found: dict[str, list[float]] = {}
    for sample in raced.samples:
        if not sample.fault:
            found.setdefault(sample.contender, []).append(sample.launch_us)
    return {name: _quartiles(values) for name, values in found.items() if len(values) > 1}


def _quartiles(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median_us": middle, "lower_quartile_us": low, "upper_quartile_us": high, "samples": len(values)}


def choose(policy: str, built: Built, raced: Race) -> dict[str, Any]:
    """As hybridcc selects: the fastest of those that the policy accepts and the race calls faster, else stock."""
    able = [v.contender.name for v in built.variants if policy in v.policies]
    out = {d.contender for d in raced.deviations}
    standing = [name for name in able if name in raced.measurements and name not in out]
    faster = [name for name in standing if raced.measurements[name].kind == "faster"]
    if faster:
        best = max(faster, key=lambda name: raced.measurements[name].ratio or 0.0)
        return {"variant": best, "code": "FASTER", "reason": f"{best} of {len(able)} that are {policy} or better"}
    code, reason = _why_stock(policy, built, raced, able, standing)
    return {"variant": STOCK, "code": code, "reason": reason}


def _kept(name: str, before: Choices) -> dict[str, Any]:
    code = "STOCK" if name == STOCK else "FASTER"
    return {"variant": name, "code": code, "reason": f"chosen by the run of {before.made}"}


def _why_stock(policy: str, built: Built, raced: Race, able: Sequence[str], standing: Sequence[str]) -> tuple[str, str]:
    if raced.void:
        return "VOID", raced.void
    if not built.answers:
        return "NO_ANSWER", built.failures[0].splitlines()[0] if built.failures else "no answer to its prompts yet"
    if not able:
        lesser = f"{len(built.variants)} passed tests alone" if built.variants else "no answer passed"
        return "NONE_VERIFIED", f"{lesser}: {', '.join(sorted({f.partition(':')[0] for f in built.fates.values()}))}"
    if not standing:
        return "REFUTED_ON_DEVICE", "; ".join(f"{d.contender}: {d.what}" for d in raced.deviations)
    kinds = sorted({raced.measurements[name].kind for name in standing})
    return "NOT_FASTER", f"{len(standing)} {policy} or better, none faster ({', '.join(kinds)})"


def ratio_of(raced: Race, name: str) -> float | None:
    """Stock's time over the contender's; None where it was not measured."""
    measured = raced.measurements.get(name)
    return None if measured is None else measured.ratio


def over(ratios: Mapping[str, float | None], base: str) -> dict[str, float] | None:
    """The same ratios over another side."""
    by = ratios.get(base)
    return None if by is None else {side: ratio / by for side, ratio in ratios.items() if ratio is not None}


def bound(facts: Mapping[str, Any], threads: int, work: Work) -> race_roofline.Bound | None:
    """The tightest that the GPU's figures give."""
    known = race_roofline.bounds(facts, threads, 1, work)
    return max(known, key=lambda each: each.least_us, default=None)


def clocks(raced: Race) -> list[float]:
    """Lowest, median and highest SM clock of the samples, MHz; empty where it cannot be read."""
    found = sorted(sample.sm_mhz for sample in raced.samples if sample.sm_mhz)
    return [found[0], statistics.median(found), found[-1]] if found else []
