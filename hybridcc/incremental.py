"""What a kernel's bundle was made from, as hashes; where they are the same, there is nothing to build.

    code       hybridcc itself
    kernel     PTX, entry, arguments, facts and bounds for each architecture: what the frontend made of the source, so
               that an edit elsewhere in the file changes nothing
    options    policy, seed, budget, and which files a bundle has
    rewriter   how it was asked for, and the recording's content
    launches   the example launches with their values
    assembler  name, version and flags
    tools      those besides that have a part in the bundle's content
    device     the GPU that it was raced on, if any
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc.errors import InputError
from hybridcc.passes.facts_data import to_data
from hybridcc.runtime import bundle as bundles
from hybridcc.runtime.bundle import Bundle, sha256
from hybridcc.work import Options

if TYPE_CHECKING:
    from hybridcc.build_job import Extra
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.runtime.device import Device

Key = Mapping[str, str]


def key_of(
    kernels: Sequence[Kernel],
    options: Options,
    extra: Extra,
    rewriter: str,
    launches: Sequence[Launch],
    device: Device | None,
) -> dict[str, str]:
    """Raises ToolchainError for a part of the toolkit that is missing, InputError for a ptxas that is none."""
    from hybridcc.runtime.assemble import made_by

    chosen = {**asdict(options), "extra": [extra.fatbin, extra.header]}
    for apart in ("rewriter", "assembler", "flags", "ptxas"):
        del chosen[apart]
    return {
        "code": code(),
        "kernel": _hash([_kernel(kernel) for kernel in kernels]),
        "options": _hash(chosen),
        "rewriter": _hash([options.rewriter, _recording(rewriter)]),
        "launches": _hash([_launch(launch) for launch in launches]),
        "assembler": _hash(str(made_by(options.assembler, options.flags, options.ptxas))),
        "tools": _hash(_tools(extra)),
        "device": "" if device is None else _hash([device.name, device.driver]),
    }


@cache
def code() -> str:
    """Of every file of this package: another hybridcc may judge otherwise."""
    import hybridcc

    total = hashlib.sha256()
    for folder, folders, names in os.walk(Path(hybridcc.__file__).parent, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if not name.endswith((".pyc", ".pyo")):
                total.update(name.encode() + b"\0" + Path(folder, name).read_bytes())
    return total.hexdigest()


def reusable(place: Path, key: Key) -> Bundle | None:
    """The bundle at that place, if it was made from the same and is whole."""
    held = held_at(place)
    if held is None or changed(held, key) or not is_lasting(held.manifest):
        return None
    try:
        for name in held.manifest["files"]:
            held.read(name)
    except InputError:
        return None
    return held


def held_at(place: Path) -> Bundle | None:
    try:
        return bundles.load(place)
    except InputError:
        return None


def changed(held: Bundle, key: Key) -> tuple[str, ...]:
    """Which parts of the key are others than those that the bundle was made from."""
    own = held.manifest.get("key") or {}
    return tuple(name for name in key if own.get(name) != key[name])


def is_lasting(manifest: Mapping[str, Any]) -> bool:
    """Whether a build would come to the same again: not where a stage failed (a model may answer next time), nor where
    a clock decided."""
    archs = manifest["architectures"]
    if manifest["failures"] or any(entry["failures"] for entry in archs):
        return False
    notes = [n for e in archs for c in e["candidates"] if c["evidence"] for n in c["evidence"]["notes"]]
    return not manifest["usage"]["ended_by"].endswith(" s") and not any("timeout" in note for note in notes)


def brought_up_to_date(held: Bundle, source: str, tools: Mapping[str, str]) -> Bundle:
    """With what has no part in its content, but stands in its manifest: the line of the source, other versions."""
    from hybridcc.repacking import contents, repack

    if held.manifest["kernel"]["source"] == source and held.manifest["tools"] == tools:
        return held
    manifest, files = contents(held)
    manifest["kernel"]["source"], manifest["tools"] = source, dict(tools)
    return repack(held, manifest, files, _log_of(held))


def _log_of(held: Bundle) -> Mapping[str, Any]:
    try:
        return json.loads((held.folder / bundles.LOG).read_bytes())
    except (OSError, ValueError):  # a single file has none
        return {}


def _kernel(kernel: Kernel) -> list[Any]:
    arguments = [
        [a.name, type(a.type).__name__, astuple(a.type), [astuple(f) for f in a.fields]] for a in kernel.arguments
    ]
    facts = [to_data(fact) for fact in kernel.facts]
    bounds = astuple(kernel.launch_bounds)
    return [kernel.name, kernel.entry, sha256(kernel.ptx), kernel.arch, kernel.frontend, arguments, facts, bounds]


def _recording(spec: str) -> str:
    kind, _, place = spec.partition(":")
    if kind != "replay":
        return ""
    try:
        return sha256(Path(place).read_bytes())
    except OSError:
        return "missing"


def _launch(launch: Launch) -> list[Any]:
    from hybridcc.passes.verify import stored

    return [launch.grid, launch.block, launch.shared_bytes, sha256(stored.to_bytes(launch))]


def _tools(extra: Extra) -> dict[str, str | None]:
    """SASS is counted by nvdisasm; the fatbin is fatbinary's."""
    from hybridcc.runtime import toolchain

    versions = toolchain.versions()
    used = ("nvdisasm", "fatbinary") if extra.fatbin else ("nvdisasm",)
    return {name: versions[name] for name in used}


def _hash(data: object) -> str:
    return sha256(json.dumps(data, sort_keys=True, default=str))
