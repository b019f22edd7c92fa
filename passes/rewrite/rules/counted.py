"""Numba's range loops, recognised by what they compute: how many trips there are, and each register in trip k.

Numba keeps an iterator in three registers (value, next value, trips left), and LLVM unrolls the loop and adds counters
of its own. All of them are recognised by their step: a register that goes on by an invariant from trip to trip, or
that is the one that did, a trip late. Which trips LLVM's main loop makes and which its remainder makes does not matter:
together they are one loop, and one trip of the remainder is one trip of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hybridcc.passes.analysis.cfg import reach
from hybridcc.passes.analysis.interval import Interval, whole
from hybridcc.passes.analysis.loops import Loop
from hybridcc.passes.rewrite.rules.bounds import Bounds, of_facts
from hybridcc.passes.rewrite.rules.evaluate import Environment, Evaluator, Value, merged, symbol
from hybridcc.passes.rewrite.rules.subject import Subject, Unrecognised
from hybridcc.passes.verify.proof import terms as t
from hybridcc.passes.verify.proof.rewrite import Rewriter, leaves
from hybridcc.passes.verify.proof.terms import Atom, Condition, Polynomial
from hybridcc.ptx.nodes import Instruction

INSIDE = "?in:"
"""Begins the names of values that a trip makes and of which nothing is known."""

LONGEST_WAY = 8
"""Blocks between what is before a loop and the loop."""

TRIP = "@k"
"""The number of the trip, from 0, as a variable in the terms of one trip."""


@dataclass(frozen=True)
class Counted:
    """One logical loop of ``trips`` trips (at least one), which begins behind block ``head`` and ends at ``exit``.

    ``path`` are the blocks between ``head`` and ``unit`` where the unrolled loop is passed by; ``unit`` the blocks of
    one trip. ``initial`` are the registers before the first trip; ``steps`` what each counting register goes on by,
    ``data`` the other registers that one trip hands to the next. ``bounds`` hold in every trip.
    """

    subject: Subject
    evaluator: Evaluator = field(repr=False)
    head: int
    exit: int
    path: tuple[int, ...]
    unit: Loop
    trips: Polynomial
    initial: Mapping[str, Value] = field(repr=False)
    steps: Mapping[str, Polynomial]
    data: frozenset[str]
    bounds: Bounds = field(repr=False)
    remainder_first: bool
    unroll: int
    """How many trips one turn of the unrolled loop makes, 1 where there is none."""


def recognise(subject: Subject) -> Counted:
    """The region's loop as a counted one. Raises Unrecognised with the reason."""
    outer = [loop for loop in subject.loops if loop.parent is None]
    if not outer:
        raise Unrecognised("NO_LOOP", "it holds no loop")
    if len(outer) != len(subject.loops):
        raise Unrecognised("NESTED", "it holds loops in loops")
    if len(outer) > 2:
        raise Unrecognised("SEVERAL_LOOPS", f"it holds {len(outer)} loops")
    unit = min(outer, key=lambda loop: sum(_work(subject, loop.blocks).values()))
    main = next((loop for loop in outer if loop is not unit), None)
    factor = 1 if main is None else _ratio(subject, main, unit)
    evaluator = Evaluator(subject)
    widths = {f"%in{k}": w for k, w in enumerate(map(evaluator.width, _ports(subject)))}
    head, exit_ = _around(subject, outer)
    bounds, before = _entered(evaluator, of_facts(subject.region.facts, widths), outer, head)
    path = _path(subject, head, unit, main)
    start = _along(evaluator, before, path)
    return _counted(subject, evaluator, bounds, before, (head, exit_, path), (unit, main, factor), start)


def _ports(subject: Subject) -> list[str]:
    return [f"%in{k}" for k in range(len(subject.region.live_in))]


