"""One trip of a counted loop, with everything put in its place that facts and ranges decide.

What only the loop's own counters needed is left without readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hybridcc.passes.analysis.interval import Interval, whole
from hybridcc.passes.rewrite.rules import places
from hybridcc.passes.rewrite.rules.bounds import Bounds
from hybridcc.passes.rewrite.rules.counted import INSIDE, TRIP, Counted
from hybridcc.passes.rewrite.rules.evaluate import Environment, merged, symbol
from hybridcc.passes.rewrite.rules.forward import Forward, Step, Table
from hybridcc.passes.rewrite.rules.subject import Unrecognised
from hybridcc.passes.rewrite.rules.unit import Unit
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import Rewriter
from hybridcc.passes.verify.proof.terms import Condition, Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect


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
        inside = [d for code in unit.code.values() for i in code for d in isa.defs(i)]
        for block, code in unit.code.items():
            counters = {d for i in code for d in isa.defs(i)} & counted.steps.keys()
            if counters and block not in self.subject.dominators.chain(unit.latch):
                raise Unrecognised("COUNTERS", f"{min(counters)} goes on in some trips only")
        once = frozenset(d for d in inside if inside.count(d) == 1) - counted.data
        self.forward = Forward(counted.evaluator, once, frozenset(counted.steps), self.rewriter)
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
        return Trip(self.counted, tuple(blocks), self.forward.types)

    def _block(self, block: int, environment: Environment, table: Table) -> Iterator[Step]:
        for instruction in self.unit.code[block]:
            step = self.forward.step(instruction, environment, table)
            if step is not None:
                yield step


def reads(value: Condition | Polynomial, name: str) -> bool:
    """Whether a variable of this name is in it."""
    from hybridcc.passes.verify.proof.rewrite import leaves
    from hybridcc.passes.verify.proof.terms import Atom

    return any(isinstance(leaf, Atom) and leaf.arguments[0] == name for leaf in leaves(value))
