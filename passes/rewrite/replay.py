"""``replay:FILE``: answers from a recording, for builds that must be the same everywhere and need no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hybridcc.errors import RecordingMismatch
from hybridcc.passes.rewrite import recording
from hybridcc.passes.rewrite.prompt import Prompt
from hybridcc.passes.rewrite.recording import Recorded
from hybridcc.passes.rewrite.rewriter import Answer


@dataclass(frozen=True, slots=True)
class ReplayRewriter:
    """Gives what was recorded for exactly the prompt asked, in recorded order; seed and sampling change nothing."""

    path: str
    held: Mapping[str, tuple[Recorded, ...]] = field(repr=False)
    """Answers by prompt hash."""

    @property
    def label(self) -> str:
        models = sorted({r.model for answers in self.held.values() for r in answers})
        return f"replay of {Path(self.path).name} ({', '.join(models) or 'empty'})"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        """Raises RecordingMismatch when nothing was recorded for this prompt. To a follow-up that was not recorded
        there is no further answer: the session that was recorded ended there."""
        found = self.held.get(prompt.hash)
        if found is None and prompt.root:
            return ()
        if found is None:
            raise RecordingMismatch(
                f"no answer is recorded for prompt {prompt.hash[:12]} (template {prompt.template_version}); "
                f"the recording holds {self._held_text()}",
                where=self.path,
                next_step="record it: `hybridcc prompts TARGET -o prompts.jsonl`, have a model answer, "
                f"`hybridcc answers import ANSWERS --prompts prompts.jsonl -o {Path(self.path).name}`",
            )
        return tuple(Answer(r.answer, r.model, r.kind) for r in found[:count])

    def _held_text(self) -> str:
        if not self.held:
            return "no answers"
        return ", ".join(f"{h[:12]} (template {answers[0].template_version})" for h, answers in self.held.items())


def load(path: str | Path) -> ReplayRewriter:
    """The recording at ``path``. Raises ModelError when it cannot be read."""
    held: dict[str, tuple[Recorded, ...]] = {}
    for answer in recording.read(path):
        held[answer.prompt_hash] = (*held.get(answer.prompt_hash, ()), answer)
    return ReplayRewriter(str(path), held)