def _counted(
    subject: Subject,
    evaluator: Evaluator,
    bounds: Bounds,
    before: Environment,
    place: tuple[int, int, tuple[int, ...]],
    loops: tuple[Loop, Loop | None, int],
    start: Environment,
) -> Counted:
    head, exit_, path = place
    unit, main, factor = loops
    initial = _simplified(start, bounds)
    turn = turn_of(evaluator, unit, initial, bounds)
    counter = turn.counter
    if counter is not None and turn.steps[counter] is t.constant(-1, evaluator.width(counter)):
        first = initial[counter]
        assert isinstance(first, Polynomial)
        trips = bounds.simplify(t.add(first, t.constant(1, first.width)))
    else:
        trips = _trips_left(evaluator, turn, initial, 1)
        if main is not None:
            main_path = _path(subject, head, main, None)
            main_initial = _simplified(_along(evaluator, before, main_path), bounds)
            main_turn = turn_of(evaluator, main, main_initial, bounds)
            trips = t.add(trips, _trips_left(evaluator, main_turn, main_initial, factor))
        trips = bounds.simplify(trips)
    if bounds.range(trips).low < 1:
        raise Unrecognised("NO_COUNT", f"nothing says that there are trips: {trips}")
    steps, data = _sorted(evaluator, turn, initial, bounds)
    first_main = main is not None and unit.header not in reach(subject.cfg, main.header)
    return Counted(
        subject,
        evaluator,
        head,
        exit_,
        path,
        unit,
        trips,
        initial,
        steps,
        data,
        bounds,
        remainder_first=first_main,
        unroll=factor,
    )


# --- where it stands ------------------------------------------------------------------------------------


def _work(subject: Subject, blocks: Iterable[int]) -> Counter[str]:
    """How often each operation stands there that touches memory or computes with floating point."""
    from hybridcc.passes.regions.shape import FLOATING
    from hybridcc.ptx import isa
    from hybridcc.ptx.isa import Effect

    found: Counter[str] = Counter()
    for block in blocks:
        for instruction in subject.instructions(block):
            touches = isa.effects(instruction) & {Effect.READ, Effect.WRITE, Effect.ATOMIC}
            if touches or any(m.startswith(FLOATING) for m in instruction.modifiers):
                found[instruction.full_opcode] += 1
    return found


def _ratio(subject: Subject, main: Loop, unit: Loop) -> int:
    """How many trips one turn of the unrolled loop makes. Raises Unrecognised where it does other work."""
    whole_, part = _work(subject, main.blocks), _work(subject, unit.blocks)
    total, each = sum(whole_.values()), sum(part.values())
    if not each or total % each or total == each:
        raise Unrecognised("OTHER_WORK", "its loops are no unrolled loop and remainder")
    return total // each


def _around(subject: Subject, loops: list[Loop]) -> tuple[int, int]:
    """The nearest blocks that all loops lie between."""
    above = [list(subject.dominators.chain(loop.header)) for loop in loops]
    inside = {b for loop in loops for b in loop.blocks}
    head = next((b for b in above[0] if b not in inside and all(b in chain for chain in above)), None)
    below = [list(subject.post_dominators.chain(loop.header)) for loop in loops]
    exit_ = next((b for b in below[0] if b not in inside and all(b in chain for chain in below)), None)
    if head is None or exit_ is None or exit_ < 0:
        raise Unrecognised("NO_ENTRY", "it begins inside its loop")
    for block in reach(subject.cfg, head, avoiding=exit_) - {head}:
        if any(p != head and head not in subject.dominators.chain(p) for p in subject.cfg.predecessors[block]):
            raise Unrecognised("TANGLED", "its loops are entered from several places")
    return head, exit_


