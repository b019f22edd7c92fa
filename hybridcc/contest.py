"""Two kernels against each other, PTX or cubins: what differs, whether they do the same, and which is faster.

A is the baseline, B is judged. Both are compared bit for bit before anything is timed; then they race with A's own
bytes as control (runtime/race.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.errors import AssemblyError, InputError, PtxRefused, UnknownArchitecture
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch, describe
from hybridcc.runtime import given_cubin
from hybridcc.runtime.assemble import Assembler, AssemblerName, Cubin, assemble
from hybridcc.runtime.bundle import sha256
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import BASELINE, Contender, Race, race
from hybridcc.runtime.race import COMPARED as ALL_COMPARED

RIVAL = "B"
TWO_KINDS = "name a PTX or cubin file"
COMPARED = 20
"""Launches of B on each set of values before the race, whose memory is compared with A's."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one side is made: its file, and for PTX the assembler. ``ptxas`` is another ptxas than the wheel's."""

    path: str
    entry: str | None = None
    assembler: AssemblerName = "nvjitlink"
    ptxas: Path | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One kernel ready to be loaded. ``ptx`` is None where a cubin was given; spills are then not known."""

    path: str
    ptx: str | None = field(repr=False)
    cubin: given_cubin.GivenCubin = field(repr=False)
    entry: given_cubin.Entry
    made_by: str
    spills: tuple[int, int] | None
    notes: tuple[str, ...] = ()

    @property
    def arch(self) -> str:
        return self.cubin.arch


def architecture(recipes: Sequence[Recipe], wanted: str | None, device: Device | None) -> str:
    """What PTX is assembled for: as asked, else the GPU's, else a given cubin's, else the first PTX's target."""
    if wanted is not None:
        return wanted
    if device is not None:
        return device.arch
    contents = [(recipe.path, read(recipe.path)) for recipe in recipes]
    for path, content in contents:
        if content.startswith(given_cubin.MAGIC):
            return given_cubin.examine(content, path).arch
    from hybridcc.frontends.ptx_file import target
    from hybridcc.ptx import parse

    path, content = contents[0]
    return target(parse(text_of(content, path), path), path)


def read(path: str) -> bytes:
    """Raises InputError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, next_step=TWO_KINDS) from None


def text_of(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError("neither PTX text nor a cubin", where=path, next_step=TWO_KINDS) from None


def side(recipe: Recipe, arch: str) -> Side:
    """Raises InputError (PtxRefused for what the assembler does not take) and ToolchainError."""
    content = read(recipe.path)
    if content.startswith(given_cubin.MAGIC):
        if recipe.ptxas or recipe.flags:
            raise InputError(
                "a cubin is assembled already", where=recipe.path, next_step="give PTX, or no --flags and --ptxas"
            )
        found = given_cubin.examine(content, recipe.path)
        if found.arch != arch.rstrip("af"):
            raise InputError(f"is for {found.arch}, not {arch}", where=recipe.path, next_step="give one for " + arch)
        return Side(recipe.path, None, found, found.entry(recipe.entry, recipe.path), "given as a cubin", None)
    text = text_of(content, recipe.path)
    own = re.search(r"^\s*\.target\s+(sm_\d+)[af]\b", text, re.MULTILINE)
    if own is not None and own[1] == arch:  # sm_90a code runs on its own architecture alone
        arch = own[0].split()[-1]
    try:
        cubin = assemble(text, arch, recipe.assembler, recipe.flags, name=recipe.path, ptxas=recipe.ptxas)
    except AssemblyError as error:  # the user's own text, not a fault of the toolchain
        raise PtxRefused(error.what, log=error.log, where=error.where, next_step=error.next_step) from error
    found = given_cubin.examine(cubin.bytes, recipe.path)
    entry = found.entry(recipe.entry, recipe.path)
    account = cubin.resources(entry.name)
    spills = account.spill_stores, account.spill_loads
    return Side(recipe.path, text, found, entry, str(cubin.assembler), spills, cubin.notes)


# --- what differs before anything runs ---


def same_code(a: Side, b: Side) -> bool:
    """Whether the two are one program to the last byte, but for the kernel's name."""

    def code(one: Side) -> list[tuple[str, bytes]]:
        return sorted((name.replace(one.entry.name, "*"), content) for name, content in one.cubin.code)

    return code(a) == code(b)


def static(a: Side, b: Side, launch: Launch | None) -> dict[str, Any]:
    """Figures of both sides, and the opcodes of which one has more."""
    from hybridcc.runtime.sass import disassemble

    listed = []
    for one, functions in zip((a, b), disassemble(*(_for_disassembly(s) for s in (a, b))), strict=True):
        mine = next((f for f in functions if f.name == one.entry.name), None)
        listed.append(Counter(i.opcode for i in mine.instructions) if mine else Counter())
    old, new = listed
    return {
        "same_code": same_code(a, b),
        "a": {**_figures(a, launch), "instructions": old.total()},
        "b": {**_figures(b, launch), "instructions": new.total()},
        "opcodes": {name: [old[name], new[name]] for name in sorted({*old, *new}) if old[name] != new[name]},
    }


