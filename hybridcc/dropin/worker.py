"""PTX in, PTX with every proved rewrite out: a process of its own, so that its faults are not the build's.

It reads one task as JSON from stdin and writes one answer to stdout. Nothing is measured: a build does not use a GPU.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc.errors import HybridccError, PtxRefused

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel


def improve(task: dict[str, Any]) -> dict[str, Any]:
    """``ptx`` is the rewritten module or None, ``notes`` say what became of it, ``kernels`` are the manifests of
    those with a region to rewrite.

    Raises PtxRefused for PTX that ptxas does not take, and HybridccError for other failures before any rewrite."""
    from hybridcc.building import open_or_failure, portable
    from hybridcc.flows.module import selected
    from hybridcc.frontends import ptx_file
    from hybridcc.manifest import manifest_of
    from hybridcc.pipeline import Options, optimize
    from hybridcc.records import BASELINE, Budget

    kernels = ptx_file.from_text(task["ptx"], None, task["arch"], name=task["name"])
    rewriter, failure = open_or_failure(task["rewriter"])
    options = Options(
        accept="proved",
        select="proved",
        rewriter=portable(task["rewriter"]),
        assembler="ptxas",
        flags=tuple(task["flags"]),
        ptxas=Path(task["ptxas"]),
        budget=Budget(seconds=task["seconds"]),
    )
    ptx, manifests = task["ptx"], []
    notes: list[str] = []
    reasons: list[str] = []
    for kernel in kernels:
        if not _has_work(replace(kernel, ptx=ptx), options.regions):
            reasons.append("nothing to rewrite")
            continue
        record = optimize([replace(kernel, ptx=ptx)], options, rewriter, failures=(failure[0],) if failure else ())
        (only,) = record.architectures
        ptx = selected(only)[0]
        manifests.append(manifest_of(record))
        if only.selection.variant != BASELINE:
            notes.append(f"{kernel.name}: rewritten, proved ({only.selection.variant}); its speed was not measured")
        else:
            reasons.append(only.selection.reason.removeprefix("baseline selected: "))
    if not notes:
        return {"ptx": None, "notes": [f"passed through: {reasons[0]}"], "kernels": manifests}
    return {"ptx": ptx, "notes": notes, "kernels": manifests}


def _has_work(kernel: Kernel, most: int) -> bool:
    """Asked before anything is assembled: most of the kernels of a large module have no loop. A failure here is met
    again, and recorded, by the pipeline."""
    from hybridcc.asking import regions_of
    from hybridcc.attempt import attempt

    found = attempt("regions", [], lambda: regions_of(kernel, most), None)
    return found is None or any(region.eligible for region in found)


def main() -> None:
    _go_with_the_parent()
    answer = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is no part of the answer
    try:
        said = improve(json.load(sys.stdin))
    except PtxRefused:  # ptxas refuses the module as it came, and will say so
        said = {"ptx": None, "notes": [], "kernels": []}
    except HybridccError as error:
        said = {"ptx": None, "notes": [f"passed through: {error.what.splitlines()[0]}"], "kernels": []}
    json.dump(said, answer)
    answer.flush()


def _go_with_the_parent() -> None:
    """Be killed when the drop-in is, and be the first to go where memory runs out."""
    import ctypes
    import signal

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit("the drop-in has ended")
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError as error:
        print(f"oom_score_adj: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
