"""The seam between hybridcc and a language model: a prompt goes in, proposed PTX comes out as plain text.

What comes out is data. ``answer.check`` parses it before any tool sees it; nothing here judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hybridcc.errors import HybridccError, InputError, ModelError
from hybridcc.passes.rewrite.prompt import Prompt

RECORDED = "recorded answer of a language model"
SAMPLED = "sampled from a language model"
RULES = "made by rules"

GROUP = "hybridcc.rewriters"
"""Entry points of other packages: ``name = "module:function"``, called as ``function(rest, sampling)``."""

SPECS = "rules, replay:FILE, openai:MODEL@URL, transformers:FOLDER or none"


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

    ``model`` is the label of what gave it, ``kind`` says how it came (RECORDED, SAMPLED or RULES). Token counts are
    None where the backend does not tell.
    """

    text: str
    model: str
    kind: str = SAMPLED
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    cost: float | None = None
    """In the currency of the prices that were given, if any were."""


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


def window_of(rewriter: Rewriter | None) -> int | None:
    """How many tokens it reads and writes in all, where it says so by an attribute ``window``."""
    found = getattr(rewriter, "window", None)
    return found if isinstance(found, int) else None


def open_rewriter(spec: str, sampling: Sampling = DEFAULT_SAMPLING) -> Rewriter:
    """The rewriter that ``spec`` names: rules, replay:FILE, openai:MODEL@URL, transformers:FOLDER, none, or NAME:REST
    for one that another package brings.

    Raises InputError for a spec of another form, ModelError (or its subclasses, or MissingExtra) when what it
    names cannot be used. Only the openai form ever opens a socket, and that at the first prompt.
    """
    kind, _, rest = spec.partition(":")
    match kind:
        case "none" if not rest:
            return NoRewriter()
        case "rules" if not rest:
            from hybridcc.passes.rewrite.rules import RulesRewriter

            return RulesRewriter()
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
            return _installed(kind, rest, spec, sampling)


def _installed(kind: str, rest: str, spec: str, sampling: Sampling) -> Rewriter:
    """A rewriter of another package: its entry point in GROUP is called with what follows the colon, and the
    sampling. Raises InputError where none has this name, ModelError where it cannot be loaded or gives no rewriter."""
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP, name=kind)
    if not found:
        names = ", ".join(sorted({f"{point.name}:…" for point in entry_points(group=GROUP)}))
        also = f" (installed besides: {names})" if names else ""
        raise InputError(f"{spec!r} names no rewriter", next_step=f"give one of {SPECS}{also}")
    point = next(iter(found))
    try:
        made = point.load()(rest, sampling)
    except HybridccError:
        raise
    except Exception as error:  # whatever another package raises
        raise ModelError(
            f"the rewriter {kind} cannot be opened: {type(error).__name__}: {error}",
            where=point.value,
            next_step="mend or remove the package that brings it",
        ) from error
    if not isinstance(made, Rewriter):
        raise ModelError(
            f"the rewriter {kind} is none: it has no label, or no propose(prompt, *, count, seed)",
            where=point.value,
            next_step="mend or remove the package that brings it",
        )
    return made
