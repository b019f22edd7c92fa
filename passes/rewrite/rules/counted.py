"""Numba's range loops, recognised by what they compute: how many trips there are, and each register in trip k.

Numba keeps an iterator in three registers (value, next value, trips left), and LLVM unrolls the loop and adds counters
of its own. All of them are recognised by their step: a register that goes on by an invariant from trip to trip, or
that is the one that did, a trip late. Which trips LLVM's main loop makes and which its remainder makes does not matter:
together they are one loop, and one trip of the remainder is one trip of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hybridcc.passes.analysis.cfg import reach
from hybridcc.passes.analysis.interval import Interval, whole
from hybridcc.passes.analysis.loops import Loop
from hybridcc.passes.rewrite.rules import copies, entry, places
from hybridcc.passes.rewrite.rules.bounds import Bounds, known
from hybridcc.passes.rewrite.rules.evaluate import Environment, Evaluator, Value, merged, symbol
from hybridcc.passes.rewrite.rules.subject import Subject, Unrecognised
from hybridcc.passes.rewrite.rules.unit import Unit
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import Rewriter, leaves
from hybridcc.passes.verify.proof.terms import Atom, Condition, Polynomial
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Instruction

INSIDE = "?in:"
"""Begins the names of values that a trip makes and of which nothing is known."""

TRIP = "@k"
"""The number of the trip, from 0, as a variable in the terms of one trip."""


@dataclass(frozen=True)
class Counted:
    """One logical loop of ``trips`` trips, which begins behind block ``head`` and ends at ``exit``.

    ``path`` are the blocks between ``head`` and the loop on the way where no trip is made yet.
    ``rest`` is a last trip whose operations are others than those of ``unit``, None
    where all trips are alike. ``initial`` are the registers before the first trip; ``steps`` what each counting
    register goes on by, ``data`` the other registers that one trip hands to the next. ``bounds`` hold in every trip;
    ``sure`` says whether they show that there are trips.
    """

    subject: Subject
    evaluator: Evaluator = field(repr=False)
    head: int
    exit: int
    path: tuple[int, ...]
    unit: Unit
    rest: Unit | None
    trips: Polynomial
    initial: Mapping[str, Value] = field(repr=False)
    steps: Mapping[str, Polynomial]
    data: frozenset[str]
    bounds: Bounds = field(repr=False)
    sure: bool
    remainder_first: bool
    unroll: int
    """How many trips one turn of the unrolled loop makes, 1 where there is none."""


def recognise(subject: Subject) -> Counted:
    """The innermost loop as a counted one, the deepest first. Raises Unrecognised with the reason."""
    groups: dict[int | None, list[Loop]] = {}
    parents = {loop.parent for loop in subject.loops}
    for position, loop in enumerate(subject.loops):
        if position not in parents:
            groups.setdefault(loop.parent, []).append(loop)
    reasons: list[Unrecognised] = []
    for group in sorted(groups.values(), key=lambda loops: -loops[0].depth):
        try:
            return _recognised(subject, group)
        except Unrecognised as reason:
            reasons.append(reason)
    raise reasons[0] if reasons else Unrecognised("NO_LOOP", "it holds no loop")


def _recognised(subject: Subject, loops: list[Loop]) -> Counted:
    if len(loops) > 2:
        raise Unrecognised("SEVERAL_LOOPS", f"it holds {len(loops)} loops side by side")
    smaller = min(loops, key=lambda loop: copies.work(subject, loop.blocks).total())
    main = next((loop for loop in loops if loop is not smaller), None)
    left = copies.left_over(subject, smaller) if main is None else ()
    evaluator = Evaluator(subject)
    head, exit_ = places.around(subject, [*(loop.header for loop in loops), *left])
    bounds, before = entry.entered(evaluator, known(subject), head, exit_)
    path = places.way(subject, head, smaller, main.blocks if main is not None else frozenset(left))
    initial = entry.simplified(entry.along(evaluator, before, path), bounds)
    turn = turn_of(evaluator, smaller, initial, bounds)
    factor, unit, rest = 1, _whole(subject, smaller), None
    if main is not None:
        factor = copies.ratio(subject, main, smaller)
    elif turn.counter is not None and (turned := _turned(turn)) > 1:
        factor = turned
        unit = copies.first(subject, smaller, factor, frozenset(turn.carried) - turn.steps.keys() - set(turn.late))
        rest = copies.other(subject, unit, left, factor)
    trips = _count(evaluator, turn, (smaller, main, factor), (head, before), initial, bounds)
    steps = _per_trip(turn, factor if main is None else 1)
    first = main is not None and smaller.header not in reach(subject.cfg, main.header, avoiding=exit_)
    first = first or (bool(left) and all(smaller.header in reach(subject.cfg, b, avoiding=exit_) for b in left))
    return Counted(
        subject,
        evaluator,
        head,
        exit_,
        path,
        unit,
        rest,
        trips,
        initial,
        steps,
        frozenset(turn.carried) - steps.keys(),
        bounds,
        sure=bounds.range(trips).low >= 1,
        remainder_first=first,
        unroll=factor,
    )


def _whole(subject: Subject, loop: Loop) -> Unit:
    """One turn of a loop as one trip."""
    latch = loop.latches[0]
    code = {b: subject.instructions(b) for b in sorted(loop.blocks)}
    return Unit(loop.header, latch, tuple(code), code | {latch: code[latch][:-1]})


def _turned(turn: Turn) -> int:
    """How many trips one turn makes, by Numba's count of the trips left."""
    assert turn.counter is not None
    step = turn.steps[turn.counter]
    value = t.as_constant(step)
    return 1 if value is None else -t.signed(value, step.width)


