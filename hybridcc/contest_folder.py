"""A contest as a folder that runs it again: the bytes that raced, the launch, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hybridcc.contest import Side, read
from hybridcc.errors import InputError, OutputError
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import given_cubin

RECORD = "ab.json"


def export(
    folder: Path, a: Side, b: Side, arguments: Sequence[Argument], launch: Launch, how: Mapping[str, Any]
) -> None:
    """Cubins as raced, PTX where there is any, the launch, and how it was run. Raises OutputError for a folder that
    holds something else."""
    from hybridcc.passes.verify import stored
    from hybridcc.runtime.folder import replace_folder

    if folder.exists() and not (folder / RECORD).is_file() and any(folder.iterdir()):
        raise OutputError("holds other files", where=str(folder), next_step="name an empty or a new folder")
    files: dict[str, bytes] = {"launch.npz": stored.to_bytes(launch)}
    for name, one in (("a", a), ("b", b)):
        files[f"{name}.cubin"] = one.cubin.bytes
        if one.ptx is not None:
            files[f"{name}.ptx"] = one.ptx.encode()
    data = {
        **how,
        "arch": a.arch,
        "entries": [a.entry.name, b.entry.name],
        "made_by": [a.made_by, b.made_by],
        "arguments": [[asdict(g.type), [asdict(f) for f in g.fields]] for g in arguments],
    }
    files[RECORD] = (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()
    replace_folder(folder, files)


def replayed(folder: Path) -> tuple[Side, Side, tuple[Argument, ...], Launch, dict[str, Any]]:
    """What ``export`` wrote: the very bytes. Raises InputError."""
    from hybridcc.passes.verify import stored
    from hybridcc.passes.verify.examples import as_launch

    where = str(folder / RECORD)
    try:
        data = json.loads((folder / RECORD).read_text())
        arguments = tuple(
            Argument(f"p{n}", _type(kind), tuple(Field(**f) for f in fields))
            for n, (kind, fields) in enumerate(data["arguments"])
        )
        entries, makers = data["entries"], data["made_by"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        next_step = "name a folder of --export"
        raise InputError(f"not an exported contest: {error}", where=where, next_step=next_step) from None
    kernel = Kernel(entries[0], entries[0], "", data["arch"], "given", arguments)
    launch = as_launch(stored.read(folder / "launch.npz", kernel), kernel, str(folder))
    sides = []
    for name, entry, maker in zip("ab", entries, makers, strict=True):
        path = str(folder / f"{name}.cubin")
        ptx = folder / f"{name}.ptx"
        found = given_cubin.examine(read(path), path)
        text = ptx.read_text() if ptx.exists() else None
        sides.append(Side(path, text, found, found.entry(entry, path), maker, None))
    return sides[0], sides[1], arguments, launch, data


def _type(given: Mapping[str, Any]) -> ArrayType | ScalarType:
    return ArrayType(**given) if "ndim" in given else ScalarType(**given)