def _for_disassembly(one: Side) -> Cubin:
    return Cubin(one.cubin.bytes, one.arch, Assembler("ptxas", ""), (), "")


def _figures(one: Side, launch: Launch | None) -> dict[str, Any]:
    return {
        "path": one.path,
        "entry": one.entry.name,
        "made_by": one.made_by,
        "ptx_sha256": None if one.ptx is None else sha256(one.ptx),
        "cubin_sha256": sha256(one.cubin.bytes),
        "registers": one.entry.registers,
        "spill_stores": None if one.spills is None else one.spills[0],
        "spill_loads": None if one.spills is None else one.spills[1],
        "stack_bytes": one.entry.stack,
        "shared_bytes": one.entry.shared,
        "blocks_per_sm": None if launch is None else _occupancy(one, launch),
        "notes": list(one.notes),
    }


def _occupancy(one: Side, launch: Launch) -> int | None:
    from hybridcc.ptx.targets import blocks_per_sm, target

    try:
        on = target(one.arch)
    except UnknownArchitecture:
        return None
    threads = int(np.prod(launch.block))
    return blocks_per_sm(
        on, threads=threads, registers=one.entry.registers, shared=one.entry.shared + launch.shared_bytes
    )


# --- the contest ---


@dataclass(frozen=True, slots=True)
class Contest:
    """``compared`` launches of B were compared with A's on ``inputs``; ``deviation`` is how B's memory differed."""

    raced: Race | None
    inputs: tuple[str, ...]
    compared: int
    deviation: str = ""
    void: str = ""
    next_step: str = ""


def contest(
    a: Side,
    b: Side,
    arguments: Sequence[Argument],
    launches: Sequence[Launch],
    device: Device,
    *,
    budget_s: float,
    seed: int,
    progress: Progress,
) -> Contest:
    """Compare on every launch, then race on the first. Raises InputError and DeviceError."""
    from hybridcc.runtime.race_children import Children

    first, second = Contender(BASELINE, a.cubin.bytes, a.entry.name), Contender(RIVAL, b.cubin.bytes, b.entry.name)
    compared, told = 0, []
    with Children() as children:

        def run(launch: Launch, *, timed: bool) -> Race:
            return race(
                first, [second], arguments, launch, device, budget_s=budget_s, seed=seed, timed=timed,
                progress=progress, children=children, compared=ALL_COMPARED if timed else COMPARED,
            )  # fmt: skip

        for number, launch in enumerate(launches):
            progress(f"comparing outputs, inputs {number + 1} of {len(launches)} ({launch.family})")
            raced = run(launch, timed=False)
            if raced.void and number == 0:
                return Contest(None, (describe(launch),), compared, void=raced.void, next_step=raced.next_step)
            if raced.void:  # A itself cannot run on these values: they say nothing
                continue
            compared += raced.checks
            told.append(describe(launch))
            if raced.deviations:
                return Contest(None, tuple(told), compared, f"{raced.deviations[0].what}; {describe(launch)}")
        raced = run(launches[0], timed=True)
    compared += raced.checks
    deviation = raced.deviations[0].what if raced.deviations else ""
    return Contest(raced, tuple(told), compared, deviation, raced.void, raced.next_step)


def record(found: Contest, device: Device, budget_s: float, seed: int) -> dict[str, Any]:
    """JSON-ready: correctness and speed apart, each number with its spread and conditions."""
    raced = found.raced
    correctness: dict[str, Any] = {
        "verdict": "refuted" if found.deviation else "tested" if found.compared and not found.void else "unknown",
        "compared_launches": found.compared,
        "inputs": list(found.inputs),
        "deviation": found.deviation,
    }
    speed: dict[str, Any] = {"kind": "not_measured", "reason": found.void or "refuted", "next_step": found.next_step}
    conditions: dict[str, Any] = {"device": asdict(device), "budget_s": budget_s, "seed": seed}
    if raced is not None and not found.void and RIVAL in raced.measurements:
        speed = asdict(raced.measurements[RIVAL])
        speed["control"] = None if raced.control is None else asdict(raced.control)
        speed["noise_floor"] = raced.noise_floor
        conditions |= {
            "facts": dict(raced.facts),
            "notes": dict(raced.notes),
            "samples": len(raced.samples),
            "throttled": sum(s.throttled for s in raced.samples),
            "sm_mhz": _spread([s.sm_mhz for s in raced.samples if s.sm_mhz]),
        }
    return {"correctness": correctness, "speed": speed, "conditions": conditions}


def _spread(values: Sequence[int]) -> list[float] | None:
    """Least, median, most."""
    return [float(x) for x in np.percentile(values, [0, 50, 100])] if values else None
