"""One trip of a counted loop, with everything put in its place that facts and ranges decide.

An integer instruction whose result some register holds already is left out, and its readers read that register: that
drops the wraparound of an index that is shown not to be negative, and nothing else. What only the loop's own counters
needed is left without readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from hybridcc.passes.analysis.interval import Interval, whole
from hybridcc.passes.rewrite.rules import places
from hybridcc.passes.rewrite.rules.bounds import Bounds
from hybridcc.passes.rewrite.rules.counted import INSIDE, TRIP, Counted
from hybridcc.passes.rewrite.rules.evaluate import IMPURE, Environment, Value, merged, symbol
from hybridcc.passes.rewrite.rules.subject import Unrecognised
from hybridcc.passes.rewrite.rules.unit import Unit
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.terms import Condition, Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Address, Immediate, Instruction, Name
from hybridcc.ptx.rename import rename_statement

Table = dict[tuple[str, Value], str]
"""Which register of a type holds a value."""


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction of the trip, and the address it accesses where that is known."""

    instruction: Instruction
    address: Polynomial | None = None


@dataclass(frozen=True)
class Trip:
    """``blocks`` hold the trip's steps under their labels (None where nothing branches there)."""

    counted: Counted
    blocks: tuple[tuple[str | None, tuple[Step, ...]], ...]
    types: dict[str, str] = field(repr=False)
    """Of registers that the region's text does not have."""

    @property
    def steps(self) -> Iterator[Step]:
        return (step for _, steps in self.blocks for step in steps)

    @property
    def reads_only(self) -> bool:
        """Whether nothing in it has an effect but loads: then loads may go ahead of what is not needed for them."""
        effects = (isa.effects(step.instruction) for step in self.steps)
        return len(self.blocks) == 1 and all(found <= {Effect.READ} for found in effects)


def trip_of(counted: Counted, unit: Unit | None = None) -> Trip:
    """One trip, of ``unit`` if given. Raises Unrecognised where what a trip makes is read behind the loop."""
    subject = counted.subject
    replaced = places.group(subject, counted.head, counted.exit)
    inside = {d for b in replaced for i in subject.instructions(b) for d in isa.defs(i)}
    after = subject.liveness.live_in[counted.exit] & inside
    if not after <= counted.data:
        raise Unrecognised("READ_AFTER", f"{min(after - counted.data)} is read behind the loop")
    return _Maker(counted, counted.unit if unit is None else unit).made()


def in_trip(counted: Counted) -> tuple[Bounds, Environment]:
    """What is known in trip ``@k``, and the registers at its beginning."""
    trips = counted.trips
    greatest = counted.bounds.range(trips).high
    count = {64: t.variable(TRIP, 64), 32: t.variable(f"{TRIP}32", 32)}
    bounds = counted.bounds.with_variable(TRIP, Interval(0, greatest - 1))
    bounds = bounds.with_variable(f"{TRIP}32", Interval(0, min(greatest - 1, whole(32).high)))
    own = count.get(trips.width)
    if own is not None:
        bounds = bounds.with_polynomial(t.sub(trips, own), Interval(1, greatest))
    environment: Environment = dict(counted.initial)
    for register in counted.data:
        environment[register] = symbol(f"@{register}", counted.evaluator.width(register))
    for register, step in counted.steps.items():
        first = counted.initial.get(register)
        if isinstance(first, Polynomial) and step.width in count:
            environment[register] = t.add(first, t.mul(step, count[step.width]))
        else:
            environment[register] = symbol(f"@{register}", counted.evaluator.width(register))
    return bounds, environment


