"""What races found, in the store: under what it is kept, what of it lasts, when a kept variant is checked again."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hybridcc.passes.kernel import Kernel
from hybridcc.passes.verdict import Unknown
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.proving import IRREPRODUCIBLE
from hybridcc.records import BASELINE, ArchitectureRecord, CandidateRecord, Selection, Speed
from hybridcc.runtime import store
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import race
from hybridcc.runtime.race_job import Contender
from hybridcc.runtime.store import Decision, Measured

if TYPE_CHECKING:
    from hybridcc.pipeline import Options
    from hybridcc.runtime.race import Race

LASTING = frozenset({"FASTER", "NOT_FASTER"})
"""Codes of selections that a second race would give again."""

_log = logging.getLogger("hybridcc")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel on one device, as data: what is tuned, in whatever process. ``launch`` holds copies of the
    arguments (None where nobody needs them) and ``alignments`` the caller's own, ``shape`` is the launch's class
    (runtime/launch_class.py), ``own`` the machine code that Numba launches for it."""

    kernel: Kernel
    launch: Launch | None
    alignments: tuple[int, ...]
    device: Device
    shape: Mapping[str, object]
    own: Contender | None = field(default=None, repr=False)


# --- what a row is kept under ---


def situation(kernel: Kernel, device: Device, shape: Mapping[str, object], options: Options) -> dict[str, object]:
    """Everything that a measurement rests on besides the two that were measured."""
    from hybridcc import __version__
    from hybridcc.ptx import parse
    from hybridcc.ptx.canonical import canonical_key
    from hybridcc.runtime import assemble, toolchain

    major, minor = device.capability
    return {
        "ptx": canonical_key(parse(kernel.ptx, kernel.name), kernel.entry),
        "hybridcc": __version__,
        "compiler": kernel.frontend,
        "tools": toolchain.versions(),
        "assembler": str(assemble.identity(options.assembler)),
        "arch": kernel.arch,
        "device": device.name,
        "capability": f"{major}.{minor}",
        "driver": device.driver,
        "shape": dict(shape),
    }


def decision_identity(
    situation: Mapping[str, object], regions: Sequence[str], options: Options, rewriter: str
) -> dict[str, object]:
    """``regions`` are the keys of those that may be rewritten; ``rewriter`` is what ``rewriter_identity`` gives."""
    return {
        "situation": situation,
        "regions": list(regions),
        "accept": options.accept,
        "select": options.select,
        "rewriter": rewriter,
        "answers": options.answers,
        "budget": str(options.budget),
        "seed": options.seed,
    }


def rewriter_identity(spec: str) -> str:
    """The spec with a hash of what it names on this machine: a recording by its bytes, a model's folder by its files'
    names and sizes."""
    kind, _, rest = spec.partition(":")
    path = Path(rest)
    if kind == "replay" and path.is_file():
        return f"replay:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    if kind == "transformers" and path.is_dir():
        files = sorted((str(f.relative_to(path)), f.stat().st_size) for f in path.rglob("*") if f.is_file())
        return f"transformers:{hashlib.sha256(repr(files).encode()).hexdigest()}"
    return spec


def region_keys(kernel: Kernel) -> tuple[str, ...]:
    from hybridcc.asking import regions_of

    return tuple(region.key for region in regions_of(kernel) if region.eligible)


def measured_identity(
    situation: Mapping[str, object], candidate: CandidateRecord, own: Contender | None
) -> dict[str, object]:
    """One variant's bytes, with those of Numba's that it was held to as well."""
    assert candidate.machine is not None
    return {
        "situation": situation,
        "region": candidate.region,
        "variant": hashlib.sha256(candidate.machine.cubin.bytes).hexdigest(),
        "numba": None if own is None else hashlib.sha256(own.cubin).hexdigest(),
    }


# --- single variants ---


def remembered(
    situation: Mapping[str, object], candidates: Sequence[CandidateRecord], own: Contender | None
) -> dict[str, Speed]:
    """By name, the speeds of those that were measured before: only the others have to race. Raises OutputError."""
    keys = {store.key_of(measured_identity(situation, c, own)): c.name for c in candidates}
    return {keys[key]: _speed(row) for key, row in store.measured(list(keys)).items()}


