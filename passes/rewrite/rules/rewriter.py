"""RulesRewriter: what the rules make of a prompt's region, most promising first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridcc.passes.rewrite.prompt import Prompt
from hybridcc.passes.rewrite.rewriter import RULES, Answer

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region


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
        a file, and where no rule knows the region, with the reason."""
        from hybridcc.errors import ModelError
        from hybridcc.passes.rewrite.rules.subject import Unrecognised

        if prompt.root:
            return ()
        if prompt.source is None:
            raise ModelError(
                "rules work on a kernel's region, and this prompt was read from a file",
                next_step="give the kernel itself: `hybridcc build KERNEL --rewriter rules`",
            )
        try:
            found = proposals(prompt.source, count)
        except Unrecognised as reason:
            raise ModelError(
                f"no rule knows this region: {reason}", next_step="ask a language model: --rewriter"
            ) from reason
        return tuple(Answer(each.text, f"{self.label}: {each.rule}", RULES, 0, 0) for each in found)


def proposals(region: Region, count: int) -> tuple[Proposal, ...]:
    """At most ``count`` distinct rewrites of a region. Raises Unrecognised with the reason where there is none."""
    from hybridcc.passes.rewrite.rules.counted import recognise
    from hybridcc.passes.rewrite.rules.counted_loop import Plan
    from hybridcc.passes.rewrite.rules.subject import subject_of
    from hybridcc.passes.rewrite.rules.text import candidate
    from hybridcc.passes.rewrite.rules.trip import trip_of

    trip = trip_of(recognise(subject_of(region)))
    plans = [Plan(4), Plan(8), Plan(1), Plan(2)]
    found: dict[str, Proposal] = {}
    for plan in plans:
        text = candidate(trip, plan)
        found.setdefault(text, Proposal(text, f"counted loop, {plan}"))
    return tuple(found.values())[:count]