def _count(
    evaluator: Evaluator,
    turn: Turn,
    loops: tuple[Loop, Loop | None, int],
    place: tuple[int, Environment],
    initial: Environment,
    bounds: Bounds,
) -> Polynomial:
    """How many trips there are, by Numba's count of them or else by LLVM's of the turns of its loops."""
    smaller, main, factor = loops
    head, before = place
    if turn.counter is not None and (main is None or _turned(turn) == 1):
        first = initial[turn.counter]
        assert isinstance(first, Polynomial)
        return bounds.simplify(t.add(first, t.constant(1, first.width)))
    trips = _trips_left(turn, initial, 1)
    if main is not None:
        way = places.way(evaluator.subject, head, main, smaller.blocks)
        begun = entry.simplified(entry.along(evaluator, before, way), bounds)
        trips = t.add(trips, _trips_left(turn_of(evaluator, main, begun, bounds), begun, factor))
    return bounds.simplify(trips)


# --- one turn of a loop ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What one turn makes of the registers that the next one reads: ``after`` in terms of ``@register``.

    ``steps`` are those that go on by something invariant; ``late`` those that are what such a one was before, by it;
    ``counter`` is Numba's number of trips left.
    """

    carried: tuple[str, ...]
    after: Mapping[str, Value]
    steps: Mapping[str, Polynomial]
    late: Mapping[str, str]
    counter: str | None
    goes_on: Condition


def turn_of(evaluator: Evaluator, loop: Loop, initial: Environment, bounds: Bounds) -> Turn:
    """Raises Unrecognised where the loop is left from its middle."""
    subject, cfg = evaluator.subject, evaluator.subject.cfg
    defined = {d for b in loop.blocks for i in cfg.instructions(b) for d in _defs(i, subject)}
    carried = tuple(sorted(subject.liveness.live_in[loop.header] & defined))
    latch = loop.latches[0]
    last = cfg.instructions(latch)[-1]
    if len(loop.latches) != 1 or last.guard is None or {b for b, _ in loop.exits} != {latch}:
        raise Unrecognised("DATA_EXIT", "its loop is left from its middle")
    start: Environment = {**initial, **{r: symbol(f"@{r}", evaluator.width(r)) for r in carried}}
    after = _run(evaluator, loop, start)
    condition = after.get(last.guard.name, symbol(last.guard.name, 1))
    assert isinstance(condition, Condition)
    jumps = cfg.blocks[latch].fallthrough != loop.header
    goes_on = condition if jumps != last.guard.negated else t.negation(condition)
    counter = next((r for r in carried if _counts_down(after[r], f"@{r}", bounds)), None)
    rewriter = Rewriter(decide=(bounds if counter is None else _many(bounds, counter, after[counter])).decide)
    varying = {f"@{r}" for r in carried}
    settled = {r: rewriter.polynomial(v) if isinstance(v, Polynomial) else v for r, v in after.items()}
    steps: dict[str, Polynomial] = {}
    for register in carried:
        value = settled[register]
        if isinstance(value, Polynomial):
            step = t.sub(value, t.variable(f"@{register}", value.width))
            if is_invariant(step, varying):
                steps[register] = step
    late = _late(carried, settled, steps, initial, bounds)
    return Turn(carried, settled, steps, late, counter, goes_on)


def is_invariant(p: Polynomial, varying: set[str]) -> bool:
    """Whether it is made of what no trip changes: nothing carried, and nothing that a trip itself made."""
    return not any(
        isinstance(leaf, Atom) and (leaf.arguments[0] in varying or str(leaf.arguments[0]).startswith(INSIDE))
        for leaf in leaves(p)
    )


def _run(evaluator: Evaluator, loop: Loop, start: Environment) -> Environment:
    """The registers at the loop's latch. What a trip makes and nothing is known of is named INSIDE."""
    cfg = evaluator.subject.cfg
    ends: dict[int, Environment] = {}
    evaluator.prefix = INSIDE
    for block in sorted(loop.blocks):
        ways = [ends[p] for p in cfg.predecessors[block] if p in ends]
        environment = dict(start) if block == loop.header else merged(ways, evaluator)
        for instruction in cfg.instructions(block):
            evaluator.run(instruction, environment)
        ends[block] = environment
    evaluator.prefix = "?"
    return ends[loop.latches[0]]


