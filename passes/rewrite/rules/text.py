"""The whole text of a candidate: what leads to the loop as the region has it, the new loop, and what follows."""

from __future__ import annotations

from collections.abc import Sequence

from hybridcc.passes.rewrite.rules import cleaning, narrow, places
from hybridcc.passes.rewrite.rules.counted import Counted
from hybridcc.passes.rewrite.rules.counted_loop import Body, Plan, loop_text
from hybridcc.passes.rewrite.rules.evaluate import symbol
from hybridcc.passes.rewrite.rules.materialize import Materializer, held_by
from hybridcc.passes.rewrite.rules.subject import Unrecognised
from hybridcc.passes.rewrite.rules.trip import Trip
from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.nodes import Directive, Immediate, Instruction, Label, Name, RegisterDeclaration, Statement

DONE = "$DONE"


def candidate(trip: Trip, rest: Trip | None, plan: Plan) -> tuple[tuple[str, ...], str]:
    """The guards that the rewrite needs, and its text. Raises Unrecognised where the way to the loop has a shape that
    is not followed."""
    counted = trip.counted
    subject, cfg = counted.subject, counted.subject.cfg
    ports = {f"%in{k}": counted.evaluator.width(f"%in{k}") for k in range(len(subject.region.live_in))}
    known = {name: symbol(name, width) for name, width in ports.items()} | dict(counted.initial)
    materializer = Materializer(held_by(known, subject.types), {r: p.width for r, p in counted.steps.items()})
    for value, register in list(materializer.held.items()):
        if register in counted.steps:  # it goes on, and what it began with stays in a copy
            materializer.held[value] = materializer.copied(register)
    operand = materializer.operand(counted.trips)
    trips = operand.text if isinstance(operand, Name | Immediate) else ""
    body = Body(trip, rest, materializer, read_only=plan.read_only)
    asked = narrow.condition(counted.trips, counted.bounds) if plan.narrow else ""
    if asked is None:
        raise Unrecognised("NARROW", "no guard can ask that its trips fit 32 bits")
    body.guards |= {asked: None} if asked else {}
    loop = loop_text(body, plan, trips, counted.trips.width, DONE, remainder_first=counted.remainder_first)
    path = [i for b in counted.path for i in cfg.instructions(b) if not isa.branch_targets(i)]
    test = f"setp.lt.s{counted.trips.width} %empty, {trips}, 1;\n@%empty bra {DONE};\n"
    body.types["%empty"] = ".pred"
    new: list[Statement] = [*path, *materializer.made, *([] if counted.sure else parse_statements(test))]
    new += [*loop, Label(DONE)]
    if counted.exit != _next(counted):
        label = next(iter(cfg.blocks[counted.exit].labels), None)
        if label is None:
            raise Unrecognised("SHAPE", "control leaves the loop to a block without a label")
        new.append(Instruction("bra", (), (Name(label),)))
    statements = _around(counted, new)
    kept = cleaning.needed(statements, [f"%out{k}" for k in range(len(subject.region.live_out))])
    types = {**subject.types, **trip.types, **(rest.types if rest else {}), **materializer.types, **body.types}
    return tuple(body.guards), cleaning.printed(kept, types)


def _next(counted: Counted) -> int:
    """The block that follows the loop in the new text."""
    group = places.group(counted.subject, counted.head, counted.exit)
    return next(b.index for b in counted.subject.cfg.blocks[counted.head + 1 :] if b.index not in group)


def _around(counted: Counted, new: Sequence[Statement]) -> list[Statement]:
    """The region's statements with the loop and its unrolled forms replaced."""
    cfg = counted.subject.cfg
    group = places.group(counted.subject, counted.head, counted.exit)
    made: list[Statement] = []
    for block in cfg.blocks[: counted.subject.end]:
        if block.index in group:
            continue
        statements = [s for s in cfg.statements[block.first : block.last] if not isinstance(s, RegisterDeclaration)]
        if block.index == counted.head:
            made += [*_without_branch(counted, statements), *new]
        else:
            made += statements
    made += [Label(label) for label in cfg.blocks[counted.subject.end].labels]
    return [s for s in made if not isinstance(s, Directive)]


def _without_branch(counted: Counted, statements: Sequence[Statement]) -> Sequence[Statement]:
    """The block before the loop, without its choice between the loop's forms; the test for no trips stays."""
    last = statements[-1] if statements else None
    if not isinstance(last, Instruction) or not isa.branch_targets(last):
        return statements
    cfg = counted.subject.cfg
    successors = cfg.blocks[counted.head].successors
    leading = [s for s in successors if s != counted.exit]
    if len(successors) == 2 and len(leading) == 1:
        if leading[0] != cfg.blocks[counted.head].fallthrough:
            raise Unrecognised("SHAPE", "its loop is jumped into")
        return statements  # the test for no trips
    return statements[:-1]