def _path(subject: Subject, head: int, loop: Loop, other: Loop | None) -> tuple[int, ...]:
    """The blocks between ``head`` and the loop where the other loop makes no turn."""
    avoided = other.blocks if other is not None else frozenset()
    waiting: list[tuple[int, ...]] = [()]
    found: list[tuple[int, ...]] = []
    while waiting:
        path = waiting.pop()
        for successor in subject.cfg.blocks[path[-1] if path else head].successors:
            if successor == loop.header:
                found.append(path)
            elif successor not in avoided and successor not in path and successor not in loop.blocks:
                longer = (*path, successor)
                if len(longer) < LONGEST_WAY:
                    waiting.append(longer)
    if len(found) != 1:
        raise Unrecognised("NO_WAY", f"{len(found)} ways lead to its loop")
    return found[0]


def _entered(evaluator: Evaluator, bounds: Bounds, loops: list[Loop], head: int) -> tuple[Bounds, Environment]:
    """What is known behind block ``head``: the conditions on the only way to the loops, and the registers."""
    subject, cfg = evaluator.subject, evaluator.subject.cfg
    headers = {loop.header for loop in loops}
    leads = {b.index for b in cfg.blocks if reach(cfg, b.index) & headers}
    ends: dict[int, Environment] = {}
    for block in sorted(_between(subject, head)):
        ways = [ends[p] for p in cfg.predecessors[block] if p in ends]
        environment = merged(ways, evaluator) if ways else {}
        for instruction in cfg.instructions(block):
            evaluator.run(instruction, environment)
        ends[block] = environment
        guard = cfg.instructions(block)[-1].guard if cfg.instructions(block) else None
        leading = [s for s in cfg.blocks[block].successors if s in leads]
        on_way = block in subject.dominators.chain(head)
        if guard is None or len(cfg.blocks[block].successors) != 2 or len(leading) != 1 or not on_way:
            continue
        condition = environment.get(guard.name, symbol(guard.name, 1))
        assert isinstance(condition, Condition)
        jumps = leading[0] != cfg.blocks[block].fallthrough
        bounds = bounds.assuming(bounds.simplify_condition(condition), jumps != guard.negated)
        bounds = bounds.assuming(condition, jumps != guard.negated)
    return bounds, ends[head]


def _between(subject: Subject, head: int) -> list[int]:
    """The blocks that lead to ``head``, itself among them."""
    above = [b for b in subject.cfg.reachable if head in reach(subject.cfg, b)]
    return [b for b in above if b == head or b not in reach(subject.cfg, head)]


def _along(evaluator: Evaluator, before: Environment, path: Iterable[int]) -> Environment:
    environment = dict(before)
    for block in path:
        for instruction in evaluator.subject.instructions(block):
            evaluator.run(instruction, environment)
    return environment


def _simplified(environment: Environment, bounds: Bounds) -> Environment:
    rewriter = Rewriter(decide=bounds.decide)
    return {
        register: rewriter.polynomial(value) if isinstance(value, Polynomial) else rewriter.condition(value)
        for register, value in environment.items()
    }


