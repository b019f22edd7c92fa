"""Kernels from a .ptx file: every entry, or one of them, with its parameters as they are declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hybridcc.errors import InputError
from hybridcc.passes.facts import Fact, Origin, Relation, Special
from hybridcc.passes.kernel import Kernel, LaunchBounds

if TYPE_CHECKING:
    from hybridcc.ptx.nodes import Function, Module


def load(path: str | Path, entry: str | None = None, arch: str | None = None) -> tuple[Kernel, ...]:
    """Read a file. ``arch`` is what to build for; None takes the file's own ``.target``.

    Raises InputError for a file that cannot be read or has no such entry, PtxSyntaxError for text that is no PTX.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file", where=str(path), next_step="check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path), next_step="give a text file of PTX") from error
    return from_text(text, entry, arch, name=str(path))


def from_text(text: str, entry: str | None = None, arch: str | None = None, *, name: str) -> tuple[Kernel, ...]:
    """The same for PTX that is in memory; ``name`` stands in messages."""
    from hybridcc.ptx import parse

    module = parse(text, name)
    chosen = [function for function in module.entries if entry in (None, function.name)]
    if not chosen:
        known = ", ".join(function.name for function in module.entries) or "none"
        if entry is None:
            raise InputError("holds no kernel", where=name, next_step="give a file with an .entry that has a body")
        raise InputError(f"no entry {entry} (entries: {known})", where=name, next_step="name one of the file's entries")
    arch = arch or target(module, name)
    return tuple(_kernel(function, text, arch, name) for function in chosen)


def target(module: Module, name: str) -> str:
    """The architecture of the ``.target`` directive. Raises InputError when there is none."""
    for item in module.items:
        if getattr(item, "name", "") == ".target":
            found = re.search(r"sm_\d+[af]?", getattr(item, "arguments", ""))
            if found:
                return found[0]
    raise InputError("no .target", where=name, next_step="give the architecture: --arch sm_90")


def _kernel(function: Function, text: str, arch: str, name: str) -> Kernel:
    sizes = {attribute.name: _sizes(attribute.arguments) for attribute in function.attributes}
    most = sizes.get(".maxntid") or sizes.get(".reqntid")
    threads = most[0] * most[1] * most[2] if most else None
    blocks = sizes.get(".minnctapersm")
    return Kernel(
        name=function.name,
        entry=function.name,
        ptx=text,
        arch=arch,
        frontend="ptx",
        facts=tuple(_facts(sizes, threads)),
        launch_bounds=LaunchBounds(threads, blocks[0] if blocks else None),
        source_file=name,
    )


def _sizes(arguments: str) -> tuple[int, int, int]:
    """``128, 2`` as (128, 2, 1): missing sizes are 1 (ISA, .maxntid)."""
    numbers = [int(number, 0) for number in re.findall(r"0[xX][0-9a-fA-F]+|\d+", arguments)]
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return x, y, z


def _facts(sizes: dict[str, tuple[int, int, int]], threads: int | None) -> Iterator[Fact]:
    """``.reqntid`` fixes the block's shape; ``.maxntid`` bounds only the number of threads in it."""
    required = sizes.get(".reqntid")
    for number, axis in enumerate("xyz"):
        if required is not None:
            yield Fact(Special(f"ntid.{axis}"), Relation.EQ, required[number], Origin.FRONTEND)
        elif threads is not None:
            yield Fact(Special(f"ntid.{axis}"), Relation.LE, threads, Origin.FRONTEND)
