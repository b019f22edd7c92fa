"""Reducing a winner to the edits that matter, by delta debugging over the lines in which it differs from the original.

A reduced text counts if it passes every check that the winner passed, with the same verdict, and is no slower: on a
device by a race against the winner, anywhere if the machine code is the winner's own to the bit. (Of those with the
winner's code, the last is checked, and stands for the others.) What is left then
cannot lose one line more (1-minimal), unless the budget of checks ran out first.

Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002 (ddmin).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hybridcc.attempt import attempt
from hybridcc.errors import NotReduced
from hybridcc.judging import assembled, judge_spliced, module_of
from hybridcc.passes.rewrite.hunks import Difference, difference
from hybridcc.passes.splice import splice
from hybridcc.ptx.canonical import canonical_key
from hybridcc.records import PENDING, CandidateRecord, Failure, Machine, Minimised
from hybridcc.refining import with_speed
from hybridcc.selection import stands
from hybridcc.work import State, Work

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region
    from hybridcc.passes.splice.candidate import Candidate

SUFFIX = "-min"
TRIES = 50
"""Texts that may be spliced for each that may be checked."""


def minimise(state: State, work: Work) -> None:
    """Each region's winner, reduced, as a candidate of its own beside it; nothing where no budget was given."""
    if not work.options.minimise:
        return
    for region, conversation in state.regions:
        winner = None if conversation is None else _winner(state, region, work)
        if winner is None or winner.name + SUFFIX in state.candidates:
            continue
        found = attempt("minimise", state.failures, lambda r=region, w=winner: _reduced(state, r, w, work), None)
        if found is not None:
            state.candidates[found.name] = found


