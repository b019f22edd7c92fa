"""A bundle: everything about one kernel in one folder, with the evidence for what is in it.

manifest.json            what was built, checked and selected, and why; hashes of every file
baseline.sm_80.ptx       the untouched compilation, and its cubin
baseline.sm_80.cubin
region0-1.sm_80.ptx      a candidate, and its variant
region0-1.sm_80.cubin
selected.sm_80.cubin     the bytes that ship: loadable by the CUDA driver with no hybridcc
prompts.jsonl            every prompt with its answers
log.json                 when, where and how long: the only file that differs between two equal builds
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridcc.errors import InputError, NoBinary, OutputError
from hybridcc.runtime.choice import Capability, Choice, choose
from hybridcc.runtime.folder import replace_file, replace_folder

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
LOG = "log.json"
LONGEST_NAME = 80
"""Of a bundle's folder: readable in a listing, and far below what file systems take (255 bytes)."""


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def to_json(data: object) -> bytes:
    """Stable bytes: keys in order, no spaces at line ends, one line end at the end."""
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def folder_name(kernel: str) -> str:
    """The kernel's name where a file system takes it; a C++ name of any length ends in a hash of the whole."""
    safe = re.sub(r"[^\w$.-]", "_", kernel, flags=re.ASCII).lstrip(".") or "kernel"
    return safe if safe == kernel and len(safe) <= LONGEST_NAME else f"{safe[: LONGEST_NAME - 9]}-{sha256(kernel)[:8]}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle read back. ``manifest`` is as docs/manifest.md describes it; ``folder`` is the file of one that is a
    single file."""

    folder: Path
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.manifest["kernel"]["name"]

    @property
    def architectures(self) -> tuple[str, ...]:
        return tuple(entry["arch"] for entry in self.manifest["architectures"])

    @property
    def identity(self) -> str:
        """SHA-256 over the hashes of its files: equal for equal content."""
        return sha256(to_json(self.manifest["files"]))

    def entry(self, arch: str) -> Mapping[str, Any]:
        for entry in self.manifest["architectures"]:
            if entry["arch"] == arch:
                return entry
        raise InputError(
            f"holds no {arch} (it holds {', '.join(self.architectures)})",
            where=str(self.folder),
            next_step=f"build again with --arch {arch}",
        )

    def cubin(self, arch: str, variant: str = "selected") -> bytes:
        """The machine code of ``selected``, ``baseline`` or a candidate. Raises InputError if it was altered."""
        return self.read(f"{variant}.{arch}.cubin")

    def ptx(self, arch: str, variant: str = "baseline") -> str:
        return self.read(f"{variant}.{arch}.ptx").decode()

    def for_device(self, capability: Capability, variant: str = "selected") -> tuple[Choice, bytes]:
        """What a device of that compute capability runs: the variant's cubin, or on an architecture newer than all
        that were built the baseline's PTX, because nothing was selected there. Raises NoBinary where neither runs.
        """
        chosen = choose(self.architectures, self.architectures, capability)
        if chosen is None:
            device = f"{capability[0]}.{capability[1]}"
            raise NoBinary(
                f"holds nothing that runs on a device of capability {device} "
                f"(it holds {', '.join(self.architectures)})",
                where=str(self.folder),
                next_step=f"build again with --arch sm_{device.replace('.', '')}",
            )
        if chosen.kind == "ptx":
            return chosen, self.ptx(chosen.arch).encode()
        return chosen, self.cubin(chosen.arch, variant)

    def read(self, name: str) -> bytes:
        expected = self.manifest["files"].get(name)
        if expected is None:
            raise InputError(
                f"holds no {name}", where=str(self.folder), next_step="see manifest.json for what it holds"
            )
        data = _content(self.folder, name)
        if sha256(data) != expected:
            raise InputError(
                "is not the file that was built: its hash differs from the manifest's",
                where=str(self.folder / name),
                next_step="build again",
            )
        return data


def _content(place: Path, name: str) -> bytes:
    """One file of a folder or of a single file. Raises InputError with the file's name."""
    try:
        return _packed(place, name) if place.is_file() else (place / name).read_bytes()
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
    raise InputError(what, where=str(place / name), next_step="build again")


def _packed(place: Path, name: str) -> bytes:
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(place) as archive:
            return archive.read(name)
    except KeyError:
        raise OSError("it is not there") from None
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, zlib.error) as error:
        raise OSError(str(error)) from None


def check_replaceable(folder: Path) -> None:
    """A build takes the place of an earlier build, never of a folder that somebody else filled. Raises OutputError."""
    if not folder.is_dir():
        return
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        own = {MANIFEST, LOG, *manifest["files"]}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        own = set()
    foreign = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    foreign = [name for name in foreign if name not in own]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise OutputError(
            f"holds files that no build wrote: {', '.join(foreign[:3])}{more}",
            where=str(folder),
            next_step="choose another folder with -o, or move the files away",
        )


def write_file(place: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Bundle:
    """The same as one file: a zip without compression and without times, so that equal arguments give equal bytes on
    every machine. It has no log. Raises OutputError, also for a file that no build wrote."""
    import io
    import zipfile

    if place.is_dir() or (place.is_file() and not _is_bundle(place)):
        raise OutputError("is no bundle", where=str(place), next_step="choose another folder with -o, or move it away")
    whole = _whole(manifest, files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, MANIFEST: to_json(whole)}.items()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            archive.writestr(entry, content)
    replace_file(place, packed.getvalue())
    return Bundle(place, whole)


def _is_bundle(place: Path) -> bool:
    try:
        load(place)
    except InputError:
        return False
    return True


def _whole(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    hashes = {name: sha256(data) for name, data in sorted(files.items())}
    return {**manifest, "schema_version": SCHEMA_VERSION, "files": hashes}


def write(
    folder: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes], log: Mapping[str, Any] | None = None
) -> Bundle:
    """Put the bundle in place at once. Equal arguments (but for ``log``) give equal bytes.

    Raises OutputError, also for a folder with anything in it that no build wrote.
    """
    check_replaceable(folder)
    whole = _whole(manifest, files)
    content = {**files, MANIFEST: to_json(whole)}
    if log is not None:
        content[LOG] = to_json(log)
    replace_folder(folder, content)
    return Bundle(folder, whole)


def load(place: str | Path) -> Bundle:
    """Read a bundle back, a folder or a single file. Raises InputError for what is none, or one of another schema."""
    path = Path(place)
    try:
        manifest = json.loads(_content(path, MANIFEST))
    except (InputError, ValueError, RecursionError) as error:
        why = error.what if isinstance(error, InputError) else error
        raise InputError(
            f"holds no readable {MANIFEST} ({why})",
            where=str(path),
            next_step="name a folder or a .zip that hybridcc build wrote",
        ) from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(
            f"has schema version {version}, this hybridcc reads {SCHEMA_VERSION}",
            where=str(path),
            next_step="build again with this version",
        )
    return Bundle(path, manifest)
