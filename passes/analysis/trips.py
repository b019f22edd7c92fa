"""Trip counts that the text itself fixes: a counter from one constant to another by constant steps."""

from __future__ import annotations

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.definitions import definitions, reaching
from hybridcc.passes.analysis.loops import Loop
from hybridcc.ptx import isa
from hybridcc.ptx.constants import evaluate
from hybridcc.ptx.nodes import Immediate, Instruction, Name, Operand

_MOST = 1 << 40


def constant_trips(cfg: ControlFlowGraph, loop: Loop) -> int | None:
    """How often the loop's latch branch is reached per entry, where that is a constant, else None.

    Recognised is ``r = r ± step`` (the only write in the loop), ``setp r, bound`` and a conditional branch in the one
    latch, with one constant reaching r from outside; unsigned and signed comparisons of numbers that do not wrap.
    """
    if len(loop.latches) != 1:
        return None
    latch = cfg.instructions(loop.latches[0])
    branch = latch[-1] if latch else None
    if branch is None or branch.guard is None or branch.opcode != "bra":
        return None
    written = definitions(cfg)
    compare = _only(cfg, written, loop, branch.guard.name)
    if compare is None or compare.opcode != "setp" or len(compare.operands) != 3:
        return None
    counter, bound = compare.operands[1], _number(compare.operands[2])
    if not isinstance(counter, Name) or bound is None:
        return None
    step = _step(_only(cfg, written, loop, counter.text), counter.text)
    start = _start(cfg, loop, counter.text)
    if step is None or start is None:
        return None
    stays_if = not branch.guard.negated
    if loop.header not in _targets(cfg, loop.latches[0], branch):
        stays_if = not stays_if
    return _trips(compare.modifiers[0], start, bound, step, stays_if)


def _targets(cfg: ControlFlowGraph, block: int, branch: Instruction) -> tuple[int, ...]:
    names = isa.branch_targets(branch)
    return tuple(s for s in cfg.blocks[block].successors if set(cfg.blocks[s].labels) & set(names))


def _only(cfg: ControlFlowGraph, written: object, loop: Loop, register: str) -> Instruction | None:
    """The one instruction of the loop that writes the register, if it is unguarded."""
    assert isinstance(written, dict)
    inside = [i for i in written.get(register, ()) if cfg.block_of(i) in loop.blocks]
    if len(inside) != 1:
        return None
    found = cfg.statements[inside[0]]
    return found if isinstance(found, Instruction) and found.guard is None else None


def _step(update: Instruction | None, register: str) -> int | None:
    if update is None or update.opcode not in ("add", "sub") or len(update.operands) != 3:
        return None
    left, amount = update.operands[1], _number(update.operands[2])
    if not isinstance(left, Name) or left.text != register or not amount:
        return None
    return amount if update.opcode == "add" else -amount


def _start(cfg: ControlFlowGraph, loop: Loop, register: str) -> int | None:
    """The constant that every way in from outside leaves in the register."""
    found: set[int | None] = set()
    for place in reaching(cfg, register, cfg.blocks[loop.header].first):
        if place >= 0 and cfg.block_of(place) in loop.blocks:
            continue
        statement = cfg.statements[place] if place >= 0 else None
        plain = isinstance(statement, Instruction) and statement.opcode == "mov" and statement.guard is None
        found.add(_number(statement.operands[1]) if plain and isinstance(statement, Instruction) else None)
    return found.pop() if len(found) == 1 else None


def _number(operand: Operand) -> int | None:
    if not isinstance(operand, Immediate):
        return None
    value = evaluate(operand.text)
    if value.kind != "int":
        return None
    return value.value - (1 << 64) if value.value >= 1 << 63 else value.value


def _trips(comparison: str, start: int, bound: int, step: int, stays_if: bool) -> int | None:
    """The least k >= 1 for which the loop is left after k steps."""
    kind = comparison.removeprefix(".")
    away = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(kind, kind)
    if not stays_if:
        away = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}.get(away, "")
    distance = bound - start
    match away:
        case "ne":
            trips = distance // step if distance % step == 0 else 0
        case "lt" if step > 0:
            trips = max(1, -(-distance // step))
        case "le" if step > 0:
            trips = max(1, distance // step + 1)
        case "gt" if step < 0:
            trips = max(1, -(distance // -step))
        case "ge" if step < 0:
            trips = max(1, -distance // -step + 1)
        case _:
            return None
    return trips if 1 <= trips <= _MOST else None
