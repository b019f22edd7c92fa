"""call of a .func by name: the lanes at the call run the callee to its end, then go on."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.passes.execute.frame import Frame, Lanes
from hybridcc.passes.execute.memory import Fault
from hybridcc.passes.execute.operands import unsupported
from hybridcc.passes.execute.program import Step
from hybridcc.ptx.nodes import ArgumentList, Immediate, Instruction, Name

MOST_DEPTH = 64
"""Calls within calls; a GPU's stack would end somewhere as well."""
_PRINTS = frozenset({"vprintf"})


def call(compiler: Any, instruction: Instruction) -> Step:
    operands = list(instruction.operands)
    returns: tuple[Any, ...] = ()
    if operands and isinstance(operands[0], ArgumentList):
        returns = operands.pop(0).items  # type: ignore[union-attr]
    callee = operands.pop(0)
    arguments: tuple[Any, ...] = ()
    if operands and isinstance(operands[0], ArgumentList):
        arguments = operands.pop(0).items  # type: ignore[union-attr]
    if not isinstance(callee, Name) or callee.text in compiler.widths:
        raise unsupported("an indirect call", compiler.where(instruction))
    if any(isinstance(a, Immediate) or (isinstance(a, Name) and a.text in compiler.widths) for a in arguments):
        raise unsupported("a call with a register or constant as its argument", compiler.where(instruction))
    name = compiler.scoped.spelling(callee.text)
    passed = [a.text for a in arguments]
    given = [r.text for r in returns]

    def run(frame: Frame, lanes: Lanes) -> None:
        launch = frame.launch
        if name in _PRINTS:
            launch.flag("output not shown: vprintf")
            _give(frame, lanes, given, [np.zeros((frame.size(lanes), 4), np.uint8)])
            return
        program = launch.program(name)
        if program is None:
            raise Fault("UNSUPPORTED", f"a call of {name}, which has no body here", 0)
        if launch.depth >= MOST_DEPTH:
            raise Fault("UNSUPPORTED", f"calls deeper than {MOST_DEPTH}", 0)
        inner = Frame(launch, program, frame.places(lanes))
        for (parameter, _), argument in zip(program.parameters, passed, strict=True):
            rows = frame.parameters.get(argument)
            if rows is None:
                raise Fault("UNINITIALISED_MEMORY", f"{argument} is passed and was never written", 0)
            inner.parameters[parameter] = rows.copy() if lanes is None else rows[lanes]
        back = launch.run_call(inner)
        # lanes come back in the order they left by; a callee that drops lanes (exit) is refused in run_call
        results = [back.parameters.get(r) for r, _ in program.returns]
        _give(frame, lanes, given, results)

    return run


def _give(frame: Frame, lanes: Lanes, names: list[str], results: list[Any]) -> None:
    for name, rows in zip(names, results, strict=False):
        if rows is None:
            continue
        old = frame.parameters.get(name)
        if old is None or len(old) != frame.count or old.shape[1] < rows.shape[1]:
            old = np.zeros((frame.count, rows.shape[1]), np.uint8)
        if lanes is None:
            old = rows
        else:
            old[lanes] = rows
        frame.parameters[name] = old