def _speed(row: Measured) -> Speed:
    evidence = row.evidence
    interval = evidence.get("interval")
    day = time.strftime("%Y-%m-%d", time.gmtime(row.made))
    return Speed(
        "inconclusive" if row.kind == "refuted" else row.kind,
        str(evidence.get("reason", "")) or f"measured on {day}",
        evidence.get("ratio"),  # type: ignore[arg-type]
        tuple(interval) if isinstance(interval, list) else None,  # type: ignore[arg-type]
        str(evidence.get("device", "")),
        str(evidence.get("deviation", "")),
    )


def measured_rows(
    kernel: str,
    situation: Mapping[str, object],
    candidates: Sequence[CandidateRecord],
    own: Contender | None,
    speeds: Mapping[str, Speed],
    raced: Race,
) -> list[Measured]:
    """A row for each variant whose speed would come out the same the next time."""
    return [
        Measured(
            kernel,
            measured_identity(situation, candidate, own),
            kind,
            {
                "reason": speed.reason,
                "ratio": speed.ratio,
                "interval": None if speed.interval is None else list(speed.interval),
                "device": speed.device,
                "deviation": speed.deviation,
                "noise_floor": raced.noise_floor,
            },
        )
        for candidate in candidates
        for speed in [speeds.get(candidate.name)]
        if speed is not None and (kind := _lasting_kind(speed)) is not None
    ]


def _lasting_kind(speed: Speed) -> store.MeasuredKind | None:
    if speed.deviation:
        return "refuted"
    return speed.kind if speed.kind in ("faster", "slower", "same") else None


# --- decisions ---


def lasts(selection: Selection, architecture: ArchitectureRecord) -> bool:
    """Whether the selection would be the same the next time. Where the baseline was selected, a race without a result
    or a proof that ran out of time might have hidden something better; where a variant was, it won all the same."""
    if selection.code not in LASTING:
        return False
    if selection.variant != BASELINE:
        return True
    return not any(_open(candidate) for candidate in architecture.candidates)


def _open(candidate: CandidateRecord) -> bool:
    if candidate.speed.kind == "inconclusive" and not candidate.speed.deviation:
        return True
    if candidate.evidence is None:
        return False
    reasons = [note.removeprefix("not proved: ") for note in candidate.evidence.notes]
    if isinstance(candidate.evidence.verdict, Unknown):
        reasons.append(candidate.evidence.verdict.reason)
    return any(reason.startswith(IRREPRODUCIBLE) for reason in reasons)


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def driver_build(device: Device) -> str:
    """The driver's own version ("580.95.05"), else the CUDA that it speaks."""
    from hybridcc.runtime.clocks import open_clocks

    clocks = open_clocks(device.uuid)
    return (clocks.driver_version() if clocks is not None else "") or f"CUDA {device.driver}"


def needs_check(found: Decision, device: Device) -> bool:
    """Whether a kept variant was not yet compared with the baseline today and on this driver."""
    checked = (found.checked_day, found.checked_driver)
    return found.cubin is not None and checked != (today(), driver_build(device))


def still_good(found: Decision, call: Call, options: Options) -> bool:
    """Whether a kept variant may run. It is compared with the baseline on this very call if it needs a check; one that
    differs is forgotten."""
    from hybridcc.runtime.assemble import assemble

    if found.cubin is None or not needs_check(found, call.device):
        return True
    assert call.launch is not None
    kernel = call.kernel
    baseline = Contender(BASELINE, assemble(kernel.ptx, kernel.arch, options.assembler).bytes, kernel.entry)
    variant = Contender(found.variant, found.cubin, kernel.entry)
    raced = race(
        baseline, [variant], kernel.arguments, call.launch, call.device, timed=False, alignments=call.alignments
    )
    if raced.deviations:
        _log.warning("%s: a kept variant is dropped: %s", kernel.name, raced.deviations[0].what)
        store.forget([found.key])
        return False
    if raced.void:
        _log.info("%s: a kept variant could not be checked: %s", kernel.name, raced.void)
        return False
    store.mark_checked(found.key, today(), driver_build(call.device))
    return True
