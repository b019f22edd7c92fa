"""``openai:MODEL@URL``: any server that speaks the OpenAI chat protocol (vLLM, Ollama, llama.cpp, hosted ones).

The key comes from the environment variable OPENAI_API_KEY and from nowhere else; a server that wants none needs
none. The URL is always named, so nothing is ever sent to a place that the user did not write down.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hybridcc.errors import InputError, ModelError
from hybridcc.passes.rewrite.prompt import Prompt
from hybridcc.passes.rewrite.rewriter import DEFAULT_SAMPLING, Answer, Sampling

if TYPE_CHECKING:
    import openai

KEY_VARIABLE = "OPENAI_API_KEY"
NO_KEY = "none"
"""Sent where no key is set: the client insists on one, servers on the own machine do not."""


@dataclass(frozen=True, slots=True)
class EndpointRewriter:
    """Asks one request per answer, with seeds ``seed``, ``seed + 1``, …: not every server knows ``n``.

    ``timeout_s`` bounds one request, ``retries`` how often a dropped or refused one is sent again (the client
    waits between them, longer each time, with jitter, and as long as the server says when it says so).
    """

    model: str
    url: str
    sampling: Sampling = DEFAULT_SAMPLING
    timeout_s: float = 120.0
    retries: int = 2
    _clients: list[Any] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def named(cls, model: str, url: str, sampling: Sampling) -> EndpointRewriter:
        """Raises InputError for a URL that is none. Opens nothing."""
        if not model or not url.startswith(("http://", "https://")):
            raise InputError(
                f"openai:{model}@{url} names no endpoint",
                next_step="give openai:MODEL@URL, such as openai:qwen2.5-coder@http://localhost:8000/v1",
            )
        return cls(model, url, sampling)

    @property
    def label(self) -> str:
        return f"{self.model} at {self.url}"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        """Raises ModelError when a request fails for good; the error holds the answers got before it."""
        answers: list[Answer] = []
        for number in range(count):
            try:
                answers.append(self._ask(prompt, seed + number))
            except ModelError as error:
                error.answers = tuple(answers)
                raise
        return tuple(answers)

    def _ask(self, prompt: Prompt, seed: int) -> Answer:
        import openai

        try:
            reply = self._client().chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt.text}],
                temperature=self.sampling.temperature,
                top_p=self.sampling.top_p,
                max_tokens=self.sampling.max_tokens,
                seed=seed,
            )
        except openai.APIError as error:
            raise self._failure(error) from error
        if not reply.choices or not reply.choices[0].message.content:
            raise ModelError(
                "the endpoint's reply holds no answer",
                where=self.url,
                next_step="look at the server's log; a model that only thinks may need a larger max_tokens",
            )
        usage = reply.usage
        return Answer(
            reply.choices[0].message.content,
            reply.model or self.model,
            prompt_tokens=usage.prompt_tokens if usage else None,
            answer_tokens=usage.completion_tokens if usage else None,
        )

    def _client(self) -> openai.OpenAI:
        """One client for all prompts, made at the first."""
        if not self._clients:
            import openai

            key = os.environ.get(KEY_VARIABLE) or NO_KEY
            self._clients.append(
                openai.OpenAI(api_key=key, base_url=self.url, timeout=self.timeout_s, max_retries=self.retries)
            )
        return self._clients[0]

    def _failure(self, error: Exception) -> ModelError:
        import openai

        match error:
            case openai.APITimeoutError():
                what = f"no reply within {self.timeout_s:g} s"
                step = "ask a faster model, or a server that is less busy"
            case openai.APIConnectionError():
                what = f"cannot be reached: {error.__cause__ or error}"
                step = "start the server, or mend the URL"
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                what = f"refuses the key in {KEY_VARIABLE} (status {error.status_code})"
                step = f"set {KEY_VARIABLE} to a key for this endpoint"
            case openai.NotFoundError():
                what = f"does not know the model {self.model} (status 404)"
                step = "name a model that it serves, and the URL with its version (often …/v1)"
            case openai.RateLimitError():
                what = "refuses more requests for now (status 429)"
                step = "wait, or ask for fewer answers"
            case openai.APIStatusError():
                what = f"answered with status {error.status_code}: {error.message}"
                step = "look at the server's log"
            case _:
                what = f"gave a reply that is not of the protocol: {error}"
                step = "name a server that speaks the OpenAI chat protocol"
        return ModelError(f"the endpoint {what}", where=self.url, next_step=step)
