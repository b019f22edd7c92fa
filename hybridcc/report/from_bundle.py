"""From what a build left to its report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc import __version__
from hybridcc.attempt import attempt
from hybridcc.passes.rewrite.rejection import NEXT_STEPS
from hybridcc.records import BASELINE
from hybridcc.report.means import geometric_mean
from hybridcc.report.model import (
    Architecture,
    Candidate,
    Code,
    Diff,
    Exchange,
    Funnel,
    Kernel,
    Region,
    Report,
    Speed,
)

if TYPE_CHECKING:
    from hybridcc.records import KernelRecord
    from hybridcc.runtime.bundle import Bundle

Data = Mapping[str, Any]
OVERRIDE = "HYBRIDCC=off takes hybridcc out; --accept and --select say what may be selected"


def of_bundles(places: Sequence[Path], made_from: str) -> Report:
    """One report over all of them. Raises InputError for a place that is no bundle."""
    from hybridcc.runtime import bundle

    kernels = tuple(_kernel(bundle.load(place)) for place in places)
    tools = {name: version for place in places for name, version in bundle.load(place).manifest["tools"].items()}
    return Report(made_from, __version__, tools, kernels, (), summary_of(kernels))


@dataclass(frozen=True, slots=True)
class Held:
    """A record that was written nowhere, with what `from_bundle` asks of a bundle."""

    manifest: Data
    files: Mapping[str, bytes]

    def read(self, name: str) -> bytes:
        return self.files[name]


def of_record(record: KernelRecord) -> Report:
    """What ``optimize`` found, reported like a bundle."""
    from hybridcc.manifest import files_of, manifest_of

    made = files_of(record)
    files = {name: content if isinstance(content, bytes) else content.encode() for name, content in made.items()}
    held = Held({**manifest_of(record), "files": dict.fromkeys(files, "")}, files)
    kernels = (_kernel(held),)
    return Report(record.name, __version__, dict(record.tools), kernels, (), summary_of(kernels))


def summary_of(kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Counts over all architectures, and the mean over those that were measured."""
    architectures = [a for kernel in kernels for a in kernel.architectures]
    candidates = [c for a in architectures for c in a.candidates]
    chosen = [c.speed.ratio for a in architectures for c in a.candidates if c.name == a.variant and c.speed.ratio]
    measured = [*chosen, *(1.0 for a in architectures if a.measured and a.variant == BASELINE)]
    return {
        "kernels": len(kernels),
        "architectures": len(architectures),
        "rewritten": sum(a.variant != BASELINE for a in architectures),
        "fates": dict(Counter(c.fate for c in candidates)),
        "verdicts": dict(Counter(c.verdict for c in candidates if c.verdict)),
        "geomean": geometric_mean(measured),
        "measured": len(measured),
    }


def _kernel(found: Bundle | Held) -> Kernel:
    manifest = found.manifest
    kernel, policy = manifest["kernel"], manifest["policy"]
    exchanges = _exchanges(found)
    answers = {(e.hash, _sha(a)): a for e in exchanges for a in e.answers}
    return Kernel(
        kernel["name"],
        kernel["frontend"],
        kernel["source"],
        tuple(kernel["parameters"]),
        f"accept {policy['accept']}, select {policy['select']}",
        str(policy.get("rewriter") or manifest.get("rewriter") or ""),
        tuple(_architecture(found, entry, answers) for entry in manifest["architectures"]),
        exchanges,
        OVERRIDE,
    )


def _sha(text: str) -> str:
    from hybridcc.runtime.bundle import sha256

    return sha256(text)


def _exchanges(found: Bundle | Held) -> tuple[Exchange, ...]:
    if "prompts.jsonl" not in found.manifest["files"]:
        return ()
    held = [json.loads(line) for line in found.read("prompts.jsonl").decode().split("\n") if line]
    return tuple(
        Exchange(e["prompt_hash"], str(e.get("template_version", "")), e["prompt"], tuple(e["answers"])) for e in held
    )


def _architecture(found: Bundle | Held, entry: Data, answers: Mapping[tuple[str, str], str]) -> Architecture:
    selection = entry["selection"]
    candidates = tuple(_candidate(c, answers) for c in entry["candidates"])
    chosen = next((c for c in candidates if c.name == selection["variant"]), None)
    return Architecture(
        entry["arch"],
        headline(entry["arch"], selection, chosen),
        selection["variant"],
        selection["code"],
        selection["reason"],
        bool(selection["measured"]),
        _code(BASELINE, entry["baseline"]),
        candidates,
        tuple(
            Region(r["name"], r["share"], r["weight"], r["effects"], r["answers"], r["ineligible"])
            for r in entry["regions"]
        ),
        tuple(_fact(fact) for fact in entry.get("facts", ())),
        _funnel(candidates, entry),
        tuple(f"{f['stage']} failed [{f['code']}]: {f['message']}" for f in entry["failures"]),
        _diffs(found, entry, chosen or next((c for c in candidates if c.stage in ("proved", "tested")), None)),
    )


