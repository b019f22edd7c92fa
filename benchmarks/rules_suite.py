"""What the rule-based rewriter reaches with no model and no GPU: the suite's kernels and the ten golden ones.

    python benchmarks/rules_suite.py [--answers 4] [--only conv1d …]    # goes on where it was stopped
    python benchmarks/rules_suite.py --table                            # of what was measured, nothing run
    python benchmarks/rules_suite.py --rehearse                         # two kernels, one answer each, nothing kept

For each kernel: is one of its regions recognised (where none may be rewritten by itself, the whole body), how many
candidates there are, which assemble, pass the executor's launches and are proved, and in how many CPU seconds. A row is
kept as long as the candidates' texts stay what they were.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import ROOT, use_checkout

use_checkout()

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite.rules.rewriter import Proposal
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.passes.verify.reference import Reference

RESULT = ROOT / "benchmarks" / "results" / "rules_suite.json"
GOLDEN = ROOT / "tests" / "rewrite" / "golden" / "kernels.py"
ARCH = "sm_90"
MOST_LAUNCHES = 48
NOT_PROVED = "not proved: "
VOID = ("void: the baseline", "timeout: the baseline")
"""How reasons begin that are the kernel's own: it is not proved equal to itself, so nothing can be."""


@dataclass(slots=True)
class Row:
    """``verdict`` of a candidate: refused, refuted, tested, unknown or proved; ``aside`` is what a proof sets aside."""

    kernel: str
    set: str
    region: str
    reason: str = ""
    digest: str = ""
    candidates: list[dict[str, Any]] = field(default_factory=list)


def cases(only: Sequence[str]) -> Iterator[tuple[str, Kernel, tuple[Launch, ...]]]:
    """(set, kernel, example launches)"""
    from benchmarks.suite.case import load, names
    from hybridcc import sources
    from hybridcc.building import launches_of
    from hybridcc.frontends import numba

    for name in names():
        if not only or name in only:
            case = load(name)
            tiny = case.launch("tiny")
            one = replace(tiny, grid=(1, 1, 1))  # more trips for whoever strides by the grid
            yield "suite", numba.compile(case.kernel, case.kernel.signatures[0], ARCH), (tiny, one)
    for source in sources.load(str(GOLDEN), [ARCH]):
        (kernel,) = source.kernels
        if not only or kernel.name in only:
            yield "golden", kernel, launches_of(source, None)


def regions(kernel: Kernel) -> list[Region]:
    """Those that may be rewritten, else the whole body where that may."""
    from hybridcc.asking import body_of, regions_of

    found = [region for region in regions_of(kernel) if region.eligible]
    return found or [region for region in body_of(kernel) if region.eligible]


def proposed(kernel: Kernel, region: Region, answers: int) -> tuple[tuple[Proposal, ...], str]:
    from hybridcc.passes.rewrite.rules.rewriter import proposals
    from hybridcc.passes.rewrite.rules.subject import Unrecognised

    try:
        return proposals(region, answers, kernel.facts), ""
    except Unrecognised as reason:
        return (), str(reason)


def judged(kernel: Kernel, region: Region, proposal: Proposal, reference: Reference, void: str) -> dict[str, Any]:
    """What becomes of one candidate. A refusal is a result; whatever else is raised is a fault. ``void`` says why no
    candidate of this kernel can be proved, if that is known."""
    from hybridcc.errors import AnswerRejected, AssemblyError, SpliceRefused
    from hybridcc.passes.rewrite import answer
    from hybridcc.passes.splice import splice
    from hybridcc.passes.verdict import Proved, Tested, Unknown
    from hybridcc.passes.verify.proving import prove
    from hybridcc.passes.verify.testing import examine
    from hybridcc.ptx import parse
    from hybridcc.runtime.assemble import assemble

    row: dict[str, Any] = {"rule": proposal.rule, "assembles": False, "tested": False, "verdict": "refused"}
    begin, wall = cpu(), time.monotonic()
    try:
        text = answer.check(proposal.text, region, kernel.arch).text
        spliced = splice(parse(kernel.ptx, kernel.name), region, text)
        row["registers"] = assemble(spliced.text, kernel.arch).registers
    except (AnswerRejected, SpliceRefused, AssemblyError) as refusal:
        return row | {"reason": f"{refusal.code}: {str(refusal)[:200]}"}
    row["assembles"] = True
    examined = examine(reference, spliced.text, rewritten=spliced.rewritten, most=MOST_LAUNCHES).verdict
    row |= {"verdict": type(examined).__name__.lower(), "tested": isinstance(examined, Tested)}
    if isinstance(examined, Tested):
        verdict = Unknown(void) if void else prove(kernel.ptx, spliced.text, kernel.entry, kernel.facts)
        if isinstance(verdict, Proved):
            row |= {"verdict": "proved", "aside": list(getattr(verdict, "aside", ()))}
        else:
            row["reason"] = f"{NOT_PROVED}{getattr(verdict, 'reason', verdict)}"[:300]
    else:
        row["reason"] = str(examined)[:300]
    return row | {"cpu_seconds": round(cpu() - begin, 2), "seconds": round(time.monotonic() - wall, 2)}


