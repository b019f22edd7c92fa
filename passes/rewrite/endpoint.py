"""``openai:MODEL@URL``: any server that speaks the OpenAI chat protocol (vLLM, Ollama, llama.cpp, hosted ones).

The key comes from the environment variable OPENAI_API_KEY and from nowhere else; a server that wants none needs
none. The URL is always named, so nothing is ever sent to a place that the user did not write down.

Answers are streamed where the server can, so that one that drips too slowly is given up in time, and a server between
that closes idle connections sees traffic. HYBRIDCC_REQUESTS_PER_MINUTE spaces requests out;
HYBRIDCC_TOKEN_PRICES="READ,WRITTEN" (per million tokens, in whatever currency) makes the manifest say what was spent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hybridcc.errors import InputError, ModelError
from hybridcc.passes.rewrite.prompt import Prompt
from hybridcc.passes.rewrite.rewriter import DEFAULT_SAMPLING, Answer, Sampling

if TYPE_CHECKING:
    import openai

KEY_VARIABLE = "OPENAI_API_KEY"
RATE_VARIABLE = "HYBRIDCC_REQUESTS_PER_MINUTE"
PRICES_VARIABLE = "HYBRIDCC_TOKEN_PRICES"
STREAM = "text/event-stream"
NO_KEY = "none"
"""Sent where no key is set: the client insists on one, servers on the own machine do not."""


@dataclass(frozen=True, slots=True)
class EndpointRewriter:
    """Asks one request per answer, with seeds ``seed``, ``seed + 1``, …: not every server knows ``n``.

    ``timeout_s`` bounds one request from first byte to last, ``retries`` how often a dropped or refused one is sent
    again (the client waits between them, longer each time, with jitter, and as long as the server says when it says
    so). ``per_minute`` bounds the requests begun in a minute, by equal spaces; ``prices`` are those of a million tokens
    read and written.
    """

    model: str
    url: str
    sampling: Sampling = DEFAULT_SAMPLING
    timeout_s: float = 120.0
    retries: int = 2
    per_minute: float | None = None
    prices: tuple[float, float] | None = None
    _begun: list[float] = field(default_factory=list, repr=False, compare=False)
    _clients: list[Any] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def named(cls, model: str, url: str, sampling: Sampling) -> EndpointRewriter:
        """Raises InputError for a URL that is none. Opens nothing."""
        if not model or not url.startswith(("http://", "https://")):
            raise InputError(
                f"openai:{model}@{url} names no endpoint",
                next_step="give openai:MODEL@URL, such as openai:qwen2.5-coder@http://localhost:8000/v1",
            )
        return cls(model, url, sampling, per_minute=_rate(), prices=_prices())

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

        self._wait()
        try:
            reply = self._reply(prompt, seed)
        except (openai.APIError, ValueError) as error:  # ValueError: a reply that is no JSON, or JSON of another kind
            raise self._failure(error) from error
        if not reply.text:
            raise ModelError(
                "the endpoint's reply holds no answer",
                where=self.url,
                next_step="look at the server's log; a model that only thinks may need a larger max_tokens",
            )
        return Answer(
            reply.text,
            reply.model or self.model,
            prompt_tokens=reply.read,
            answer_tokens=reply.written,
            cost=_cost(self.prices, reply),
        )

    def _reply(self, prompt: Prompt, seed: int) -> _Reply:
        """Streamed, or in one piece from a server that cannot stream or refuses to."""
        import openai
        from openai.types.chat import ChatCompletion

        asked: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt.text}],
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "max_tokens": self.sampling.max_tokens,
            "seed": seed,
        }
        raw = self._client().chat.completions.with_raw_response
        begin = time.monotonic()
        try:
            response = raw.create(**asked, stream=True, stream_options={"include_usage": True})
        except openai.BadRequestError:
            response = raw.create(**asked)
        if str(response.headers.get("content-type", "")).startswith(STREAM):
            return self._gathered(response.parse(), begin)
        whole = ChatCompletion.model_validate_json(response.http_response.read())
        text = whole.choices[0].message.content if whole.choices else None
        return _Reply(text or "", whole.model, *_tokens(whole.usage))

    def _gathered(self, stream: Iterable[Any], begin: float) -> _Reply:
        """A streamed answer, put together. Raises ModelError where the whole takes longer than one request may."""
        parts: list[str] = []
        model, usage = "", None
        for chunk in stream:
            model, usage = chunk.model or model, chunk.usage or usage
            parts += [c.delta.content for c in chunk.choices if c.delta is not None and c.delta.content]
            if time.monotonic() - begin > self.timeout_s:
                raise ModelError(
                    f"the endpoint sent {sum(map(len, parts))} characters in {self.timeout_s:g} s and was not done",
                    where=self.url,
                    next_step="ask a faster model, or a server that is less busy",
                )
        return _Reply("".join(parts), model, *_tokens(usage))

    def _wait(self) -> None:
        """Until the next request may begin."""
        if self.per_minute:
            space = 60 / self.per_minute
            if self._begun:
                time.sleep(max(0.0, self._begun[-1] + space - time.monotonic()))
            self._begun.append(time.monotonic())

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


@dataclass(frozen=True, slots=True)
class _Reply:
    """``read`` and ``written`` are tokens, None where the server does not tell."""

    text: str
    model: str
    read: int | None
    written: int | None


def _tokens(usage: Any) -> tuple[int | None, int | None]:
    return (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)


def _cost(prices: tuple[float, float] | None, reply: _Reply) -> float | None:
    """What one answer cost; None where no price or no count is known."""
    if prices is None or reply.read is None or reply.written is None:
        return None
    return (prices[0] * reply.read + prices[1] * reply.written) / 1e6


def _rate() -> float | None:
    """Raises InputError for a rate that is no positive number."""
    given = os.environ.get(RATE_VARIABLE)
    if not given:
        return None
    try:
        rate = float(given)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise InputError(f"{RATE_VARIABLE}={given} is no rate", next_step="give requests per minute, such as 30")
    return rate


def _prices() -> tuple[float, float] | None:
    """Raises InputError for prices that are not two numbers."""
    given = os.environ.get(PRICES_VARIABLE)
    if not given:
        return None
    try:
        read, written = (float(part) for part in given.split(","))
    except ValueError:
        read = written = -1.0
    if not (0 <= read < float("inf") and 0 <= written < float("inf")):
        step = "give two prices per million tokens, of those read and those written, such as 0.5,1.5"
        raise InputError(f"{PRICES_VARIABLE}={given} is no pair of prices", next_step=step)
    return read, written