def ddmin(whole: Sequence[int], passes: Callable[[frozenset[int]], bool]) -> frozenset[int]:
    """A subset for which ``passes`` holds and from which nothing can be taken. ``passes(whole)`` must hold."""
    current, parts = list(whole), 2
    while len(current) >= 2:
        size = -(-len(current) // parts)
        chunks = [current[i : i + size] for i in range(0, len(current), size)]
        rests = [[n for n in current if n not in chunk] for chunk in chunks]
        smaller = next((c for c in chunks if passes(frozenset(c))), None) if len(chunks) > 2 or parts == 2 else None
        if smaller is not None:
            current, parts = smaller, 2
            continue
        rest = next((r for r in rests if passes(frozenset(r))), None) if len(chunks) > 1 else None
        if rest is not None:
            current, parts = rest, max(parts - 1, 2)
        elif parts >= len(current):
            break
        else:
            parts = min(len(current), 2 * parts)
    if len(current) == 1 and passes(frozenset()):
        current = []
    return frozenset(current)


@dataclass(slots=True)
class _Search:
    """``left`` is how many more texts may be assembled and checked, ``tries`` how many may be spliced, which is cheap
    and where most of what makes no sense ends."""

    state: State
    region: Region
    winner: CandidateRecord
    work: Work
    texts: Difference
    left: int
    tries: int
    checks: int = 0
    found: dict[frozenset[int], CandidateRecord] = field(default_factory=dict)
    failed: set[frozenset[int]] = field(default_factory=set)
    spliced: dict[tuple[str, str], Candidate] = field(default_factory=dict)
    """Of those that were taken for the sake of their machine code, and not checked yet."""

    def passes(self, kept: frozenset[int]) -> bool:
        if kept not in self.found and kept not in self.failed:
            if self.left <= 0 or self.tries <= 0:
                return False
            self.tries -= 1
            found = self._judged(self.texts.text(kept), f"{self.winner.name}{SUFFIX}")
            if found is None:
                self.failed.add(kept)
            else:
                self.found[kept] = found
        return kept in self.found

    def _judged(self, text: str, name: str) -> CandidateRecord | None:
        """The candidate that the text makes, if it counts."""
        failed: list[Failure] = []
        module = module_of(self.state.kernel)
        spliced: Candidate | None = attempt("splice", failed, lambda: splice(module, self.region, text), None)
        if spliced is None:
            return None
        key = (self.region.id, canonical_key(spliced.module, self.state.kernel.entry))
        twin = self.state.candidates.get(self.state.seen.get(key, ""))
        if twin is not None:  # up to names what was judged before: the winner itself, to begin with
            counts = stands(twin, self.work.options.accept) and _as_strong(twin, self.winner)
            same = twin.name == self.winner.name or _same_code(twin.machine, self.winner.machine)
            return replace(twin, name=name, answer=text) if counts and same else None
        self.left -= 1
        self.checks += 1
        self.work.progress(f"{self.state.kernel.name} {self.state.kernel.arch}: {name}, check {self.checks}")
        state, options = self.state, self.work.options
        machine = attempt("assemble", failed, lambda: assembled(state, spliced.text, name, options), None)
        if machine is None:
            return None
        if _same_code(machine, self.winner.machine):
            self.spliced[name, text] = spliced
            return replace(self.winner, name=name, answer=text, machine=machine)
        if self.work.race is None:
            return None  # how fast it is, nothing here can tell
        checked = self.checked(text, name, spliced)
        return None if checked is None else self._no_slower(checked)

    def checked(self, text: str, name: str, spliced: Candidate) -> CandidateRecord | None:
        """The candidate, if it passes what the winner passed."""
        key = (self.region.id, canonical_key(spliced.module, self.state.kernel.entry))
        record = replace(self.winner, name=name, answer=text, fate=PENDING, evidence=None, machine=None, after="")
        candidate = judge_spliced(self.state, None, record, spliced, self.work)
        self.state.seen.pop(key, None)
        passed = stands(candidate, self.work.options.accept) and _as_strong(candidate, self.winner)
        return candidate if passed else None

    def _no_slower(self, candidate: CandidateRecord) -> CandidateRecord | None:
        """By a race of both; without a device nothing is known, and it does not count."""
        race = self.work.race
        if race is None:
            return None
        speeds = attempt(
            "race", [], lambda: race(self.state.kernel, self.state.baseline, [self.winner, candidate]), {}
        )
        mine, other = speeds.get(candidate.name), speeds.get(self.winner.name)
        if mine is None or other is None or mine.interval is None or other.interval is None or mine.deviation:
            return None
        raced = with_speed(candidate, mine)
        return raced if mine.kind == "faster" and mine.interval[1] >= other.interval[0] else None


def _winner(state: State, region: Region, work: Work) -> CandidateRecord | None:
    """The fastest of the region; without a race the first that passed."""
    own = [c for c in state.candidates.values() if c.region == region.id and stands(c, work.options.accept)]
    raced = [c for c in own if c.speed.kind == "faster" and c.speed.ratio is not None]
    if raced:
        return max(raced, key=lambda c: c.speed.ratio or 0.0)
    return own[0] if own and work.race is None else None


def _reduced(state: State, region: Region, winner: CandidateRecord, work: Work) -> CandidateRecord:
    texts = difference(region.text, state.rewrites[winner.name])
    whole = frozenset(range(texts.edits))
    budget = work.options.minimise
    search = _Search(state, region, winner, work, texts, budget, TRIES * budget)
    if not search.passes(whole):
        raise _not_reduced(winner, "with its registers renamed it does not pass, so lines cannot be compared")
    kept = ddmin(sorted(whole), search.passes)
    complete = search.left > 0 and search.tries > 0
    best = search.found[kept]
    unchecked = search.spliced.get((best.name, best.answer))
    if unchecked is not None:
        checked = search.checked(best.answer, best.name, unchecked)
        if checked is None:
            raise _not_reduced(winner, "the reduced text has its machine code, and could not be verified as strongly")
        best = replace(checked, speed=winner.speed)
    state.rewrites[best.name] = best.answer
    left = difference(region.text, best.answer)
    gone = texts.shown({n for n in whole - kept if texts.is_added(n)})
    outcome = Minimised(winner.name, left.shown(range(left.edits)), gone, search.checks, complete)
    return replace(best, minimised=outcome)


def _not_reduced(winner: CandidateRecord, why: str) -> NotReduced:
    return NotReduced(f"{winner.name} was not reduced: {why}", next_step="the winner itself stands")


def _as_strong(candidate: CandidateRecord, winner: CandidateRecord) -> bool:
    """The same kind of verdict, with no more set aside."""
    assert candidate.evidence is not None
    assert winner.evidence is not None
    mine, other = candidate.evidence.verdict, winner.evidence.verdict
    aside = set(getattr(mine, "aside", ())) <= set(getattr(other, "aside", ()))
    return type(mine) is type(other) and aside


def _same_code(one: Machine | None, other: Machine | None) -> bool:
    """Whether both have the same machine code, byte for byte."""
    from hybridcc.runtime.elf import sections

    assert one is not None
    assert other is not None
    codes = [
        [(s.name, s.content) for s in sections(machine.cubin.bytes) if s.name.startswith(".text.")]
        for machine in (one, other)
    ]
    return codes[0] == codes[1]
