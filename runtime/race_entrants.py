"""What enters a race: a cubin with the clones that check it, made from its PTX by the assembler that made it."""

from __future__ import annotations

from hybridcc.errors import AssemblyError, ToolchainError
from hybridcc.runtime.assemble import Cubin, assemble
from hybridcc.runtime.race_guards import instrumented
from hybridcc.runtime.race_job import Contender

LEVELS = ("-O3", "-O0")


def entrant(name: str, cubin: Cubin, entry: str, ptx: str) -> Contender:
    """``ptx`` is what ``cubin`` was assembled from. A clone that cannot be assembled (at -O0 a kernel may need more
    registers than its bounds leave) is left out, with the reason in ``untwinned``."""
    twins, why = None, ""
    try:
        optimized, plain = (_assemble(ptx, cubin, (level, "-fmad=false")) for level in LEVELS)
        twins = optimized, plain
    except (AssemblyError, ToolchainError) as error:
        why = error.what
    clone = instrumented(ptx, entry)
    counted = _assemble(clone, cubin, ()) if clone is not None else b""
    return Contender(name, cubin.bytes, entry, twins, counted, why)


def _assemble(ptx: str, like: Cubin, instead: tuple[str, ...]) -> bytes:
    """By the same assembler with the same flags, but for those given."""
    kept = tuple(flag for flag in like.assembler.flags if not flag.startswith(("-O", "-fmad", "--fmad")))
    return assemble(ptx, like.arch, like.assembler.name, (*(kept if instead else like.assembler.flags), *instead)).bytes
