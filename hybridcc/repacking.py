"""A bundle written again in its own form, with the files that follow from others made anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hybridcc.runtime import bundle as bundles
from hybridcc.runtime.bundle import Bundle
from hybridcc.shipping import shipped


def contents(bundle: Bundle) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A copy of its manifest, to be changed, and its files. Raises InputError for one that was altered."""
    files = {name: bundle.read(name) for name in bundle.manifest["files"]}
    return json.loads(json.dumps(bundle.manifest)), files


def repack(bundle: Bundle, manifest: Mapping[str, Any], files: Mapping[str, bytes], log: Mapping[str, Any]) -> Bundle:
    """Put ``manifest`` and ``files`` in the bundle's place, fatbin and header made from them. Raises OutputError."""
    made = {Path(name).suffix: name for name in files if name.endswith((".fatbin", ".h"))}
    whole = dict(files)
    if made:
        stem = Path(next(iter(made.values()))).stem
        whole |= shipped(manifest, files, stem, fatbin=".fatbin" in made, header=".h" in made)
    if bundle.folder.is_file():
        return bundles.write_file(bundle.folder, manifest, whole)
    return bundles.write(bundle.folder, manifest, whole, log)