def headline(arch: str, selection: Data, chosen: Candidate | None) -> str:
    """The verdict line: speed, then correctness, kept apart."""
    if chosen is None:
        return f"BASELINE [{selection['code']}] {arch} - {selection['reason']}"
    speed = chosen.speed
    if speed.ratio is None or speed.interval is None:
        return f"NOT MEASURED ({speed.reason}) {arch} {chosen.name} - verified: {chosen.verdict_text}"
    low, high = speed.interval
    return (
        f"{speed.kind.upper()} {speed.ratio:.2f}x [{low:.2f}, {high:.2f}] {arch} {speed.device} {chosen.name} - "
        f"verified: {chosen.verdict_text}"
    )


def _candidate(c: Data, answers: Mapping[tuple[str, str], str]) -> Candidate:
    verdict, evidence, speed = c["verdict"], c["evidence"], c["speed"]
    certificate = json.loads(verdict["certificate"]) if verdict and verdict.get("certificate") else {}
    proof = {k: certificate[k] for k in ("solver", "queries", "seconds", "facts", "assumes") if k in certificate}
    families = evidence["families"] if evidence else {}
    interval = speed["interval"]
    kind = verdict["kind"] if verdict else ""
    return Candidate(
        c["name"],
        c["region"],
        c["fate"]["kind"],
        c["fate"]["code"],
        c["fate"]["detail"],
        _stage(c, kind),
        kind,
        verdict["text"] if verdict else "",
        Speed(
            speed["kind"],
            speed["ratio"],
            (interval[0], interval[1]) if interval else None,
            speed["device"],
            speed.get("noise"),
            speed["reason"],
        ),
        _code(c["name"], c),
        proof,
        {name: counts["launches"] for name, counts in families.items()},
        c["explanation"],
        answers.get((c["prompt_hash"], c["answer_sha256"]), ""),
        c["round"],
        c["after"],
    )


def _stage(c: Data, verdict: str) -> str:
    """The last stage that it passed."""
    if verdict in ("proved", "tested", "tested_within"):
        return "proved" if verdict == "proved" else "tested"
    if c["machine"] is not None:
        return "assembled"
    stopped = c["fate"]["code"]
    return "sampled" if stopped in NEXT_STEPS or c["fate"]["detail"].startswith("answer:") else "parsed"


def _code(name: str, held: Data) -> Code | None:
    machine = held["machine"]
    if machine is None:
        return None
    return Code(
        name,
        held["ptx_sha256"],
        held["cubin_sha256"],
        machine["assembler"],
        machine["registers"],
        machine["spill_stores"],
        machine["spill_loads"],
        machine["shared_bytes"],
        machine["local_bytes"],
        machine["cubin_bytes"],
        machine["instructions"],
    )


def _fact(fact: Data) -> str:
    from hybridcc.passes.facts_data import from_data

    return f"{from_data(fact)} [{fact['origin']}]"


def _funnel(candidates: Sequence[Candidate], entry: Data) -> Funnel:
    order = ("sampled", "parsed", "assembled", "tested", "proved")
    reached = {stage: sum(order.index(c.stage) >= n for c in candidates) for n, stage in enumerate(order)}
    raced = [c for c in candidates if c.speed.ratio is not None]
    return Funnel(
        len(candidates),
        reached["parsed"],
        reached["assembled"],
        reached["tested"],
        reached["proved"],
        sum(c.speed.kind == "faster" for c in raced) if raced else None,
        dict(Counter(c.code for c in candidates if c.fate == "failed")),
        tuple(dict.fromkeys(n for c in entry["candidates"] if c["machine"] for n in c["machine"]["notes"])),
    )


def _diffs(found: Bundle | Held, entry: Data, shown: Candidate | None) -> tuple[Diff, ...]:
    """Baseline against the chosen candidate, or the first that passed; none where the toolkit cannot read a cubin."""
    from hybridcc.report import diffs

    if shown is None:
        return ()
    arch, name = entry["arch"], entry["entry"]
    before, after = (f"{part}.{arch}" for part in (BASELINE, shown.name))
    texts = [found.read(f"{stem}.ptx").decode() for stem in (before, after)]
    made = [attempt("diff", [], lambda: diffs.ptx(texts[0], texts[1], name), None)]
    cubins = [found.read(f"{stem}.cubin") for stem in (before, after)]
    made.append(attempt("diff", [], lambda: _sass(cubins, arch, name), None))
    return tuple(diff for diff in made if diff is not None)


def _sass(cubins: Sequence[bytes], arch: str, entry: str) -> Diff:
    from hybridcc.report import diffs
    from hybridcc.runtime.sass import disassemble_bytes

    listings = [
        [str(i) for f in functions if f.name == entry for i in f.instructions]
        for functions in disassemble_bytes(cubins, arch)
    ]
    return diffs.sass(listings[0], listings[1], entry)