def _defs(instruction: Instruction, subject: Subject) -> list[str]:
    return [d for d in isa.defs(instruction) if d in subject.types]


MANY = 1 << 10
"""More trips than any unrolled loop makes in a turn."""


def _many(bounds: Bounds, register: str, value: Value) -> Bounds:
    """With many trips left in a register."""
    assert isinstance(value, Polynomial)
    return bounds.with_variable(f"@{register}", Interval(MANY, whole(value.width).high))


def _counts_down(value: Value, name: str, bounds: Bounds) -> bool:
    """Whether it is Numba's count of the trips left: ``r - (r > 0)``, once or more often, in any spelling."""
    if not isinstance(value, Polynomial):
        return False
    step = t.sub(value, t.variable(name, value.width))
    read = {leaf.arguments[0] for leaf in leaves(step) if isinstance(leaf, Atom)}
    if t.as_constant(step) is not None or read != {name}:
        return False
    many = bounds.with_variable(name, Interval(MANY, whole(value.width).high)).simplify(step)
    number = t.as_constant(many)
    return number is not None and -64 <= t.signed(number, value.width) < 0


def _trips_left(turn: Turn, initial: Environment, factor: int) -> Polynomial:
    """The trips of a loop that stops when a register that steps by one, or by ``factor``, reaches 0."""
    condition = turn.goes_on
    negated = condition.kind == "not"
    inner = condition.arguments[0] if negated else None
    p = inner.arguments[0] if isinstance(inner, Condition) and inner.kind == "eq" else None
    for register, step in turn.steps.items():
        first = initial.get(register)
        by = t.as_constant(step)
        if not isinstance(first, Polynomial) or by is None or not isinstance(p, Polynomial) or p.width != step.width:
            continue
        after = t.add(t.variable(f"@{register}", step.width), step)
        signed = t.signed(by, step.width)
        if (p is after or p is t.scale(after, -1)) and abs(signed) in (1, factor):
            turns = t.scale(first, -1 if signed > 0 else 1)
            return turns if abs(signed) == factor else t.scale(turns, factor)
    raise Unrecognised("NO_COUNT", f"its loop goes on while {condition}")


def _late(
    carried: tuple[str, ...],
    after: Mapping[str, Value],
    steps: Mapping[str, Polynomial],
    initial: Environment,
    bounds: Bounds,
) -> dict[str, str]:
    """Registers that are a counting register, some steps of it later or earlier, from the first trip on."""
    found: dict[str, str] = {}
    for register in carried:
        value = after[register]
        if register in steps or not isinstance(value, Polynomial):
            continue
        for other, step in steps.items():
            if step.width != value.width:
                continue
            offset = t.sub(value, t.variable(f"@{other}", value.width))
            first, begun = initial.get(register), initial.get(other)
            if isinstance(first, Polynomial) and isinstance(begun, Polynomial) and _free(offset):
                expected = t.sub(t.add(begun, offset), step)
                if bounds.simplify(t.sub(first, expected)) is t.constant(0, first.width):
                    found[register] = other
                    break
    return found


def _free(p: Polynomial) -> bool:
    return not any(isinstance(leaf, Atom) and str(leaf.arguments[0]).startswith(("@", INSIDE)) for leaf in leaves(p))


def _per_trip(turn: Turn, trips: int) -> dict[str, Polynomial]:
    """What each counting register goes on by in one trip, where a turn makes ``trips``."""
    steps = {**turn.steps, **{register: turn.steps[other] for register, other in turn.late.items()}}
    made: dict[str, Polynomial] = {}
    for register, step in steps.items():
        signed = {m: t.signed(c, step.width) for m, c in step.monomials}
        if any(c % trips for c in signed.values()):
            continue
        made[register] = t.from_monomials(step.width, {m: c // trips for m, c in signed.items()})
    return made
