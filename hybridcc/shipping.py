"""What a program in another language takes from a bundle: one file for all architectures, and a C header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridcc.errors import InputError
from hybridcc.records import BASELINE


def shipped(
    manifest: Mapping[str, Any], files: Mapping[str, bytes], stem: str, *, fatbin: bool, header: bool
) -> dict[str, bytes]:
    """Files to put beside the others of a bundle, named by ``stem``. Raises InputError for a kernel whose parameters
    could not be read, and ToolchainError where fatbinary is missing."""
    found: dict[str, bytes] = {}
    entries = {a["entry"] for a in manifest["architectures"]}
    if len(entries) > 1 and (fatbin or header):
        raise InputError(
            f"{manifest['kernel']['name']} has another entry on each architecture: {', '.join(sorted(entries))}",
            next_step="build it without debug information, or without --format fatbin and --header",
        )
    if fatbin:
        found[f"{stem}.fatbin"] = _fatbin([a["arch"] for a in manifest["architectures"]], files)
    if header:
        from hybridcc.runtime.header import header as text_of

        if manifest["kernel"]["calling"] is None:
            raise InputError(
                f"the parameters of {manifest['kernel']['name']} could not be read",
                next_step="build without --header; manifest.json says why",
            )
        found[f"{stem}.h"] = text_of(manifest, stem).encode()
    return found


def _fatbin(architectures: list[str], files: Mapping[str, bytes]) -> bytes:
    from hybridcc.runtime import fatbin

    cubins = {arch: files[f"selected.{arch}.cubin"] for arch in architectures}
    ptx = {arch: files[f"{BASELINE}.{arch}.ptx"].decode() for arch in architectures}
    return fatbin.fatbin(cubins, fatbin.fallback(ptx))
