"""Which parts of a kernel may be rewritten at all, and the effects they have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.regions.region import Effects, Ineligible
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import (
    BranchTargets,
    CallPrototype,
    Directive,
    Instruction,
    Module,
    Raw,
    Section,
    Variable,
)


def effects_of(instructions: Iterable[Instruction]) -> Effects:
    """What the instructions do besides writing registers."""
    loads: Counter[str] = Counter()
    stores: Counter[str] = Counter()
    atomics: Counter[str] = Counter()
    barriers = convergent = 0
    for instruction in instructions:
        effects = isa.effects(instruction)
        space = isa.memory_space(instruction) or "generic"
        if Effect.ATOMIC in effects:
            atomics[space] += 1
        elif Effect.READ in effects:
            loads[space] += 1
        elif Effect.WRITE in effects:
            stores[space] += 1
        if Effect.BARRIER in effects:
            barriers += 1
        elif Effect.CONVERGENT in effects:
            convergent += 1
    return Effects(dict(loads), dict(stores), dict(atomics), barriers, convergent)


DEEPEST_SCOPE = 100
"""Scopes in scopes beyond which a body is not walked (compilers nest two or three)."""


def module_obstacle(module: Module, cfg: ControlFlowGraph) -> Ineligible | None:
    """Why no region of this function may be rewritten, if so."""
    if max(cfg.scoped.depths, default=0) > DEEPEST_SCOPE:
        return Ineligible("NESTING", f"its scopes are nested more than {DEEPEST_SCOPE} deep")
    for item in module.items:
        if isinstance(item, Directive) and item.name == ".target" and "debug" in item.arguments:
            return Ineligible("DEBUG", "the kernel was compiled for a debugger, whose tables name its registers")
    labels = {label for block in cfg.blocks for label in block.labels}
    spelled = {cfg.scoped.spelling(label) for label in labels}
    for item in module.items:
        if isinstance(item, Section) and (named := spelled & set(re.findall(r"[\w$%]+", item.text))):
            return Ineligible("DEBUG", f"the debug section {item.name} names the label {min(named)}")
    return None


def obstacle(cfg: ControlFlowGraph, blocks: frozenset[int]) -> Ineligible | None:
    """Why these blocks may not be rewritten, if so. Variables of the scope they stand in stay where they are."""
    outermost = min(cfg.scoped.depths[cfg.blocks[block].first] for block in blocks)
    for block in sorted(blocks):
        for index in range(cfg.blocks[block].first, cfg.blocks[block].last):
            statement = cfg.statements[index]
            if isinstance(statement, Variable) and cfg.scoped.depths[index] == outermost:
                continue
            found = _statement_obstacle(cfg, statement)
            if found is not None:
                return found
    return None


def _statement_obstacle(cfg: ControlFlowGraph, statement: object) -> Ineligible | None:
    match statement:
        case Raw():
            return Ineligible("RAW_STATEMENT", f"it holds a statement that hybridcc does not know: {statement.text}")
        case BranchTargets() | CallPrototype():
            return Ineligible("INDIRECT", "it holds a table of branch or call targets")
        case Variable():
            return Ineligible("VARIABLE", f"it declares the variable {statement.names[0].name}")
        case Instruction():
            return _instruction_obstacle(cfg, statement)
        case _:
            return None


def _instruction_obstacle(cfg: ControlFlowGraph, instruction: Instruction) -> Ineligible | None:
    if isa.lookup(instruction) is None:
        return Ineligible("UNKNOWN_OPCODE", f"it holds {instruction.full_opcode}, which hybridcc does not know")
    effects = isa.effects(instruction)
    if Effect.CALL in effects:
        return Ineligible("CALL", "it calls a function")
    if Effect.EXIT in effects:
        return Ineligible("LEAVES", f"the kernel can end inside it ({instruction.full_opcode})")
    return None
