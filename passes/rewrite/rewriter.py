"""The seam between hybridcc and a language model: a prompt goes in, proposed PTX comes out as plain text.

What comes out is data. ``answer.check`` parses it before any tool sees it; nothing here judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hybridcc.errors import InputError
from hybridcc.passes.rewrite.prompt import Prompt

RECORDED = "recorded answer of a language model"
SAMPLED = "sampled from a language model"

SPECS = "replay:FILE, openai:MODEL@URL, transformers:FOLDER or none"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is asked. ``temperature`` 0 is greedy; ``max_tokens`` bounds one answer."""

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 4096


DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as the model gave it, word for word.

    ``model`` is the label of what gave it, ``kind`` says how it came (RECORDED or SAMPLED). Token counts are
    None where the backend does not tell.
    """

    text: str
    model: str
    kind: str = SAMPLED
    prompt_tokens: int | None = None
    answer_tokens: int | None = None


@runtime_checkable
class Rewriter(Protocol):
    """Whatever answers prompts. Equal prompt, count and seed give equal answers, as far as the backend can."""

    @property
    def label(self) -> str:
        """What the manifest says answered: the model, its revision where known, and the way to it."""
        ...

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        """At most ``count`` answers. Raises ModelError with the next step when none can be had."""
        ...


@dataclass(frozen=True, slots=True)
class NoRewriter:
    """``none``: proposes nothing, so that the baseline is built alone."""

    label: str = "none"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        return ()


def open_rewriter(spec: str, sampling: Sampling = DEFAULT_SAMPLING) -> Rewriter:
    """The rewriter that ``spec`` names: replay:FILE, openai:MODEL@URL, transformers:FOLDER or none.

    Raises InputError for a spec of another form, ModelError (or its subclasses, or MissingExtra) when what it
    names cannot be used. Only the openai form ever opens a socket, and that at the first prompt.
    """
    kind, _, rest = spec.partition(":")
    match kind:
        case "none" if not rest:
            return NoRewriter()
        case "replay" if rest:
            from hybridcc.passes.rewrite.replay import load

            return load(rest)
        case "openai" if "@" in rest:
            from hybridcc.passes.rewrite.endpoint import EndpointRewriter

            model, _, url = rest.rpartition("@")
            return EndpointRewriter.named(model, url, sampling)
        case "transformers" if rest:
            from hybridcc.passes.rewrite.local import LocalRewriter

            return LocalRewriter.in_folder(rest, sampling)
        case _:
            raise InputError(f"{spec!r} names no rewriter", next_step=f"give one of {SPECS}")