# --- one turn of a loop ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What one turn makes of the registers that the next one reads: ``after`` in terms of ``@register``.

    ``steps`` are those that go on by something invariant; ``counter`` is Numba's number of trips left.
    """

    carried: tuple[str, ...]
    after: Mapping[str, Value]
    steps: Mapping[str, Polynomial]
    counter: str | None
    goes_on: Condition


def turn_of(evaluator: Evaluator, loop: Loop, initial: Environment, bounds: Bounds) -> Turn:
    subject, cfg = evaluator.subject, evaluator.subject.cfg
    defined = {d for b in loop.blocks for i in cfg.instructions(b) for d in _defs(i, subject)}
    carried = tuple(sorted(subject.liveness.live_in[loop.header] & defined))
    start: Environment = {**initial, **{r: symbol(f"@{r}", evaluator.width(r)) for r in carried}}
    after = run_blocks(evaluator, loop, start)
    latch = loop.latches[0]
    last = cfg.instructions(latch)[-1]
    if len(loop.latches) != 1 or last.guard is None or {b for b, _ in loop.exits} != {latch}:
        raise Unrecognised("DATA_EXIT", "its loop is left from its middle")
    condition = after.get(last.guard.name, symbol(last.guard.name, 1))
    assert isinstance(condition, Condition)
    jumps = cfg.blocks[latch].fallthrough != loop.header
    goes_on = condition if jumps != last.guard.negated else t.negation(condition)
    counter, assumed = None, bounds
    for register in carried:
        found = _counts_down(after[register], f"@{register}")
        if found is not None:
            counter, assumed = register, assumed.assuming(*found)
    rewriter = Rewriter(decide=assumed.decide)
    varying = {f"@{r}" for r in carried}
    steps: dict[str, Polynomial] = {}
    settled: dict[str, Value] = {}
    for register in carried:
        value = after[register]
        if not isinstance(value, Polynomial):
            settled[register] = value
            continue
        value = settled[register] = rewriter.polynomial(value)
        step = t.sub(value, t.variable(f"@{register}", value.width))
        if is_invariant(step, varying):
            steps[register] = step
    return Turn(carried, settled, steps, counter, goes_on)


def is_invariant(p: Polynomial, varying: set[str]) -> bool:
    """Whether it is made of what no trip changes: nothing carried, and nothing that a trip itself made."""
    return not any(
        isinstance(leaf, Atom) and (leaf.arguments[0] in varying or str(leaf.arguments[0]).startswith(INSIDE))
        for leaf in leaves(p)
    )


def run_blocks(evaluator: Evaluator, loop: Loop, start: Environment) -> Environment:
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
    from hybridcc.ptx import isa

    return [d for d in isa.defs(instruction) if d in subject.types]


def _counts_down(value: Value, name: str) -> tuple[Condition, bool] | None:
    """The condition, and how it must be, under which a register goes down by one: ``r - (r > 0)`` in any spelling."""
    if not isinstance(value, Polynomial):
        return None
    step = t.sub(value, t.variable(name, value.width))
    bits = {a for monomial, _ in step.monomials for a in monomial}
    if len(bits) != 1:
        return None
    (single,) = bits
    condition = single.arguments[0] if single.operation == "bit" else None
    own = {leaf.arguments[0] for leaf in leaves(step) if isinstance(leaf, Atom)}
    if not isinstance(condition, Condition) or own != {name}:
        return None
    for holds in (True, False):
        put = Rewriter(decide=lambda c, h=holds, own=condition: h if c is own else None).polynomial(step)
        if put is t.constant(-1, step.width):
            return condition, holds
    return None


def _trips_left(evaluator: Evaluator, turn: Turn, initial: Environment, factor: int) -> Polynomial:
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


def _sorted(
    evaluator: Evaluator, turn: Turn, initial: Environment, bounds: Bounds
) -> tuple[dict[str, Polynomial], frozenset[str]]:
    """Each counting register's step, those a trip late among them, and the registers that carry data."""
    steps = dict(turn.steps)
    late = [r for r in turn.carried if r not in steps]
    for register in late:
        value = turn.after[register]
        if not isinstance(value, Polynomial):
            continue
        for other, step in turn.steps.items():
            if step.width != value.width:
                continue
            offset = t.sub(value, t.variable(f"@{other}", value.width))
            first, begun = initial.get(register), initial.get(other)
            if isinstance(first, Polynomial) and isinstance(begun, Polynomial) and _free(offset):
                expected = t.sub(t.add(begun, offset), step)
                if bounds.simplify(t.sub(first, expected)) is t.constant(0, first.width):
                    steps[register] = step
                    break
    return steps, frozenset(turn.carried) - steps.keys()


def _free(p: Polynomial) -> bool:
    return not any(isinstance(leaf, Atom) and str(leaf.arguments[0]).startswith(("@", INSIDE)) for leaf in leaves(p))


def most(width: int) -> Interval:
    """Counts that no trip leaves: 0 to the greatest signed number."""
    return Interval(0, whole(width).high)
