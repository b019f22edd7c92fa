"""Asking a rewriter about one region, and telling it what became of its answers, within a budget.

One conversation serves every architecture: what was answered to one's prompt is tried on all, and the first one on
which an answer fails is the one whose failure is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hybridcc.attempt import attempt
from hybridcc.errors import ModelError
from hybridcc.records import Budget, Exchange, Failure, Told, Usage

if TYPE_CHECKING:
    from hybridcc.passes.rewrite import Answer, Prompt, Rewriter
    from hybridcc.passes.rewrite.feedback import Lesson


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer to ``prompt``. ``base`` is the first-round prompt that it goes back to; ``after`` is the number of the
    answer whose failure it was told, None in the first round; ``lessons`` are all that were told on the way to it, so
    their number is its round."""

    number: int
    prompt: Prompt
    base: Prompt
    text: str
    after: int | None = None
    lessons: tuple[Lesson, ...] = ()


@dataclass(slots=True)
class Conversation:
    """Everything asked and answered about one region, in order."""

    turns: list[Turn] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    _heard: set[int] = field(default_factory=set)

    def add(self, prompt: Prompt, answers: Sequence[Answer], after: Turn | None, lesson: Lesson | None) -> None:
        """A text that was given before, to another architecture's prompt, is no new turn."""
        lessons = (*after.lessons, lesson) if after is not None and lesson is not None else ()
        given = {turn.text for turn in self.turns} if after is None else set()
        base, about = (prompt, None) if after is None else (after.base, after.number)
        for answer in answers:
            if answer.text not in given:
                self.turns.append(Turn(len(self.turns), prompt, base, answer.text, about, lessons))
        self.exchanges.append(
            Exchange(
                prompt.hash,
                prompt.template_version,
                prompt.text,
                tuple(a.text for a in answers),
                root=prompt.root,
                about=about,
                models=tuple(dict.fromkeys(a.model for a in answers)),
            )
        )

    def open(self, turn: Turn) -> bool:
        """Whether nothing has been said about this answer yet; says so once."""
        if turn.number in self._heard:
            return False
        self._heard.add(turn.number)
        return True


@dataclass(slots=True)
class Asker:
    """A rewriter under a budget. ``failures`` of the rewriter end the asking, never the build; each is kept once."""

    rewriter: Rewriter
    budget: Budget
    seed: int
    usage: Usage = field(default_factory=Usage)
    spent: str = ""
    """Which budget ran out, empty while none has."""
    clock: Callable[[], float] = time.monotonic
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.clock()

    def first(
        self, base: Prompt, count: int, failures: list[Failure], so_far: Conversation | None
    ) -> Conversation | None:
        """The answers to a region's prompt beside those to other architectures' prompts, or None where it could not be
        asked and there are no others."""
        answers = self._ask("rewrite", base, count, failures)
        if answers is None:
            return so_far
        conversation = so_far or Conversation()
        conversation.add(base, answers, None, None)
        return conversation

    def tell(self, conversation: Conversation, turn: Turn, lesson: Lesson, failures: list[Failure]) -> None:
        """Hand an answer back with its failure, where rounds and budget allow; what comes back is a new turn."""
        from hybridcc.passes.rewrite.feedback import follow_up

        if len(turn.lessons) >= self.budget.rounds or not conversation.open(turn):
            return
        prompt = follow_up(turn.base, turn.text, lesson, turn.lessons)
        before = len(conversation.turns)
        answers = self._ask("feedback", prompt, 1, failures)
        conversation.add(prompt, answers or (), turn, lesson)
        numbers = tuple(range(before, len(conversation.turns)))
        conversation.told.append(Told(turn.base.hash, turn.number, lesson.code, lesson.text, numbers))

    def _ask(self, stage: str, prompt: Prompt, count: int, failures: list[Failure]) -> tuple[Answer, ...] | None:
        if self._over():
            return ()
        count = min(count, self.budget.samples - self.usage.samples)
        partial: list[Answer] = []

        def propose() -> tuple[Answer, ...]:
            try:
                return self.rewriter.propose(prompt, count=count, seed=self.seed)
            except ModelError as error:
                partial.extend(error.answers)
                raise

        answers = attempt(stage, failures, propose, None)
        if answers is None and stage == "feedback":
            self.spent = "the rewriter failed"  # and would again: what is there already is judged
        if answers is None and partial:
            answers = tuple(partial)
        self.usage = self.usage.with_answers(answers or ())
        return answers

    def _over(self) -> bool:
        if not self.spent:
            self.spent = self.budget.over(self.usage, self.clock() - self.begin)
        return bool(self.spent)
