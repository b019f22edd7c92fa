"""A PTX function to a Program: every statement decoded once, before any thread runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridcc.passes.analysis import cfg as graphs
from hybridcc.passes.execute import access, atomics, calls, matrix, warp
from hybridcc.passes.execute.layout import call_parameters
from hybridcc.passes.execute.memory import Fault
from hybridcc.passes.execute.numpy_algebra import ALGEBRA
from hybridcc.passes.execute.operands import Operands, unsupported
from hybridcc.passes.execute.program import Program, Segment, Step
from hybridcc.ptx import isa, semantics
from hybridcc.ptx.nodes import BranchTargets, Function, Instruction, Module, Name, Raw
from hybridcc.ptx.types import width

_HANDLERS = {
    "ld": access.load,
    "ldu": access.load,
    "st": access.store,
    "cvta": access.convert_address,
    "isspacep": access.is_space,
    "prefetch": access.nothing,
    "prefetchu": access.nothing,
    "membar": access.fence,
    "fence": access.fence,
    "nanosleep": access.nothing,
    "cp": access.copy_async,
    "atom": atomics.atom,
    "red": atomics.red,
    "shfl": warp.shuffle,
    "vote": warp.vote,
    "match": warp.match,
    "redux": warp.redux,
    "activemask": warp.active_mask,
    "elect": warp.elect,
    "mma": matrix.multiply,
    "ldmatrix": matrix.load,
    "stmatrix": matrix.store,
    "movmatrix": matrix.transpose,
    "call": calls.call,
}
"""How the instructions that do more than compute are executed; everything else is semantics.decode()."""


class Compiler:
    """One function. Nothing here depends on a launch: where variables lie is asked when an instruction runs."""

    def __init__(self, function: Function, module: Module) -> None:
        self.function = function
        self.module = module
        self.cfg = graphs.build(function, module)
        self.scoped = self.cfg.scoped
        self.widths = _register_widths(self.scoped)
        self.params = call_parameters(function, self.scoped)
        self.operands = Operands(self.widths, self.symbol, self.where)

    def symbol(self, name: str) -> Callable[[Any], int]:
        """The address of a variable, asked of a launch. Faults where the name means nothing there."""
        spelling, function = self.scoped.spelling(name), self.function.name

        def address(launch: Any) -> int:
            found = launch.layout.address(spelling, name, function)
            if found is None:
                raise Fault("UNSUPPORTED", f"{spelling} is defined nowhere", 0)
            return found

        return address

    def where(self, node: Any) -> str:
        source = self.module.source
        if not source.text:
            return source.name
        line, column = source.position(node.span[0])
        return f"{source.name}:{line}:{column}"

    def program(self) -> Program:
        segments: list[Segment] = []
        block_segment: dict[int, int] = {}
        for block in self.cfg.blocks:
            block_segment[block.index] = len(segments)
            self._block(block, segments)
        return Program(
            self.function.name,
            self.cfg,
            segments,
            block_segment,
            self.widths,
            [(d.name, width(p.type[1:])) for p in self.function.parameters for d in p.names],
            [(d.name, width(p.type[1:])) for p in self.function.returns for d in p.names],
            _granule(self.cfg.statements),
        )

    def _block(self, block: graphs.BasicBlock, segments: list[Segment]) -> None:
        steps: list[Step] = []
        count = 0
        first = True
        for index in range(block.first, block.last):
            statement = self.cfg.statements[index]
            if isinstance(statement, Raw):
                steps.append(_raiser(unsupported(f"'{statement.text[:40]}'", self.where(statement))))
            if not isinstance(statement, Instruction):
                continue
            count += 1
            effects = isa.effects(statement)
            if (
                isa.Effect.BARRIER in effects
                and statement.opcode in ("bar", "barrier")
                and ".warp" not in (statement.modifiers)
            ):
                segments.append(
                    Segment(
                        block.index, first, tuple(steps), count, ("barrier", warp.barrier(self, statement)), statement
                    )
                )
                steps, count, first = [], 0, False
            elif graphs.is_branch(statement):
                ending = self._branch(statement, block)
                segments.append(Segment(block.index, first, tuple(steps), count, ending, statement))
                return
            else:
                steps.append(self.step(statement))
        ending = ("next", None) if block.fallthrough is not None else ("return", None)
        segments.append(Segment(block.index, first, tuple(steps), count, ending))

    def _branch(self, instruction: Instruction, block: graphs.BasicBlock) -> tuple[str, Any]:
        guard = self._guard(instruction)
        if isa.Effect.EXIT in isa.effects(instruction):
            kind = {"ret": "return", "exit": "exit", "trap": "trap"}[instruction.opcode]
            return (kind, guard) if guard else (kind, None)
        if instruction.opcode == "brx":
            tables = {s.label: s.targets for s in self.cfg.statements if isinstance(s, BranchTargets)}
            table = tables.get(isa.branch_targets(instruction)[0], ())
            index = self.operands.read(instruction.operands[0], 32, instruction)
            return "table", (guard, index, [self._label(t) for t in table])
        return "branch", (guard, self._label(isa.branch_targets(instruction)[0]))

    def _label(self, name: str) -> int:
        for block in self.cfg.blocks:
            if name in block.labels:
                return block.index
        raise unsupported(f"a branch to {name}", self.function.name)

    def _guard(self, instruction: Instruction) -> Any:
        if instruction.guard is None:
            return None
        read = self.operands.read(Name(instruction.guard.name), 1, instruction)
        if instruction.guard.negated:
            return lambda frame, lanes: ~read(frame, lanes)
        return read

    # --- steps ------------------------------------------------------------------------------------------

    def step(self, instruction: Instruction) -> Step:
        """The function that runs one instruction. What cannot run raises when it is reached, not before."""
        from hybridcc.errors import ExecutionError

        try:
            plain = self._plain(instruction)
            guard = self._guard(instruction)
        except ExecutionError as error:
            return _located(_raiser(error), instruction)
        return _located(plain if guard is None else _guarded(plain, guard), instruction)

    def _plain(self, instruction: Instruction) -> Step:
        handler = _HANDLERS.get(instruction.opcode)
        if handler is not None:
            return handler(self, instruction)
        if instruction.opcode in ("bar", "barrier"):
            return warp.warp_barrier(self, instruction)
        if instruction.opcode == "mov" and self._is_address_of_parameter(instruction):
            raise unsupported("the address of a call's parameter", self.where(instruction))
        return self._computation(instruction)

    def _is_address_of_parameter(self, instruction: Instruction) -> bool:
        source = instruction.operands[-1]
        return isinstance(source, Name) and source.text in self.params

    def _computation(self, instruction: Instruction) -> Step:
        try:
            operation = semantics.explain(instruction)
        except semantics.Unsupported as reason:
            raise unsupported(f"{instruction.full_opcode} ({reason})", self.where(instruction)) from None
        sources = semantics.source_operands(instruction)
        targets = semantics.destination_operands(instruction)
        if len(sources) != len(operation.sources) or len(targets) != len(operation.results):
            raise unsupported(f"{instruction.full_opcode} with {len(sources)} sources", self.where(instruction))
        reads = tuple(self.operands.read(o, w, instruction) for o, w in zip(sources, operation.sources, strict=True))
        writes = tuple(
            self.operands.write(o, w, instruction, operation.extend_signed)
            for o, w in zip(targets, operation.results, strict=True)
        )
        return _compute(operation, reads, writes, instruction.full_opcode)


def _compute(operation: semantics.Operation, reads: tuple[Any, ...], writes: tuple[Any, ...], name: str) -> Step:
    apply = operation.apply
    if operation.carry_in or operation.carry_out:
        return _carrying(operation, reads, writes)
    inexact = None if operation.exact else name
    if len(writes) == 1 and writes[0] is not None and inexact is None:
        write = writes[0]
        if len(reads) == 2:
            first, second = reads
            return lambda frame, lanes: write(
                frame, apply(ALGEBRA, (first(frame, lanes), second(frame, lanes)))[0], lanes
            )
        if len(reads) == 1:
            only = reads[0]
            return lambda frame, lanes: write(frame, apply(ALGEBRA, (only(frame, lanes),))[0], lanes)

    def run(frame: Any, lanes: Any) -> None:
        results = apply(ALGEBRA, tuple(read(frame, lanes) for read in reads))
        if inexact is not None:
            frame.launch.flag(f"not bit-exact: {inexact}")
        for put, value in zip(writes, results, strict=True):
            if put is not None:
                put(frame, value, lanes)

    return run


def _carrying(operation: semantics.Operation, reads: tuple[Any, ...], writes: tuple[Any, ...]) -> Step:
    def run(frame: Any, lanes: Any) -> None:
        values = [read(frame, lanes) for read in reads]
        if operation.carry_in:
            values.append(frame.carry if lanes is None or not np.ndim(frame.carry) else frame.carry[lanes])
        results = operation.apply(ALGEBRA, tuple(values))
        if operation.carry_out:
            if lanes is None:
                frame.carry = results[1]
            else:
                carry = np.array(np.broadcast_to(frame.carry, frame.count))
                carry[lanes] = results[1]
                frame.carry = carry
        if writes[0] is not None:
            writes[0](frame, results[0], lanes)

    return run


def _guarded(step: Step, guard: Any) -> Step:
    def run(frame: Any, lanes: Any) -> None:
        holds = guard(frame, lanes)
        if not np.ndim(holds):
            if holds:
                step(frame, lanes)
            return
        chosen = np.flatnonzero(holds)
        if len(chosen) == len(holds):
            step(frame, lanes)
        elif len(chosen):
            lanes = chosen if lanes is None else lanes[chosen]
            frame.launch.current = (frame.launch.current[0], lanes)
            step(frame, lanes)

    return run


def _located(step: Step, instruction: Instruction) -> Step:
    """Remembers which instruction runs, for messages."""

    def run(frame: Any, lanes: Any) -> None:
        frame.launch.current = (instruction, lanes)
        step(frame, lanes)

    return run


def _raiser(error: Exception) -> Step:
    def run(frame: Any, lanes: Any) -> None:
        raise error

    return run


def _granule(statements: Any) -> int:
    """4 where no access to memory is smaller than a word, else 1."""
    return min((_smallest(s) for s in statements if isinstance(s, Instruction)), default=4)


def _smallest(instruction: Instruction) -> int:
    moves = isa.effects(instruction) & {isa.Effect.READ, isa.Effect.WRITE}
    if not moves or isa.memory_space(instruction) == ".param" or instruction.opcode in ("call", "ldmatrix", "stmatrix"):
        return 4
    return 1 if any(0 < isa.bits(t) < 32 for t in isa.types(instruction)) else 4


def _register_widths(scoped: Any) -> dict[str, int]:
    widths: dict[str, int] = {}
    for name, type_ in scoped.types.items():
        bits = width(type_[1:])
        vector = scoped.vectors.get(name)
        if vector:
            for selectors in ("xyzw", "rgba"):
                for selector in selectors[: int(vector[2:])]:
                    widths[f"{name}.{selector}"] = bits
        else:
            widths[name] = bits
    return widths
