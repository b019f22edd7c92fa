"""RulesRewriter: what the rules make of a prompt's region, most promising first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from hybridcc.passes.rewrite.prompt import Prompt
from hybridcc.passes.rewrite.rewriter import RULES, Answer

if TYPE_CHECKING:
    from hybridcc.passes.facts import Fact
    from hybridcc.passes.regions import Region
    from hybridcc.passes.rewrite.rules.counted import Counted
    from hybridcc.passes.rewrite.rules.counted_loop import Plan
    from hybridcc.passes.rewrite.rules.trip import Trip


@dataclass(frozen=True, slots=True)
class Proposal:
    """The text of a rewrite and what was done, in words."""

    text: str
    rule: str


@dataclass(frozen=True, slots=True)
class RulesRewriter:
    """Proposes what the rules make of the region that a prompt was built for. The seed changes nothing."""

    label: str = "rules"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        """Nothing for a follow-up, since a rule does not learn. Raises ModelError for a prompt that was read back from
        a file, NoRule where no rule knows the region, with the reason."""
        from hybridcc.errors import ModelError, NoRule
        from hybridcc.passes.rewrite.rules.subject import Unrecognised

        if prompt.root:
            return ()
        if prompt.source is None:
            raise ModelError(
                "rules work on a kernel's region, and this prompt was read from a file",
                next_step="give the kernel itself: `hybridcc build KERNEL --rewriter rules`",
            )
        try:
            region, kernel = prompt.source
            found = proposals(region, count, kernel.facts)
        except Unrecognised as reason:
            raise NoRule(str(reason), next_step="ask a language model: --rewriter") from reason
        return tuple(Answer(each.text, f"{self.label}: {each.rule}", RULES, 0, 0) for each in found)


def proposals(region: Region, count: int, facts: tuple[Fact, ...] = ()) -> tuple[Proposal, ...]:
    """At most ``count`` distinct rewrites of a region; ``facts`` are its kernel's. Raises Unrecognised where there is
    none, with the reason."""
    from hybridcc.passes.rewrite.rules.subject import Unrecognised

    found: dict[str, Proposal] = {}
    reasons: list[Unrecognised] = []
    for rule in (_counted, _simplified):
        try:
            for proposal in rule(region, facts):
                found.setdefault(proposal.text, proposal)
        except Unrecognised as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    return tuple(found.values())[:count]


def _counted(region: Region, facts: tuple[Fact, ...]) -> Iterator[Proposal]:
    """Counted loops: with branches decided, with wraparounds dropped under a guard, and as they stand, in turns."""
    from hybridcc.passes.rewrite.rules import fold, guards
    from hybridcc.passes.rewrite.rules.subject import Unrecognised

    ways: list[Iterator[Proposal]] = []
    before = fold.folded(region, facts)
    if before is not None and not before[0]:
        region = before[1]
    elif before is not None:
        with suppress(Unrecognised):  # the region as it is may have a loop that is known
            ways.append(_loops(_read(before[1], facts), before[0]))
    counted = _read(region, facts)
    guarded = guards.helping(region, counted[1])
    if guarded is not None:
        asked, under = guarded
        ways.append(_loops(_read(under, facts), asked))
    ways.append(_loops(counted, ()))
    for turn in zip_longest(*ways):
        yield from (proposal for proposal in turn if proposal is not None)


def _simplified(region: Region, facts: tuple[Fact, ...]) -> Iterator[Proposal]:
    """The region's own blocks with what is decided."""
    from hybridcc.passes.rewrite.rules.demote import demoted
    from hybridcc.passes.rewrite.rules.simplified import simplified
    from hybridcc.passes.rewrite.rules.subject import Unrecognised, subject_of

    text = region.text
    with suppress(Unrecognised):
        text = simplified(subject_of(region, facts))
        yield Proposal(text, "simplified in place")
    less = demoted(text, region)
    if less is not None:
        yield Proposal(less, "f32 in the place of f64")


def _read(region: Region, facts: tuple[Fact, ...]) -> tuple[Counted, Trip, Trip | None]:
    """The region's loop, a trip of it, and a last trip that differs. Raises Unrecognised."""
    from hybridcc.passes.rewrite.rules.counted import recognise
    from hybridcc.passes.rewrite.rules.subject import subject_of
    from hybridcc.passes.rewrite.rules.trip import trip_of

    counted = recognise(subject_of(region, facts))
    return counted, trip_of(counted), None if counted.rest is None else trip_of(counted, counted.rest)


def _loops(read: tuple[Counted, Trip, Trip | None], asked: tuple[str, ...]) -> Iterator[Proposal]:
    """The text of each plan for a loop, under the guards ``asked`` for it and those that a plan needs."""
    from hybridcc.passes.rewrite.rules.demote import demoted
    from hybridcc.passes.rewrite.rules.subject import Unrecognised
    from hybridcc.passes.rewrite.rules.text import candidate

    counted, trip, rest = read
    for plan in plans(counted):
        try:
            needed, text = candidate(trip, rest, plan)
        except Unrecognised:
            if plan.narrow:
                continue
            raise
        if plan.vector and not needed:
            continue
        text = "".join(f"// guard: {line}\n" for line in (*asked, *needed)) + text
        words = f"counted loop, {plan}" + (", guarded" if asked or needed else "")
        less = demoted(text, counted.subject.region)
        if less is not None:
            yield Proposal(less, f"{words}, f32 in the place of f64")
        yield Proposal(text, words)


def plans(counted: Counted) -> list[Plan]:
    """Ways to unroll a loop, most promising first: as often as LLVM did, with its loads together, comes before more."""
    from hybridcc.passes.facts import Relation
    from hybridcc.passes.rewrite.rules.counted_loop import Plan
    from hybridcc.passes.verify.proof import terms as t
    from hybridcc.ptx import isa
    from hybridcc.ptx.isa import Effect

    own = counted.unroll
    effects = {e for code in counted.unit.code.values() for i in code for e in isa.effects(i)}
    if effects & {Effect.ATOMIC, Effect.BARRIER, Effect.CONVERGENT} or counted.rest is not None:
        return [Plan(own)]  # a rewrite has as many of them as the region
    count = t.as_constant(counted.trips)
    sizes = [n for n in dict.fromkeys((max(own, 4), 8, 1, own, 2)) if count is None or count % n == 0]
    best = max(own, 4) if max(own, 4) in sizes else sizes[0]
    constant = any(f.relation is Relation.READ_ONLY for f in counted.subject.region.facts)
    found = [Plan(best, vector=True, read_only=constant)] if not counted.remainder_first else []
    found += [Plan(best, read_only=True)] if constant else []
    found += [Plan(n) for n in sizes]
    return [*found, Plan(best, narrow=True)]
