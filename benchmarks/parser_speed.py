"""Lines a second that the parser and the printer do on one core, over the corpus.

Run from the checkout: python -m benchmarks.parser_speed [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from hybridcc.ptx import parse

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
ROUNDS = 5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="also write the figures here, as JSON")
    given = arguments.parse_args()
    texts = [file.read_text() for file in sorted(CORPUS.glob("*/*.ptx"))]
    lines = sum(text.count("\n") for text in texts)
    modules = [parse(text) for text in texts]
    figures = {
        "files": len(texts),
        "lines": lines,
        "parse_lines_per_second": _rate(lines, lambda: [parse(text) for text in texts]),
        "print_lines_per_second": _rate(lines, lambda: [str(module) for module in modules]),
        "rounds": ROUNDS,
        "statistic": "median over rounds of lines / CPU time",
        "python": platform.python_version(),
        "processor": _processor(),
    }
    text = json.dumps(figures, indent=2) + "\n"
    print(text, end="")
    if given.out:
        given.out.write_text(text)


def _rate(lines: int, work: Callable[[], object]) -> int:
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        rates.append(lines / (time.process_time() - began))
    return round(statistics.median(rates))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    named = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return named[0].partition(": ")[2] if named else platform.processor()


if __name__ == "__main__":
    main()
