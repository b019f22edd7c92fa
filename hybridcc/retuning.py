"""What a bundle holds, raced on the machine at hand: the selection for its device, from the bundle's files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hybridcc.errors import InputError, ToolchainError
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, LaunchBounds, ScalarType
from hybridcc.passes.verdict import Proved, Tested, TestedWithin, Verdict
from hybridcc.passes.verify.launch import Launch
from hybridcc.passes.verify.testing import Examination
from hybridcc.records import BASELINE, PENDING, CandidateRecord, Machine, Selection
from hybridcc.refining import with_speed
from hybridcc.repacking import contents, repack
from hybridcc.runtime import bundle as bundles
from hybridcc.runtime.assemble import Assembler, Cubin
from hybridcc.runtime.assembler_log import Resources
from hybridcc.runtime.bundle import Bundle
from hybridcc.runtime.calling import BYTES
from hybridcc.selection import select

if TYPE_CHECKING:
    from hybridcc.runtime.device import Device
    from hybridcc.runtime.race import Progress, Race
    from hybridcc.runtime.race_job import Contender

BUDGET_S: Final = 60.0
CHECKED: Final = ("NOT_MEASURED", "NOT_FIRST", "NOT_FASTEST", "INCONCLUSIVE", "UNMEASURED", "FASTER", "SLOWER", "SAME")
"""Codes of candidates that had passed every check and were accepted by the bundle's policy."""


@dataclass(frozen=True, slots=True)
class Retuned:
    """The selection for one architecture, and every candidate that was raced with its fate."""

    arch: str
    device: str
    selection: Selection
    candidates: tuple[CandidateRecord, ...] = field(repr=False)
    race: Race = field(repr=False)

    @property
    def variant(self) -> str:
        """As ``Bundle.cubin`` takes it."""
        return self.selection.variant


def kernel_of(bundle: Bundle, arch: str) -> Kernel:
    """The kernel as its frontend handed it over. Raises InputError where its parameters are unknown or blocks of
    bytes."""
    calling = bundle.manifest["kernel"].get("calling")
    if calling is None or any(a["dtype"] == BYTES for a in calling["arguments"]):
        raise InputError(
            "does not say what its kernel's arguments are",
            where=str(bundle.folder),
            next_step="race where it is built: hybridcc build --inputs",
        )
    bounds = LaunchBounds(calling["max_threads"], calling["min_blocks"])
    arguments = tuple(_argument(each) for each in calling["arguments"])
    frontend = bundle.manifest["kernel"]["frontend"]
    entry = bundle.entry(arch).get("entry") or calling["entry"]
    return Kernel(bundle.name, entry, bundle.ptx(arch), arch, frontend, arguments, launch_bounds=bounds)


def _argument(data: Mapping[str, Any]) -> Argument:
    fields = tuple(Field(each["role"], each["type"], each["axis"]) for each in data["fields"])
    if data["ndim"] is None:
        return Argument(data["name"], ScalarType(data["dtype"]), fields)
    return Argument(data["name"], ArrayType(data["dtype"], data["ndim"], data["layout"], data["readonly"]), fields)


def retune(
    bundle: Bundle,
    arch: str,
    launch: Launch,
    device: Device,
    *,
    budget_s: float = BUDGET_S,
    seed: int = 0,
    progress: Progress = lambda message: None,
) -> Retuned:
    """Race the variants for ``arch`` on the values of ``launch``. Raises InputError for a bundle that was altered."""
    from hybridcc.runtime.race import race

    kernel = kernel_of(bundle, arch)
    standing = candidates_of(bundle, arch)
    raced = race(
        _contender(bundle, kernel, BASELINE, bundle.entry(arch)["baseline"]),
        [_contender(bundle, kernel, c.name, _data(bundle, arch, c.name)) for c in standing],
        kernel.arguments, launch, device, budget_s=budget_s, seed=seed, progress=progress,
    )  # fmt: skip
    from hybridcc.speeds import speed_of

    measured = [with_speed(c, speed_of(c.name, raced, device)) for c in standing]
    baseline = _machine(bundle, arch, BASELINE, bundle.entry(arch)["baseline"])
    selection, settled = select(baseline, measured, bundle.manifest["policy"]["accept"], "measured", ())
    return Retuned(arch, device.name, selection, settled, raced)


