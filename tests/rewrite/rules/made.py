"""Kernels as a Numba user writes them, and whether what the rules make of them leaves the same memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridcc.asking import regions_of
from hybridcc.frontends import numba
from hybridcc.passes.arguments import flatten
from hybridcc.passes.execute import execute
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite import answer
from hybridcc.passes.rewrite.rules.rewriter import Proposal, proposals
from hybridcc.passes.splice import splice
from hybridcc.ptx import parse


@dataclass(frozen=True)
class Made:
    """A kernel, its hottest region, and the modules that the rules' proposals for it make."""

    kernel: Kernel
    region: Region
    proposals: tuple[Proposal, ...]
    modules: tuple[str, ...]

    def proposal(self, rule: str) -> str:
        return next(p.text for p in self.proposals if p.rule == rule)


def compiled(function: Callable[..., Any], signature: str) -> Kernel:
    return numba.compile(function, signature, "sm_90")


def made(function: Callable[..., Any], signature: str, count: int = 16) -> Made:
    """Raises Unrecognised where no rule knows the region."""
    return of_kernel(compiled(function, signature), count)


def of_kernel(kernel: Kernel, count: int = 16) -> Made:
    region = next(r for r in regions_of(kernel) if r.eligible)
    found = proposals(region, count, kernel.facts)
    module = parse(kernel.ptx, kernel.name)
    spliced = [splice(module, region, answer.check(p.text, region, kernel.arch).text).text for p in found]
    return Made(kernel, region, found, tuple(spliced))


def differing(
    made: Made, grid: int | tuple[int, ...], block: int | tuple[int, ...], values: Sequence[Any]
) -> list[str]:
    """The rules whose proposals leave other bits in memory than the kernel itself."""
    wanted = _ran(made.kernel, made.kernel.ptx, grid, block, values)
    return [
        proposal.rule
        for proposal, ptx in zip(made.proposals, made.modules, strict=True)
        if _ran(made.kernel, ptx, grid, block, values) != wanted
    ]


def _ran(kernel: Kernel, ptx: str, grid: Any, block: Any, values: Sequence[Any]) -> list[bytes]:
    given = copy.deepcopy(list(values))
    execute(ptx, kernel.entry, grid, block, flatten(kernel.arguments, given))
    return [v.tobytes() for v in given if isinstance(v, np.ndarray)]