class _Maker:
    """Goes through the blocks of the trip in order."""

    def __init__(self, counted: Counted, unit: Unit) -> None:
        self.counted, self.subject, self.unit = counted, counted.subject, unit
        self.bounds, self.start = in_trip(counted)
        self.rewriter = Rewriter(decide=self.bounds.decide)
        self.types: dict[str, str] = {}
        self.renamed: dict[str, str] = {}
        """Registers read in place of others, for good."""
        inside = [d for code in unit.code.values() for i in code for d in isa.defs(i)]
        self.once = {d for d in inside if inside.count(d) == 1} - counted.data
        self.invariant = self._invariants(set(inside))

    def _invariants(self, inside: set[str]) -> Table:
        """Registers that hold one value throughout, ports first."""
        table: Table = {}
        for port, kind in self.subject.types.items():
            if port.startswith("%in"):
                table.setdefault((kind, symbol(port, self.counted.evaluator.width(port))), port)
        for register, value in self.counted.initial.items():
            if register not in inside and register not in self.counted.steps:
                table.setdefault((self.subject.types[register], value), register)
        for register in self.counted.steps:
            value = self.start[register]
            table.setdefault((self.subject.types[register], value), register)
        return table

    def made(self) -> Trip:
        cfg, unit = self.subject.cfg, self.unit
        targets = {label for code in unit.code.values() for i in code for label in isa.branch_targets(i)}
        ends: dict[int, Environment] = {}
        tables: dict[int, Table] = {}
        blocks: list[tuple[str | None, tuple[Step, ...]]] = []
        self.counted.evaluator.prefix = INSIDE
        for block in unit.blocks:
            ways = [ends[p] for p in cfg.predecessors[block] if p in ends]
            environment = dict(self.start) if block == unit.header else merged(ways, self.counted.evaluator)
            above = next((b for b in self.subject.dominators.chain(block) if b != block and b in tables), None)
            table = dict(self.invariant if above is None else tables[above])
            steps = self._block(block, environment, table)
            label = next((name for name in cfg.blocks[block].labels if name in targets), None)
            blocks.append((label, tuple(steps)))
            ends[block], tables[block] = environment, table
        self.counted.evaluator.prefix = "?"
        return Trip(self.counted, tuple(blocks), self.types)

    def _block(self, block: int, environment: Environment, table: Table) -> Iterator[Step]:
        for instruction in self.unit.code[block]:
            step = self._step(instruction, environment, table)
            if step is not None:
                yield step

    def _step(self, instruction: Instruction, environment: Environment, table: Table) -> Step | None:
        evaluator = self.counted.evaluator
        address = self._address(instruction, environment)
        evaluator.run(instruction, environment)
        targets = [d for d in isa.defs(instruction) if d in self.subject.types]
        for target in targets:
            environment[target] = self._simple(environment[target])
        written = self._spelled(instruction, targets)
        pure = not isa.effects(instruction) & IMPURE and instruction.guard is None
        if not pure or len(targets) != 1 or not (targets[0] in self.once or targets[0] in self.counted.steps):
            return Step(written, address)
        (target,) = targets
        kind, value = self.subject.types[target], environment[target]
        if kind.startswith((".f", ".pred")) or not isinstance(value, Polynomial):
            return Step(written, address)
        held = table.get((kind, value))
        if held is not None:
            self.renamed[target] = held
            return None
        new = self.renamed.get(target, target)
        table[(kind, value)] = new
        constant = t.as_constant(value)
        if constant is not None:
            number = Immediate(str(t.signed(constant, value.width)))
            return Step(Instruction("mov", (kind,), (Name(new), number)))
        return Step(written, address)

    def _simple(self, value: Value) -> Value:
        return self.rewriter.polynomial(value) if isinstance(value, Polynomial) else self.rewriter.condition(value)

    def _spelled(self, instruction: Instruction, targets: list[str]) -> Instruction:
        """With the registers that hold its operands, and a new one for what a counter becomes."""
        read = dict(self.renamed)
        for target in targets:
            if target in self.counted.steps:
                new = f"{target}n"
                self.types[new] = self.subject.types[target]
                self.renamed[target] = new
        return _replaced(instruction, lambda n: read.get(n, n), lambda n: self.renamed.get(n, n))

    def _address(self, instruction: Instruction, environment: Environment) -> Polynomial | None:
        for operand in instruction.operands:
            if isinstance(operand, Address):
                found = self.counted.evaluator.address(environment, operand)
                return None if found is None else self.rewriter.polynomial(found)
        return None


def _replaced(instruction: Instruction, read: Callable[[str], str], write: Callable[[str], str]) -> Instruction:
    """The instruction with other registers: its operands are read, its first ones written."""
    defs = set(isa.defs(instruction))
    if not defs & set(isa.uses(instruction)):
        renamed = rename_statement(instruction, lambda n: write(n) if n in defs else read(n))
        assert isinstance(renamed, Instruction)
        return renamed
    # A register that is both: only the target, which stands first, gets the new name.
    source = rename_statement(replace(instruction, operands=instruction.operands[1:]), read)
    target = rename_statement(replace(instruction, operands=instruction.operands[:1]), write)
    assert isinstance(source, Instruction)
    assert isinstance(target, Instruction)
    return replace(source, operands=(*target.operands, *source.operands))


def reads(value: Condition | Polynomial, name: str) -> bool:
    """Whether a variable of this name is in it."""
    from hybridcc.passes.verify.proof.rewrite import leaves
    from hybridcc.passes.verify.proof.terms import Atom

    return any(isinstance(leaf, Atom) and leaf.arguments[0] == name for leaf in leaves(value))
