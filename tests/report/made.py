"""Records as the pipeline would make them, with cubins of a stand-in assembler."""

from __future__ import annotations

from dataclasses import replace

from hybridcc.passes.verdict import Proved, Refuted, Tested, Unknown, Verdict
from hybridcc.passes.verify.testing import Examination
from hybridcc.records import (
    PENDING,
    Accept,
    ArchitectureRecord,
    CandidateRecord,
    Failure,
    Fate,
    KernelRecord,
    Machine,
    RegionRecord,
    Select,
    Speed,
)
from hybridcc.runtime.assemble import Assembler, Cubin
from hybridcc.runtime.assembler_log import Resources
from hybridcc.selection import select

TESTED = Tested(75, 61, ("sizes", "values nan"), 61)
REFUTED = Refuted("y[3] is 1.0 in the baseline and 2.0 in the candidate on grid 1x1x1", "sizes")
UNKNOWN = Unknown("not exercised: no launch executed every rewritten block")
PROVED = Proved('{"seconds": 0.5}')

FASTER = Speed("faster", ratio=5.5, interval=(5.4, 5.6), device="H200")
SLOWER = Speed("slower", ratio=0.5, interval=(0.4, 0.6), device="H200")
SAME = Speed("same", ratio=1.0, interval=(0.99, 1.01), device="H200")
INCONCLUSIVE = Speed("inconclusive", "clocks changed")
NOT_MEASURED = Speed("not_measured", "no sm_80 GPU here")


def machine(registers: int = 30, spills: int = 0, content: bytes = b"cubin") -> Machine:
    resources = Resources("k", registers, 0, 0, spills, spills, 0, 0)
    cubin = Cubin(content, "sm_80", Assembler("nvjitlink", "13.0.88"), (resources,), "")
    return Machine(cubin, 100 + registers)


def candidate(number: int, verdict: Verdict | None, speed: Speed = NOT_MEASURED, spills: int = 0) -> CandidateRecord:
    record = CandidateRecord(f"r0-{number}", "r0", "ab" * 32, f"answer {number}", PENDING, speed=speed)
    if verdict is None:
        return replace(record, fate=Fate("failed", "NAME_COLLISION", "splice: the name is in use"))
    skipped = (("OUT_OF_BOUNDS", 4),)
    families = (("sizes", 40, 36), ("values nan", 35, 25))
    evidence = Examination(verdict, 75, skipped, families, "types", ("n + m; n; m",))
    return replace(record, ptx=f".version 8.0 // {number}", evidence=evidence, machine=machine(40, spills))


def kernel_record(
    *candidates: CandidateRecord, accept: Accept = "tested", how: Select = "proved", failures=()
) -> KernelRecord:
    failures = tuple(Failure(*f) for f in failures)
    architectures = []
    for arch in ("sm_80", "sm_90"):
        selection, settled = select(machine(), candidates, accept, how, failures)
        region = RegionRecord("r0", "hot", 0.9, 6, 5, 1, "2 global loads", prompt_hash="ab" * 32, answers=2)
        architectures.append(
            ArchitectureRecord(arch, ".version 8.0", machine(), (region,), settled, selection, failures)
        )
    return KernelRecord(
        "conv1d", "numba-cuda 0.30.4", "conv1d.py:12", ("x: float32",), accept, how, "replay:conv1d.answers.jsonl", 0,
        (("nvjitlink", "13.0.88"),), tuple(architectures),
    )  # fmt: skip
