"""What each stage of a run gave, as files for people: ``--dump-stages DIR``.

One folder a stage in the order of the data: frontend, regions, prompts, answers, spliced, assembled, verdicts,
selection. Whoever looks for the place where something went wrong reads from the first to the last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from hybridcc.asking import body_of, fitting, regions_of
from hybridcc.attempt import attempt
from hybridcc.byhand import Origin, text_of
from hybridcc.passes.kernel import Kernel
from hybridcc.records import BASELINE, ArchitectureRecord, KernelRecord, Machine
from hybridcc.report.words import verdict_data
from hybridcc.work import Options


def dump(folder: Path, kernels: Sequence[Kernel], record: KernelRecord, options: Options) -> None:
    """Write ``folder/<kernel>/``, at once or not at all. Raises OutputError."""
    from hybridcc.runtime.folder import replace_folder

    replace_folder(folder / record.name, dict(stages(kernels, record, options)))


def stages(kernels: Sequence[Kernel], record: KernelRecord, options: Options) -> Iterator[tuple[str, bytes]]:
    """(relative path, content) of every file."""
    for kernel, architecture in zip(kernels, record.architectures, strict=True):
        arch = architecture.arch
        yield f"1-frontend/{arch}.ptx", kernel.ptx.encode()
        yield f"1-frontend/{arch}.facts.txt", _lines(f"{fact}  [{fact.origin.value}]" for fact in kernel.facts)
        yield from _regions(kernel, options)
        yield from _candidates(architecture)
        yield f"8-selection/{arch}.json", _json(asdict(architecture.selection))
        yield f"8-selection/{arch}.failures.txt", _lines(
            f"{f.stage} [{f.code}]: {f.message}" for f in (*record.failures, *architecture.failures)
        )
    for number, exchange in enumerate(record.exchanges):
        stem = f"{number:03}-{exchange.prompt_hash[:12]}"
        yield f"3-prompts/{stem}.txt", exchange.prompt.encode()
        for k, answer in enumerate(exchange.answers):
            yield f"4-answers/{stem}.{k}.txt", answer.encode()


def _regions(kernel: Kernel, options: Options) -> Iterator[tuple[str, bytes]]:
    """Found again: a pure function of the PTX and its facts."""
    found = attempt("regions", [], lambda: body_of(kernel) if options.body else regions_of(kernel, options.regions), ())
    for region in attempt("regions", [], lambda: fitting(kernel, found, options.window), ()):
        origin = Origin(kernel.source_file.rpartition("/")[2], "", kernel.entry, kernel.arch, region.id, region.key)
        note = "" if region.ineligible is None else f"not offered: {region.ineligible}"
        yield f"2-regions/{kernel.arch}/{region.id}.ptx", text_of(origin, region, note=note).encode()


def _candidates(architecture: ArchitectureRecord) -> Iterator[tuple[str, bytes]]:
    arch = architecture.arch
    yield from _machine(f"6-assembled/{arch}/{BASELINE}", architecture.baseline)
    for candidate in architecture.candidates:
        if candidate.ptx is not None:
            yield f"5-spliced/{arch}/{candidate.name}.ptx", candidate.ptx.encode()
        yield from _machine(f"6-assembled/{arch}/{candidate.name}", candidate.machine)
        verdict = None if candidate.evidence is None else verdict_data(candidate.evidence.verdict)
        notes = () if candidate.evidence is None else candidate.evidence.notes
        told = {
            "fate": asdict(candidate.fate), "verdict": verdict, "notes": list(notes),
            "explanation": candidate.explanation, "speed": asdict(candidate.speed),
            "lints": [str(finding) for finding in candidate.findings],
        }  # fmt: skip
        yield f"7-verdicts/{arch}/{candidate.name}.json", _json(told)


def _machine(stem: str, machine: Machine | None) -> Iterator[tuple[str, bytes]]:
    """The cubin, its listing where the disassembler can read it, and the assembler's own words."""
    from hybridcc.runtime.sass import sass

    if machine is None:
        return
    yield f"{stem}.cubin", machine.cubin.bytes
    yield f"{stem}.log", machine.cubin.log.encode()
    listing = attempt("disassemble", [], lambda: sass(machine.cubin), "")
    if listing:
        yield f"{stem}.sass", listing.encode()


def _lines(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json(data: object) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()
