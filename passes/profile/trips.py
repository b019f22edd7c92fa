"""Trip counts that the text itself fixes: the loop's own control, cut out and run on the executor.

Compilers write ``for k in range(400)`` in many ways (a counter, three registers that step each other, four steps in a
row), so no shape is looked for: if all that decides the latch's branch comes from constants, it is executed.
"""

from __future__ import annotations

from hybridcc.errors import HybridccError
from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.analysis.definitions import definitions, reaching
from hybridcc.passes.analysis.dominators import dominators
from hybridcc.passes.analysis.loops import Loop
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Immediate, Instruction
from hybridcc.ptx.printer import print_statement

MOST_STEPS = 2_000_000
_OUTSIDE = frozenset({Effect.READ, Effect.WRITE, Effect.ATOMIC, Effect.CALL, Effect.CONVERGENT, Effect.CLOCK})


def constant_trips(cfg: ControlFlowGraph, loop: Loop) -> int | None:
    """How often the header runs per entry of the loop, where constants decide that, else None.

    None too for loops with several latches or with exits elsewhere, and for those that run for millions of steps.
    """
    if len(loop.latches) != 1 or any(source != loop.latches[0] for source, _ in loop.exits):
        return None
    latch = cfg.instructions(loop.latches[0])
    branch = latch[-1] if latch else None
    if branch is None or branch.guard is None or branch.opcode != "bra":
        return None
    control = _slice(cfg, loop, branch.guard.name)
    if control is None:
        return None
    body, starts = control
    negated = branch.guard.negated != (not _goes_back(cfg, loop, branch))
    return _run(cfg, body, starts, f"{'!' if negated else ''}{branch.guard.name}")


def _goes_back(cfg: ControlFlowGraph, loop: Loop, branch: Instruction) -> bool:
    return bool(set(isa.branch_targets(branch)) & set(cfg.blocks[loop.header].labels))


def _slice(cfg: ControlFlowGraph, loop: Loop, register: str) -> tuple[list[int], dict[str, int]] | None:
    """(statements of the loop that the register comes from, the constant move that begins each value it carries)."""
    tree = dominators(cfg)
    written = definitions(cfg)
    body: set[int] = set()
    starts: dict[str, int] = {}
    waiting = [register]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        inside = [i for i in written.get(name, ()) if cfg.block_of(i) in loop.blocks]
        if len(inside) > 1:
            return None
        for at in inside:
            statement = cfg.statements[at]
            assert isinstance(statement, Instruction)
            if statement.guard is not None or isa.effects(statement) & _OUTSIDE:
                return None
            if not tree.dominates(cfg.block_of(at), loop.latches[0]):
                return None
            body.add(at)
            waiting.extend(isa.uses(statement))
        if not _begins_known(cfg, loop, name, inside, starts):
            return None
    return sorted(body), starts


def _begins_known(cfg: ControlFlowGraph, loop: Loop, name: str, inside: list[int], starts: dict[str, int]) -> bool:
    """Whether what the register holds on entry is one constant, or never read; that move goes into ``starts``."""
    before = [p for p in reaching(cfg, name, cfg.blocks[loop.header].first) if p not in inside]
    if inside and not _read_before(cfg, loop, name, inside[0]):
        return True
    if len(before) != 1 or before[0] < 0:
        return False
    statement = cfg.statements[before[0]]
    plain = isinstance(statement, Instruction) and statement.opcode == "mov" and statement.guard is None
    if not plain or not isinstance(statement, Instruction) or not isinstance(statement.operands[1], Immediate):
        return False
    starts[name] = before[0]
    return True


def _read_before(cfg: ControlFlowGraph, loop: Loop, name: str, definition: int) -> bool:
    """Whether some instruction of the loop may read the register's value of the turn before."""
    return any(
        name in isa.uses(s) and (i <= definition or cfg.block_of(i) != cfg.block_of(definition))
        for b in loop.blocks
        for i, s in enumerate(cfg.statements[cfg.blocks[b].first : cfg.blocks[b].last], cfg.blocks[b].first)
        if isinstance(s, Instruction)
    )


def _run(cfg: ControlFlowGraph, body: list[int], starts: dict[str, int], guard: str) -> int | None:
    from hybridcc.passes.execute import execute

    names: set[str] = {guard.removeprefix("!")}
    for at in (*body, *starts.values()):
        statement = cfg.statements[at]
        assert isinstance(statement, Instruction)
        names |= {*isa.defs(statement), *isa.uses(statement)}
    declared = "".join(f".reg {cfg.scoped.types[n]} {n};\n" for n in sorted(names) if n in cfg.scoped.types)
    before = "".join(print_statement(cfg.statements[at]) + "\n" for at in starts.values())
    turn = "".join(print_statement(cfg.statements[at]) + "\n" for at in body)
    text = f"{_HEADER}{{\n{declared}{before}$turn:\n{turn}@{guard} bra $turn;\nret;\n}}\n"
    try:
        return execute(text, "control", 1, 1, (), step_limit=MOST_STEPS, detect_races=False).block_counts["$turn"]
    except HybridccError:  # it runs too long, or holds what the executor does not know: no constant, then
        return None


_HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry control()\n"
