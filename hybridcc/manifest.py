"""From a kernel's record to its bundle: the manifest and the files beside it.

Nothing in it depends on when or where it was made: no time, no path beyond a file's own name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hybridcc import __version__
from hybridcc.passes.facts_data import to_data
from hybridcc.passes.verdict import Proved, Verdict
from hybridcc.passes.verify import stored
from hybridcc.passes.verify.launch import describe
from hybridcc.passes.verify.testing import Examination
from hybridcc.records import (
    BASELINE,
    ArchitectureRecord,
    CandidateRecord,
    Exchange,
    KernelRecord,
    Machine,
)
from hybridcc.report.words import verdict_data
from hybridcc.runtime.bundle import sha256


def manifest_of(record: KernelRecord) -> dict[str, Any]:
    """JSON-ready; bundle.write adds the schema version and the hashes of the files."""
    return {
        "hybridcc": __version__,
        "kernel": {
            "name": record.name,
            "frontend": record.frontend,
            "source": record.source,
            "parameters": list(record.parameters),
            "calling": record.calling,
        },
        "policy": {
            "accept": record.accept,
            "select": record.select,
            "rewriter": record.rewriter,
            "seed": record.seed,
        },
        "tools": dict(record.tools),
        "failures": [asdict(failure) for failure in record.failures],
        "architectures": [_architecture(record, a) for a in record.architectures],
        "prompts": [
            {
                "hash": e.prompt_hash,
                "template": e.template_version,
                "root": e.root,
                "about": e.about,
                "models": list(e.models),
                "answers": [sha256(a) for a in e.answers],
            }
            for e in record.exchanges
        ],
        "learned": [asdict(told) for told in record.told],
        "usage": {**asdict(record.usage), "ended_by": record.spent},
    }


def files_of(record: KernelRecord) -> dict[str, bytes]:
    """Every file of the bundle but the manifest and the log, by name."""
    files: dict[str, bytes] = {}
    for a in record.architectures:
        files[f"{BASELINE}.{a.arch}.ptx"] = a.baseline_ptx.encode()
        machines = {BASELINE: a.baseline} | {c.name: c.machine for c in a.candidates}
        for name, machine in machines.items():
            if machine is not None:
                files[f"{name}.{a.arch}.cubin"] = machine.cubin.bytes
        selected = machines.get(a.selection.variant)
        if selected is not None:
            files[f"selected.{a.arch}.cubin"] = selected.cubin.bytes
        for c in a.candidates:
            if c.ptx is not None:
                files[f"{c.name}.{a.arch}.ptx"] = c.ptx.encode()
            if c.evidence is not None and c.evidence.counterexample is not None:
                files[f"{c.name}.{a.arch}.counterexample.npz"] = stored.to_bytes(
                    c.evidence.counterexample, c.evidence.arguments
                )
    if record.exchanges:
        files["prompts.jsonl"] = b"".join(_line(exchange) for exchange in record.exchanges)
    return files


def _line(exchange: Exchange) -> bytes:
    return (json.dumps(asdict(exchange), sort_keys=True, ensure_ascii=False) + "\n").encode()


def _architecture(record: KernelRecord, a: ArchitectureRecord) -> dict[str, Any]:
    return {
        "arch": a.arch,
        "entry": a.entry,
        "selection": asdict(a.selection),
        "baseline": {"ptx_sha256": sha256(a.baseline_ptx), **_machine(a.baseline)},
        "regions": [asdict(r) for r in a.regions],
        "candidates": [_candidate(c) for c in a.candidates],
        "facts": [to_data(fact) for fact in a.facts],
        "lints": [asdict(finding) for finding in a.findings],
        "failures": [asdict(failure) for failure in a.failures],
    }


def _candidate(c: CandidateRecord) -> dict[str, Any]:
    return {
        "name": c.name,
        "region": c.region,
        "prompt_hash": c.prompt_hash,
        "round": c.round,
        "after": c.after,
        "answer_sha256": sha256(c.answer),
        "ptx_sha256": None if c.ptx is None else sha256(c.ptx),
        "fate": asdict(c.fate),
        "verdict": None if c.evidence is None else _verdict(c.evidence.verdict),
        "evidence": None if c.evidence is None else _evidence(c.evidence),
        "explanation": c.explanation,
        "lints": [asdict(finding) for finding in c.findings],
        "speed": asdict(c.speed),
        "minimised": None if c.minimised is None else asdict(c.minimised),
        **_machine(c.machine),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    """Without the time that a proof took: that is another one in every build, and log.json has it."""
    data = verdict_data(verdict)
    if isinstance(verdict, Proved):
        certificate = {name: value for name, value in json.loads(verdict.certificate).items() if name != "seconds"}
        data["certificate"] = json.dumps(certificate, separators=(",", ":"))
    return data


def proof_seconds(record: KernelRecord) -> dict[str, float]:
    """How long each proof took, by architecture and candidate."""
    return {
        f"{a.arch} {c.name}": json.loads(c.evidence.verdict.certificate)["seconds"]
        for a in record.architectures
        for c in a.candidates
        if c.evidence is not None and isinstance(c.evidence.verdict, Proved)
    }


def _evidence(e: Examination) -> dict[str, Any]:
    return {
        "launches": e.launches,
        "origin": e.origin,
        "plans": list(e.plans),
        "skipped": dict(e.skipped),
        "families": {name: {"launches": n, "exercised": hits} for name, n, hits in e.families},
        "notes": list(e.notes),
        "counterexample": None if e.counterexample is None else describe(e.counterexample),
    }


def _machine(machine: Machine | None) -> Mapping[str, Any]:
    if machine is None:
        return {"cubin_sha256": None, "machine": None}
    cubin = machine.cubin
    return {
        "cubin_sha256": sha256(cubin.bytes),
        "machine": {
            "assembler": str(cubin.assembler),
            "registers": cubin.registers,
            "spill_stores": cubin.spill_stores,
            "spill_loads": cubin.spill_loads,
            "shared_bytes": cubin.shared_bytes,
            "local_bytes": cubin.local_bytes,
            "cubin_bytes": len(cubin.bytes),
            "instructions": machine.instructions,
            "notes": list(cubin.notes),
        },
    }
