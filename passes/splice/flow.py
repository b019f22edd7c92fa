"""What a rewrite's own control flow must show: values before use, outputs on every path, effects in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hybridcc.errors import SpliceRefused
from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.liveness import definitely_kills
from hybridcc.passes.analysis.loops import loop_depths, natural_loops
from hybridcc.passes.analysis.uniform import divergent_branches, influence, uniform_registers
from hybridcc.passes.edits.declared import NewShared
from hybridcc.passes.regions.canonical import declarations
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.reading import Rewrite, flatten
from hybridcc.ptx import isa, scopes
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Block, Function, Immediate, Instruction, Module, Name
from hybridcc.ptx.rename import names_in

ORDERED = frozenset(
    {Effect.ATOMIC, Effect.BARRIER, Effect.FENCE, Effect.CONVERGENT, Effect.VOLATILE, Effect.ASYNC, Effect.CLOCK}
)
"""Effects that a rewrite must have exactly as the region has them."""


def graph_of_rewrite(rewrite: Rewrite, region: Region) -> ControlFlowGraph:
    """The rewrite as a function of its own, the ports declared around it."""
    ports = {f"%in{k}": p.type for k, p in enumerate(region.live_in)}
    ports |= {f"%out{k}": p.type for k, p in enumerate(region.live_out)}
    body = Block((*declarations(ports), *rewrite.statements))
    function = Function(".entry", "rewrite", body=body)
    scoped = scopes.resolve(function, Module((function,)))
    _check_scopes(rewrite, region, scoped)
    return cfg_module.from_scoped(function, scoped)


def _check_scopes(rewrite: Rewrite, region: Region, scoped: scopes.Scoped) -> None:
    """Raises SpliceRefused for a name that is declared in a scope which does not hold its use."""
    for name in scoped.unresolved:
        if name in region.symbols:
            continue
        code = "JUMP_OUTSIDE" if name in rewrite.labels else "UNDECLARED"
        uses = [s.span for s in flatten(rewrite.statements) if isinstance(s, Instruction) and name in names_in(s)]
        raise rewrite.refuse(code, f"{name} is used where its scope does not reach", uses[-1])


def check_flow(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph) -> None:
    """Raises SpliceRefused for a read before a write, an output left unwritten, an end that is never reached."""
    ends = [b for b in cfg.blocks if b.leaves and b.index in cfg.reachable]
    if not ends:
        raise SpliceRefused("NO_EXIT", "the rewrite never reaches its end", where="rewrite")
    written = _written_before(cfg, region)
    for block in cfg.blocks:
        if block.index not in cfg.reachable:
            continue
        have = set(written[block.index])
        for instruction in cfg.instructions(block.index):
            for name in isa.uses(instruction):
                if name in cfg.scoped.types and name not in have:
                    spelling = cfg.scoped.spelling(name)
                    raise rewrite.refuse(
                        "READ_BEFORE_WRITE", f"{spelling} may be read before it is written", instruction.span
                    )
            have.update(definitely_kills(instruction))
        if block in ends:
            _outputs_written(rewrite, region, cfg, have)


def check_classes(rewrite: Rewrite, cfg: ControlFlowGraph) -> None:
    """Raises SpliceRefused(REGISTER_CLASS) where a register's declared type does not go with its instruction."""
    for statement in cfg.statements:
        if not isinstance(statement, Instruction) or (form := isa.form(statement)) is None or not form.operands:
            continue
        if statement.guard is not None and _type(cfg, statement.guard.name) not in ("", ".pred"):
            raise rewrite.refuse("REGISTER_CLASS", "a guard is a predicate", statement.span)
        for index, (operand, wanted) in enumerate(zip(statement.operands, isa.operand_types(statement), strict=False)):
            rule = form.operands[min(index, len(form.operands) - 1)]
            if not isinstance(operand, Name) or not (declared := _type(cfg, operand.text)):
                continue
            if not isa.accepts(declared, wanted, wider=rule.wider):
                spelling = cfg.scoped.spelling(operand.text)
                raise rewrite.refuse(
                    "REGISTER_CLASS",
                    f"{spelling} is {declared}, and {statement.full_opcode} wants {wanted} there",
                    statement.span,
                )


def _type(cfg: ControlFlowGraph, name: str) -> str:
    return cfg.scoped.types.get(name, "")


def _outputs_written(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph, have: set[str]) -> None:
    spelled = {cfg.scoped.spelling(name) for name in have}
    for k in range(len(region.live_out)):
        if f"%out{k}" not in spelled:
            end = len(rewrite.source.text.rstrip())
            raise rewrite.refuse("OUT_NOT_WRITTEN", f"%out{k} is not written on every path", (end - 1, end))


def _written_before(cfg: ControlFlowGraph, region: Region) -> list[frozenset[str]]:
    """Registers certainly written at the top of each block (every register, where no path leads)."""
    everything = frozenset(cfg.scoped.types)
    inputs = {f"%in{k}" for k in range(len(region.live_in))}
    start = frozenset(name for name in everything if cfg.scoped.spelling(name) in inputs)
    kills = [frozenset(k for i in cfg.instructions(b.index) for k in definitely_kills(i)) for b in cfg.blocks]
    before = [everything] * len(cfg.blocks)
    before[cfg.entry] = start
    changed = True
    while changed:
        changed = False
        for block in cfg.blocks:
            meets = [before[p] | kills[p] for p in cfg.predecessors[block.index] if p in cfg.reachable]
            if block.index == cfg.entry:
                meets.append(start)
            if not meets:
                continue
            met = frozenset.intersection(*meets)
            if met != before[block.index]:
                before[block.index] = met
                changed = True
    return before


