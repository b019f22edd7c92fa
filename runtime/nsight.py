"""Nsight Compute's samples, by basic block: the tool run on one launch, or a CSV that it exported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hybridcc.errors import ProfileError
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.located import FILE, located
from hybridcc.passes.profile.samples import Samples, read_csv
from hybridcc.passes.regions.region import Region
from hybridcc.passes.verify.launch import Launch, buffers
from hybridcc.ptx.nodes import Instruction
from hybridcc.runtime import sass
from hybridcc.runtime.assemble import Cubin, assemble
from hybridcc.runtime.race_job import Contender, Job, alignments_of, parameters_of, write

OPTIONS: Final = (
    "--clock-control", "none", "--section", "SourceCounters", "--page", "source", "--csv", "--print-units", "base",
    "--launch-skip", "1", "--launch-count", "1",
)  # fmt: skip
TIMEOUT_S: Final = 300
_LINE: Final = re.compile(r'//## File "([^"]*)", line (\d+)')
_INSTRUCTION: Final = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


@dataclass(frozen=True, slots=True)
class Located:
    """A kernel's machine code, instruction by instruction: its text, and the basic block it came from."""

    cubin: Cubin
    text: tuple[str, ...]
    blocks: tuple[int | None, ...]


def located_code(kernel: Kernel, arch: str) -> Located:
    """The baseline's own machine code with blocks for lines. Raises AssemblyError, ToolchainError."""
    cubin = assemble(located(kernel.ptx, kernel.entry), arch, flags=("-lineinfo",))
    text: list[str] = []
    blocks: list[int | None] = []
    block: int | None = None
    inside = False
    for line in sass.listing(cubin).splitlines():
        if line.startswith(".text."):
            inside = line.strip() == f".text.{kernel.entry}:"
        seen = _LINE.search(line)
        if seen:
            block = int(seen[2]) - 1 if seen[1].rsplit("/", 1)[-1] == FILE and int(seen[2]) else None
        found = _INSTRUCTION.match(line)
        if found and inside:
            text.append(found[1])
            blocks.append(block)
    return Located(cubin, tuple(text), tuple(blocks))


def by_block(code: Located, samples: Samples) -> dict[int, int]:
    """Samples of each block. Raises ProfileError(NSIGHT) where the CSV is of other machine code."""
    ours, theirs = _opcodes(code.text), _opcodes(samples.sass)
    # Subroutines of the assembler's own (slow paths of division and roots) stand before or behind the kernel: they are
    # no block's.
    at = [n for n in range(len(theirs) - len(ours) + 1) if theirs[n : n + len(ours)] == ours]
    if len(at) != 1:
        raise ProfileError(
            "NSIGHT",
            f"the CSV shows {len(theirs)} machine instructions that are not this kernel's {len(ours)}",
            next_step="export it of the kernel's own baseline, or let `hybridcc profile --ncu run` launch it",
        )
    found: dict[int, int] = {}
    for block, count in zip(code.blocks, samples.counts[at[0] :], strict=False):
        if block is not None:
            found[block] = found.get(block, 0) + count
    return found


def _opcodes(text: Sequence[str]) -> list[str]:
    return [t.split()[1 if t.startswith("@") else 0] for t in text]


def run(kernel: Kernel, launch: Launch, arch: str, *, options: Sequence[str] = OPTIONS) -> tuple[Located, Samples]:
    """One launch under ``ncu``. Raises ProfileError(NSIGHT) where there is no such tool, or it cannot read counters."""
    tool = shutil.which("ncu")
    if tool is None:
        raise ProfileError("NSIGHT", "there is no ncu on the PATH", next_step="install Nsight Compute, or leave --ncu")
    code = located_code(kernel, arch)
    with tempfile.TemporaryDirectory(prefix="hybridcc-ncu-") as folder:
        sizes = tuple(root.nbytes for root in buffers(launch))
        job = Job(
            (("baseline", kernel.entry),),
            parameters_of(kernel.arguments, launch),
            launch.grid,
            launch.block,
            launch.shared_bytes,
            sizes,
            alignments_of(launch),
            0.0,
            0,
            "",
        )
        write(Path(folder), job, [Contender("baseline", code.cubin.bytes, kernel.entry)], launch)
        child = [sys.executable, "-m", "hybridcc.runtime.nsight_child", folder, "1"]
        try:
            done = subprocess.run(
                [tool, *options, *child], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            what = f"ncu gave no answer in {TIMEOUT_S} s"
            raise ProfileError("NSIGHT", what, next_step="profile smaller inputs") from None
    return code, read_csv(done.stdout, f"{done.stderr}")


def share_of(counts: dict[int, int], region: Region, total: int) -> float:
    """A region's part of all samples, from those of the blocks of ``cfg.build``.

    A block that the region holds only in part (region graphs split blocks at the region's own entry) counts by its
    part of the block's instructions.
    """
    from hybridcc.passes.analysis import cfg as cfg_module

    plain = cfg_module.from_scoped(region.cfg.function, region.cfg.scoped)
    found = 0.0
    for block, count in counts.items():
        b = plain.blocks[block]
        own = [i for i in range(b.first, b.last) if isinstance(region.cfg.statements[i], Instruction)]
        inside = sum(i in region.statements for i in own)
        found += count * inside / len(own) if own else 0.0
    return found / total if total else 0.0
