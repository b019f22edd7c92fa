"""Branches that facts, or a guard, decide: the way that is never taken goes.

Compilers divide 64-bit numbers in 32 bits where they fit, and test that each time. Under a guard that the numbers are
small the test and the other way are not needed, and every block that is left runs on launches that a test can make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.facts import Fact, Origin, RegionInput, Relation
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.rules import cleaning
from hybridcc.passes.rewrite.rules.known import Known, known_in
from hybridcc.passes.rewrite.rules.subject import Subject, subject_of
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import leaves
from hybridcc.passes.verify.proof.terms import Atom, Condition
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Directive, Instruction, Label, RegisterDeclaration, Statement

SMALL = 1 << 31
"""Numbers below it fit 32 bits however they are read."""


def folded(region: Region, facts: tuple[Fact, ...]) -> tuple[tuple[str, ...], Region] | None:
    """The guards asked for, and the region without the branches that they and the facts decide; None where none is."""
    subject = subject_of(region, facts)
    before = known_in(subject)
    ports = sorted({port for condition in _open(subject, before) for port in _wide(before, condition)})
    asked = [
        Fact(RegionInput(port), relation, value, Origin.GUARD)
        for port in ports
        for relation, value in ((Relation.GE, 0), (Relation.LT, SMALL))
        if relation is Relation.LT or before.bounds[0].range(_port(subject, port)).low < 0
    ]
    for guards in ([], asked):
        under = replace(region, facts=(*region.facts, *guards))
        text = _text(subject_of(under, facts))
        if text is not None:
            words = tuple(f"%in{f.left.index} {f.relation.value} {f.right}" for f in guards)  # type: ignore[union-attr]
            return words, replace(under, text=text)
    return None


def _port(subject: Subject, number: int) -> t.Polynomial:
    from hybridcc.passes.verify.proof.program import type_width

    return t.variable(f"%in{number}", type_width(subject.types[f"%in{number}"]))


def _open(subject: Subject, known: Known) -> Iterator[Condition]:
    """The conditions of branches on integers that are not decided."""
    for block, (_, condition) in _branches(subject, known).items():
        if known.bounds[block].decide(condition) is None and condition.kind in ("eq", "not"):
            yield condition


def _branches(subject: Subject, known: Known) -> dict[int, tuple[Instruction, Condition]]:
    """Each block's guarded branch and the condition under which it jumps."""
    found: dict[int, tuple[Instruction, Condition]] = {}
    for block, environment in known.ends.items():
        instructions = subject.instructions(block)
        last = instructions[-1] if instructions else None
        if last is None or last.guard is None or not isa.branch_targets(last):
            continue
        condition = environment.get(last.guard.name)
        if isinstance(condition, Condition):
            found[block] = last, t.negation(condition) if last.guard.negated else condition
    return found


def _wide(known: Known, condition: Condition) -> Iterator[int]:
    """The live-ins of a condition on bits that may not fit 32."""
    names = {str(leaf.arguments[0]) for leaf in leaves(condition) if isinstance(leaf, Atom)}
    if not names or not all(name.startswith("%in") for name in names) or "and(" not in repr(condition):
        return
    for leaf in leaves(condition):
        assert isinstance(leaf, Atom)
        if known.bounds[0].range(t.of_atom(leaf)).high >= SMALL:
            yield int(str(leaf.arguments[0]).removeprefix("%in"))


def _text(subject: Subject) -> str | None:
    """The region's text without the ways that are never taken."""
    known = known_in(subject)
    jumps = {
        block: decided
        for block, (_, condition) in _branches(subject, known).items()
        if (decided := known.bounds[block].decide(known.bounds[block].simplify_condition(condition))) is not None
    }
    if not jumps:
        return None
    reached = _reached(subject.cfg, jumps)
    made: list[Statement] = []
    for block in subject.cfg.blocks[: subject.end]:
        if block.index not in reached:
            continue
        statements = subject.cfg.statements[block.first : block.last]
        for statement in statements:
            if isinstance(statement, RegisterDeclaration | Directive):
                continue
            if isinstance(statement, Instruction) and block.index in jumps and isa.branch_targets(statement):
                made += [replace(statement, guard=None)] if jumps[block.index] else []
            else:
                made.append(statement)
    made += [Label(label) for label in subject.cfg.blocks[subject.end].labels]
    outputs = [f"%out{k}" for k in range(len(subject.region.live_out))]
    return cleaning.printed(cleaning.needed(cleaning.falling(made), outputs), subject.types)


def _reached(cfg: ControlFlowGraph, jumps: dict[int, bool]) -> set[int]:
    found, waiting = {cfg.entry}, [cfg.entry]
    while waiting:
        block = waiting.pop()
        fallthrough = cfg.blocks[block].fallthrough
        for successor in cfg.blocks[block].successors:
            taken = successor != fallthrough
            if (block not in jumps or jumps[block] == taken) and successor not in found:
                found.add(successor)
                waiting.append(successor)
    return found
