"""``RESULTS.md``: what the newest run of the suite on each GPU came to, with every row and every loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.suite.case import MEASURED
from benchmarks.suite.results import LEAST, measured

Row = Mapping[str, Any]

GOALS = (
    ("geomean_vs_stock_loops", "geomean over stock Numba, kernels with a loop", 2.0),
    ("geomean_vs_stock_all", "geomean over stock Numba, all kernels", 1.6),
    ("min_ratio_vs_stock", "the worst ratio over stock Numba", 0.99),
    ("geomean_vs_cuda_cpp", "geomean over the CUDA C++ twins", 1.0),
)

SIDES = ("fastmath", "proved", "tested", "cuda_cpp")
WORDS = {"fastmath": "fastmath", "proved": "proved", "tested": "tested", "cuda_cpp": "CUDA C++"}

METHOD = """\
Written by `python -m benchmarks report` from what `python -m benchmarks run` measured; edit neither.

Stock Numba, Numba with fastmath, every rewrite that passed and the CUDA C++ twin (NVRTC's own defaults, the same
launch shape, parameters of its own) run in one race ([docs/racing.md](../docs/racing.md)): ABBA blocks in shuffled
order, code and graphs loaded anew in every round, two processes, buffers rotated through twice the L2 cache. Ratios are
stock Numba's time over the other's, medians over rounds; more is faster. Each policy chooses from the same race as
hybridcc does: the fastest rewrite that it accepts and that the race calls faster, else stock Numba's own code, which
counts 1.00; or, where that is said, it chose in an earlier run and the race here is of what it chose. No kernel is
left out of a mean; each counts once, with the geometric mean of its sizes. The bound is the least time that the GPU's
bandwidth or arithmetic takes for what a kernel has to move and compute (`work` in its file).
"""


def markdown(runs: Sequence[Mapping[str, Any]]) -> str:
    """Of runs on different GPUs, one section each."""
    parts = ["# Results of the benchmark suite\n", METHOD]
    if not runs:
        parts.append("Nothing was measured yet.\n")
    for data in runs:
        parts += _run(data)
    return "\n".join(parts)


def _run(data: Mapping[str, Any]) -> Iterator[str]:
    machine = data["machine"]
    gpu = (machine.get("gpu") or {}).get("name", "no GPU")
    yield f"## {gpu}\n"
    versions = machine["versions"]
    known = ", ".join(f"{name} {versions[name]}" for name in ("numba-cuda", "nvidia-nvjitlink") if name in versions)
    driver = machine.get("driver_version") or "unknown"
    rewriters = ", ".join(data["rewriter"]) or "none"
    before = f"; choices made beforehand, by the run of {data['choices']}" if data.get("choices") else ""
    yield f"{data['made']}, driver {driver}, {known}, rewriter: {rewriters}; {data['seconds']:.0f} s{before}.\n"
    rows, summary = data["kernels"], data["summary"]
    yield from _summary(summary)
    for size in MEASURED:
        of_size = [row for row in rows if row["size"] == size]
        if of_size:
            yield f"### Size {size}\n"
            yield from _table(of_size)
    yield from _shortfalls(rows, summary, data["failures"])
    yield from _attribution(rows)


def _summary(summary: Mapping[str, Any]) -> Iterator[str]:
    lines = ["| policy `proved` | measured | goal | |", "|---|---|---|---|"]
    for name, words, goal in GOALS:
        value = summary[name]
        verdict = "not measured" if value is None else "met" if value >= goal else "**not met**"
        lines.append(f"| {words} | {_x(value)} | {goal:.2f} | {verdict} |")
    yield "\n".join(lines) + "\n"
    count = summary.__getitem__
    yield (
        f"{count('kernels')} of {count('kernels_in_suite')} kernels measured; {count('proved')} have a proved rewrite, "
        f"{count('chosen')} run one. Rows against stock: {count('wins')} won, {count('ties')} tied, {count('losses')} "
        f"lost; against CUDA C++ {count('losses_to_cuda_cpp')} lost. Kernels whose gain cannot come from their loops' "
        f"overhead (†): {_x(count('beyond_loops'))}.\n"
    )
    lines = ["| side | loops | all | over CUDA C++ | worst |", "|---|---|---|---|---|"]
    for side, of in summary["by_side"].items():
        cells = ("geomean_vs_stock_loops", "geomean_vs_stock_all", "geomean_vs_cuda_cpp", "min_ratio_vs_stock")
        lines.append(f"| {WORDS[side]} | " + " | ".join(_x(of[cell]) for cell in cells) + " |")
    yield "\n".join(lines) + "\n"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    heads = "".join(f" {WORDS[side]} |" for side in SIDES)
    lines = [
        f"| kernel | stock us (quartiles) | proved us (quartiles) |{heads} proved over CUDA C++ | of bound |",
        "|---|---|---|" + "---|" * len(SIDES) + "---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["field"], row["kernel"])):
        name = row["kernel"] + ("" if row["has_loop"] else " (no loop)") + (" †" if row["beyond_loops"] else "")
        if not row["over_stock"]:
            lines.append(f"| {name} | not measured: {row['void']} |" + " |" * (len(SIDES) + 3))
            continue
        over, own = row["over_stock"], (row["over_cuda_cpp"] or {}).get("proved")
        cells = "".join(f" {_x(over[side])} |" for side in SIDES)
        of_bound = row["percent_of_bound"] or {}
        percent = ", ".join(f"{of_bound[side]:.0f} %" if side in of_bound else "-" for side in ("stock", "proved"))
        chosen = row["choices"]["proved"]["variant"]
        times = f"{_us(row['times']['baseline'])} | {_us(row['times'].get(chosen))}"
        lines.append(f"| {name} | {times} |{cells} {_x(own)} | {percent} |")
    yield "\n".join(lines) + "\n"
    yield (
        "† spends its time in barriers, shared memory or atomics, not in its loops' overhead. Of bound: what share the "
        "least time possible is of stock's time and of the chosen code's.\n"
    )


def _shortfalls(
    rows: Sequence[Row], summary: Mapping[str, Any], failures: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    yield "### What falls short, and why\n"
    lines = []
    for row in measured(rows):
        place, choice = f"{row['kernel']} ({row['size']})", row["choices"]["proved"]
        own, twin = row["over_stock"]["proved"], (row["over_cuda_cpp"] or {}).get("proved")
        if own is not None and own < LEAST:
            lines.append(f"- **slower than stock**: {place}, {_x(own)}")
        if choice["code"] != "FASTER":
            lines.append(f"- stock is what runs: {place}: {choice['code']}: {_short(choice['reason'])}")
        if twin is not None and twin < LEAST:
            lines.append(f"- slower than CUDA C++: {place}, {_x(twin)}")
        lines += [f"- out of the race: {place}: {name}: {what}" for name, what in row["deviations"].items()]
    lines += [f"- not measured: {place}" for place in summary["not_measured"]]
    lines += [f"- failed: {each['part']}: {_short(each['error'])}" for each in failures]
    yield "\n".join(lines or ["Nothing."]) + "\n"
    differing = sorted({f"{r['kernel']}: {n}" for r in measured(rows) for n in r["differences"]})
    if differing:
        yield (
            "Other bits than stock Numba's (contraction, approximations, order of atomics): "
            + "; ".join(differing)
            + ".\n"
        )


def _attribution(rows: Sequence[Row]) -> Iterator[str]:
    wins = [row for row in measured(rows) if row["choices"]["proved"]["code"] == "FASTER"]
    yield "### Where each win comes from\n"
    lines = ["| kernel | size | rules alone | model alone | both |", "|---|---|---|---|---|"]
    for row in wins:
        cells = " | ".join(_either(row["attribution"][way]) for way in ("rules", "model", "both"))
        lines.append(f"| {row['kernel']} | {row['size']} | {cells} |")
    yield ("\n".join(lines) if wins else "No wins yet.") + "\n"


def _either(value: Any) -> str:
    return value if isinstance(value, str) else _x(value)


def _x(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _us(times: Mapping[str, float] | None) -> str:
    if times is None:
        return "-"
    return f"{times['median_us']:.1f} ({times['lower_quartile_us']:.1f} to {times['upper_quartile_us']:.1f})"


def _short(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= 160 else first[:157] + "..."