@dataclass(frozen=True, slots=True)
class Ordered:
    """One operation whose number and order matter, with what decides how often and by whom it runs."""

    opcode: str
    guarded: bool
    loop_depth: int
    parting: str
    """The predicate over which threads of a block may part, inside the region, before running it; "" for none."""


Found: TypeAlias = tuple[Ordered, Instruction]


def check_effects(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph) -> None:
    """Raises SpliceRefused unless atomics, barriers, convergent and volatile operations are those of the region; a
    rewrite that has asked for shared memory of its own may add barriers that the whole block comes to."""
    old = _ordered(region.cfg, region.order, uniform_registers(region.cfg))
    inputs = {f"%in{k}": p.uniform for k, p in enumerate(region.live_in)}
    varying = frozenset(name for name in cfg.scoped.types if not inputs.get(cfg.scoped.spelling(name), True))
    new = _ordered(cfg, tuple(sorted(cfg.reachable)), uniform_registers(cfg, varying=varying))
    if any(isinstance(edit, NewShared) for edit in rewrite.edits):
        new = _without_added_barriers(rewrite, region, old, new)
    for (was, _), (is_now, instruction) in zip(old, new, strict=False):
        if was.opcode != is_now.opcode:
            raise rewrite.refuse(
                "EFFECT_ORDER",
                f"{is_now.opcode} stands where the region has {was.opcode}: such operations keep their order",
                instruction.span,
            )
        if was.loop_depth != is_now.loop_depth:
            raise rewrite.refuse("EFFECT_MOVED", f"{is_now.opcode} was moved into or out of a loop", instruction.span)
        if is_now.guarded and not was.guarded:
            raise rewrite.refuse("CONVERGENCE", f"{is_now.opcode} was put under a guard", instruction.span)
        if is_now.parting and not was.parting:
            raise _parted(rewrite, is_now, instruction)
    if len(new) > len(old):
        extra = new[len(old)]
        raise rewrite.refuse("EFFECT_COUNT", f"{extra[0].opcode} is one more than the region has", extra[1].span)
    if len(new) < len(old):
        raise SpliceRefused("EFFECT_COUNT", f"the region's {old[len(new)][0].opcode} is missing", where="rewrite")


def _parted(rewrite: Rewrite, operation: Ordered, instruction: Instruction) -> SpliceRefused:
    return rewrite.refuse(
        "CONVERGENCE",
        f"whether {operation.opcode} runs hangs on {operation.parting}, which may differ between threads (a register "
        "counts as differing if it does at any of its uses)",
        instruction.span,
    )


def _without_added_barriers(
    rewrite: Rewrite, region: Region, old: Sequence[Found], new: Sequence[Found]
) -> tuple[Found, ...]:
    """The rewrite's operations without the barriers of the whole block that the region does not have. Raises
    SpliceRefused(CONVERGENCE) for one that not every thread may come to."""
    left = list(old)
    kept: list[Found] = []
    for operation, instruction in new:
        if left and left[0][0].opcode == operation.opcode and left[0][0].loop_depth == operation.loop_depth:
            left.pop(0)
            kept.append((operation, instruction))
        elif not _of_whole_block(instruction):
            kept.append((operation, instruction))
        elif operation.guarded or operation.parting:
            raise _parted(rewrite, operation, instruction)
        elif _reached_apart(region):
            sentence = "threads of a block may come to this region apart, and wait for each other at a new barrier"
            raise rewrite.refuse("CONVERGENCE", sentence, instruction.span)
    return tuple(kept)


def _of_whole_block(instruction: Instruction) -> bool:
    """``bar.sync 0`` with no count of threads."""
    return instruction.full_opcode in ("bar.sync", "barrier.sync.aligned") and instruction.operands == (Immediate("0"),)


def _reached_apart(region: Region) -> bool:
    cfg = region.cfg
    spheres = influence(cfg)
    return any(region.entry in spheres[b].sphere for b in divergent_branches(cfg, uniform_registers(cfg)))


def _ordered(cfg: ControlFlowGraph, order: tuple[int, ...], uniform: frozenset[str]) -> tuple[Found, ...]:
    """Such operations of these blocks, in the order given."""
    blocks = frozenset(order)
    depths = loop_depths(cfg, tuple(loop for loop in natural_loops(cfg) if loop.blocks <= blocks))
    spheres = influence(cfg)
    parting: dict[int, str] = {}
    for branch in sorted(divergent_branches(cfg, uniform) & blocks):
        for block in spheres[branch].sphere:
            parting.setdefault(block, _condition(cfg, branch))
    return tuple(
        (
            Ordered(i.full_opcode, i.guard is not None, depths[block], parting.get(block, "")),
            i,
        )
        for block in order
        for i in cfg.instructions(block)
        if isa.effects(i) & ORDERED
    )


def _condition(cfg: ControlFlowGraph, branch: int) -> str:
    """The predicate of the branch that ends a block, as the text spells it."""
    guard = cfg.instructions(branch)[-1].guard
    return "a table" if guard is None else cfg.scoped.spelling(guard.name)
