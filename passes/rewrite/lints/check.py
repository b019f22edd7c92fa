"""All lints on one kernel."""

from __future__ import annotations

from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.regions import Region, canonical_names
from hybridcc.passes.rewrite.lints import control, externals, latency, machine, memory, sharing, spaces
from hybridcc.passes.rewrite.lints.finding import Finding, Lint, Subject
from hybridcc.ptx.nodes import Module
from hybridcc.ptx.targets import target

LINTS: tuple[Lint, ...] = (
    spaces.wrong_space,
    control.divergent_convergence,
    sharing.barrier_scope,
    memory.bank_conflicts,
    memory.uncoalesced,
    memory.misaligned,
    latency.load_to_use,
    latency.dependent_chain,
    control.predicate_pressure,
    control.redundant_predication,
    externals.externals,
)
"""Errors first, then what costs most."""

_ORDER = {"error": 0, "warning": 1, "note": 2}


def check(module: Module, entry: str, arch: str) -> tuple[Finding, ...]:
    """What the PTX of a kernel shows: errors first, then what lies in the deepest loops. Raises InputError for a
    function whose branches lead nowhere, and UnknownArchitecture."""
    function = next(f for f in module.entries if f.name == entry)
    subject = Subject(module, function, graphs.build(function, module), target(arch))
    found = [finding for lint in LINTS for finding in lint(subject)]
    return tuple(sorted(found, key=lambda f: (_ORDER[f.severity], -f.depth)))


def check_region(region: Region, arch: str) -> tuple[Finding, ...]:
    """What the PTX of one region shows, in the names of its canonical text: the same order. The kernel round it is
    read too: it says where addresses come from. Raises UnknownArchitecture."""
    cfg = region.cfg
    subject = Subject(None, cfg.function, cfg, target(arch), canonical_names(region), region.statements)
    found = [finding for lint in LINTS for finding in lint(subject)]
    return tuple(sorted(found, key=lambda f: (_ORDER[f.severity], -f.depth)))


def check_machine(
    arch: str, *, registers: int, shared: int, spill_stores: int, spill_loads: int, threads: int | None = None
) -> tuple[Finding, ...]:
    """What the assembler's figures show; ``threads`` of a block where that is known. Raises UnknownArchitecture."""
    return (
        *machine.spills(spill_stores, spill_loads),
        *machine.occupancy_cliff(target(arch), registers, shared, threads),
    )