def candidates_of(bundle: Bundle, arch: str) -> list[CandidateRecord]:
    """Those that may be selected: they had passed every check. Raises InputError where there is none."""
    found = [
        CandidateRecord(
            each["name"], each["region"], each["prompt_hash"], "", PENDING,
            machine=_machine(bundle, arch, each["name"], each),
            evidence=Examination(_verdict(each["verdict"]), 0, (), (), "types"),
        )
        for each in bundle.entry(arch)["candidates"]
        if each["fate"]["code"] in CHECKED
    ]  # fmt: skip
    if not found:
        raise InputError(
            f"holds no variant for {arch} that passed every check, only the baseline",
            where=str(bundle.folder),
            next_step="build it with a --rewriter",
        )
    return found


def _data(bundle: Bundle, arch: str, name: str) -> Mapping[str, Any]:
    return next(each for each in bundle.entry(arch)["candidates"] if each["name"] == name)


def _verdict(data: Mapping[str, Any]) -> Verdict:
    match data["kind"]:
        case "proved":
            return Proved(data["certificate"], tuple(data["aside"]))
        case "tested":
            return Tested(data["inputs"], data["exercised"], tuple(data["families"]), data["least"])
        case _:
            return TestedWithin(data["inputs"], data["exercised"], data["ulp"])


def _machine(bundle: Bundle, arch: str, name: str, data: Mapping[str, Any]) -> Machine:
    machine = data["machine"]
    account = Resources(
        "", machine["registers"], 0, machine["local_bytes"], machine["spill_stores"], machine["spill_loads"],
        machine["shared_bytes"], 0,
    )  # fmt: skip
    return Machine(
        Cubin(bundle.cubin(arch, name), arch, assembler_of(data), (account,), ""), machine["instructions"]
    )


def assembler_of(data: Mapping[str, Any]) -> Assembler:
    """What made a variant, from how the manifest spells it."""
    name, version, *flags = data["machine"]["assembler"].split(" ")
    return Assembler(name, version, tuple(flags))


def _contender(bundle: Bundle, kernel: Kernel, name: str, data: Mapping[str, Any]) -> Contender:
    """With the clones that check it where the toolkit is installed; a bundle races without it too."""
    from hybridcc.runtime.race_entrants import entrant
    from hybridcc.runtime.race_job import Contender

    cubin = _machine(bundle, kernel.arch, name, data).cubin
    try:
        return entrant(name, cubin, kernel.entry, bundle.ptx(kernel.arch, name))
    except ToolchainError as error:
        return Contender(name, cubin.bytes, kernel.entry, untwinned=error.what)


def fastest(bundle: Bundle, arch: str, sizes: Sequence[int], values: Sequence[Any], shared_bytes: int) -> str:
    """The variant that a first call selects, raced on copies of its own values."""
    from hybridcc.runtime import device as devices
    from hybridcc.runtime.host_arrays import to_host

    kernel = kernel_of(bundle, arch)
    host, _ = to_host(kernel.arguments, values)
    gx, gy, gz, bx, by, bz = sizes
    launch = Launch((gx, gy, gz), (bx, by, bz), host, shared_bytes=shared_bytes)
    return retune(bundle, arch, launch, devices.current()).variant


# --- keeping it ---


def written_back(bundle: Bundle, tuned: Retuned, log: Mapping[str, Any]) -> Bundle:
    """The bundle with its selection replaced, also in its fatbin and header. Raises OutputError."""
    manifest, files = contents(bundle)
    settled = {c.name: c for c in tuned.candidates}
    for entry in manifest["architectures"]:
        if entry["arch"] == tuned.arch:
            entry["selection"] = asdict(tuned.selection)
            for each in entry["candidates"]:
                if (candidate := settled.get(each["name"])) is not None:
                    each["fate"], each["speed"] = asdict(candidate.fate), asdict(candidate.speed)
    files[f"selected.{tuned.arch}.cubin"] = bundle.cubin(tuned.arch, tuned.variant)
    return repack(bundle, manifest, files, log)


def keep(place: Path, bundle: Bundle, tuned: Retuned) -> None:
    """Put the selection into a file that ``hybridcc.load(…, selections=FILE)`` takes; those of other kernels stay.
    Raises InputError for a file of another kind, and OutputError."""
    from hybridcc.loading import read_selections
    from hybridcc.runtime.folder import replace_file

    if place.exists():
        read_selections(place)
        kernels = json.loads(place.read_bytes())["kernels"]
    else:
        kernels = {}
    own = kernels.setdefault(bundle.name, {"bundle": bundle.identity, "architectures": {}})
    if own["bundle"] != bundle.identity:
        own = kernels[bundle.name] = {"bundle": bundle.identity, "architectures": {}}
    speeds = {c.name: asdict(c.speed) for c in tuned.candidates}
    own["architectures"][tuned.arch] = {**asdict(tuned.selection), "device": tuned.device, "speeds": speeds}
    replace_file(place, bundles.to_json({"kernels": kernels}))