def cpu() -> float:
    """Seconds of this process and of the children that ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def run(only: Sequence[str], answers: int, kept: dict[str, Row]) -> Iterator[Row]:
    """A row for each region, done anew where its candidates changed."""
    from hybridcc.passes.verify.bare import with_arguments
    from hybridcc.passes.verify.reference import reference_for

    for group, kernel, examples in cases(only):
        reference, void = None, ""
        for region in regions(kernel):
            found, reason = proposed(kernel, region, answers)
            texts = "".join(p.text for p in found) + reason + region.key
            digest = hashlib.sha256(texts.encode()).hexdigest()
            old = kept.get(f"{group} {kernel.name} {region.id}")
            if old is not None and old.digest == digest:
                yield old
                continue
            row = Row(kernel.name, group, region.id, reason, digest)
            if found and reference is None:
                reference = reference_for(with_arguments(kernel), examples=examples, seed=0)
            for proposal in found:
                assert reference is not None
                made = judged(kernel, region, proposal, reference, void)
                row.candidates.append(made)
                reason = made.get("reason", "").removeprefix(NOT_PROVED)
                void = void or (reason if reason.startswith(VOID) else "")
            yield row


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| kernel | region | candidates | assemble | tested | proved | best | CPU s |"
    yield "| --- " * 8 + "|"
    for row in rows:
        here = row.candidates
        proved = [c for c in here if c["verdict"] == "proved"]
        best = min(proved, key=lambda c: len(c["aside"]), default=None)
        words = row.reason
        if best is not None:
            words = ", ".join([best["rule"], *(f"{each} aside" for each in best["aside"])])
        elif here:
            words = here[0].get("reason", here[0]["verdict"])[:90]
        counts = [len(here), sum(c["assembles"] for c in here), sum(c["tested"] for c in here), len(proved)]
        seconds = sum(c.get("cpu_seconds", 0) for c in here)
        name = f"{row.kernel}{' (golden)' if row.set == 'golden' else ''}"
        yield f"| {name} | {row.region} | {' | '.join(map(str, counts))} | {words} | {seconds:.1f} |"


def summary(rows: Sequence[Row]) -> str:
    kernels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kernels.setdefault((row.set, row.kernel), []).append(row)
    parts = []
    for group in ("suite", "golden"):
        own = [rows for (name, _), rows in kernels.items() if name == group]
        verdicts = [{c["verdict"] for row in rows for c in row.candidates} for rows in own]
        known = sum(any(row.candidates for row in rows) for rows in own)
        tested = sum(bool(found & {"tested", "proved"}) for found in verdicts)
        proved = sum("proved" in found for found in verdicts)
        parts.append(f"{group}: {len(own)} kernels, {known} recognised, {tested} passed the tests, {proved} proved")
    return "; ".join(parts)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--answers", type=int, default=4, help="candidates for each region")
    options.add_argument("--only", nargs="*", default=[], help="kernels")
    options.add_argument("--out", type=Path, default=RESULT)
    options.add_argument("--table", action="store_true")
    options.add_argument("--rehearse", action="store_true")
    given = options.parse_args()
    kept = {f"{r['set']} {r['kernel']} {r['region']}": Row(**r) for r in read(given.out)}
    if given.rehearse:
        rows = list(run(["colsum", "saxpy"], 1, {}))
        print(*table(rows), summary(rows), sep="\n")
        return 0
    if not given.table:
        for row in run(given.only, given.answers, kept):
            kept[f"{row.set} {row.kernel} {row.region}"] = row
            given.out.write_text(json.dumps([asdict(r) for r in sorted(kept.values(), key=place)], indent=1) + "\n")
            print(*list(table([row]))[2:], flush=True)
    rows = sorted(kept.values(), key=place)
    print(*table(rows), "", summary(rows), sep="\n")
    return 0


def place(row: Row) -> tuple[bool, str, str]:
    return row.set == "golden", row.kernel, row.region


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
