"""Decoding that follows a grammar: at every step only tokens that keep the answer in it can be drawn (llguidance)."""

from __future__ import annotations

from typing import Any

from hybridcc.errors import MissingExtra, ModelError


def processor(tokenizer: Any, grammar: str, prompt_tokens: int) -> Any:
    """A ``transformers.LogitsProcessor`` for one batch, whose sequences begin with so many tokens of the prompt.

    Raises MissingExtra without llguidance, ModelError for a tokenizer that it cannot use.
    """
    try:
        import llguidance
        import llguidance.hf
        from transformers import LogitsProcessor
    except ImportError as error:
        raise MissingExtra(
            f"constrained decoding needs llguidance ({error})", next_step="pip install 'hybridcc[model]'"
        ) from error
    try:
        tokens = llguidance.hf.from_tokenizer(tokenizer)
    except Exception as error:  # whatever it raises for a tokenizer of a kind that it does not know
        raise ModelError(
            f"constrained decoding cannot use this tokenizer: {type(error).__name__}: {error}",
            next_step="use a model with a fast tokenizer (tokenizer.json)",
        ) from error
    import llguidance.numpy as masks  # its torch twin compiles at import
    import numpy as np
    import torch

    class Constrained(LogitsProcessor):
        """Holds one matcher a sequence; sequences grow by a token a call."""

        def __init__(self) -> None:
            self.matchers: list[Any] = []

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            if not self.matchers:
                self.matchers = [llguidance.LLMatcher(tokens, grammar) for _ in range(input_ids.shape[0])]
            bits = masks.allocate_token_bitmask(len(self.matchers), scores.shape[1])
            for index, matcher in enumerate(self.matchers):
                if input_ids.shape[1] > prompt_tokens and not matcher.is_stopped():
                    matcher.consume_token(int(input_ids[index, -1]))
                if matcher.is_error():
                    raise ModelError(
                        f"constrained decoding failed: {matcher.get_error()}",
                        next_step="report this with the model's name; LocalRewriter(constrained=False) does without",
                    )
                masks.fill_next_token_bitmask(matcher, bits, index)
            allowed = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, : scores.shape[1]].astype(bool)
            return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), float("-inf"))

    return Constrained()
