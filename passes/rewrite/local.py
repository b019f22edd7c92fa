"""``transformers:FOLDER``: a causal language model in a folder, run on this machine. Nothing is downloaded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hybridcc.errors import MissingExtra, ModelError
from hybridcc.passes.rewrite.constrained import processor
from hybridcc.passes.rewrite.grammar import answer_grammar
from hybridcc.passes.rewrite.prompt import Prompt
from hybridcc.passes.rewrite.rewriter import DEFAULT_SAMPLING, Answer, Sampling

ChatTemplate: TypeAlias = Literal["auto", "on", "off"]

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


@dataclass(slots=True)
class LocalRewriter:
    """Loads at the first prompt, samples ``count`` answers as one batch, on a GPU when torch sees one.

    ``chat_template`` auto uses the tokenizer's template when it has one. With ``constrained``, answers follow
    grammar.py, so that each parses unless it is cut off; a model that thinks aloud first needs it off. Equal seeds give
    equal answers on one machine with one version of torch.
    """

    folder: Path
    sampling: Sampling = DEFAULT_SAMPLING
    chat_template: ChatTemplate = "auto"
    constrained: bool = True
    _loaded: tuple[Any, Any] | None = field(default=None, repr=False)

    @classmethod
    def in_folder(cls, folder: str | Path, sampling: Sampling) -> LocalRewriter:
        """Raises ModelError, naming what is missing, when the folder holds no model."""
        path = Path(folder)
        check_folder(path)
        return cls(path, sampling)

    @property
    def label(self) -> str:
        return f"{self.folder.name} (transformers)"

    @property
    def window(self) -> int | None:
        """Tokens that the model reads and writes in all, by its configuration file."""
        try:
            held = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # propose() says what is wrong with it
        found = held.get("max_position_embeddings")
        return found if isinstance(found, int) else None

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        """Raises MissingExtra without torch, ModelError when the model cannot be loaded or is too small."""
        if count < 1:
            return ()
        model, tokenizer = self._load()
        import torch

        tokens = self._encode(tokenizer, prompt)
        room = _window(model) - tokens["input_ids"].shape[1]
        if room < 1:
            raise ModelError(
                f"the prompt is {tokens['input_ids'].shape[1]} tokens long, the model reads {_window(model)}",
                where=str(self.folder),
                next_step="use a model with a longer context",
            )
        tokens = {name: value.to(model.device) for name, value in tokens.items()}
        options = self._options(tokenizer, count, room)
        if self.constrained:
            follows = processor(tokenizer, answer_grammar(), int(tokens["input_ids"].shape[1]))
            options["logits_processor"] = [follows]
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():
            torch.manual_seed(seed)
            made = model.generate(**tokens, **options)
        answers = made[:, tokens["input_ids"].shape[1] :]
        texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
        length = int(tokens["input_ids"].shape[1])
        pad = tokenizer.pad_token_id
        return tuple(
            Answer(text, self.label, prompt_tokens=length, answer_tokens=int((ids != pad).sum()))
            for text, ids in zip(texts, answers, strict=True)
        )

    def _options(self, tokenizer: Any, count: int, room: int) -> dict[str, Any]:
        sampled = self.sampling.temperature > 0
        options: dict[str, Any] = {
            "max_new_tokens": min(self.sampling.max_tokens, room),
            "num_return_sequences": count if sampled else 1,
            "do_sample": sampled,
            "pad_token_id": tokenizer.pad_token_id,
        }
        if sampled:
            options |= {"temperature": self.sampling.temperature, "top_p": self.sampling.top_p}
        return options

    def _encode(self, tokenizer: Any, prompt: Prompt) -> dict[str, Any]:
        use_template = self.chat_template == "on" or (self.chat_template == "auto" and tokenizer.chat_template)
        if not use_template:
            return dict(tokenizer(prompt.text, return_tensors="pt"))
        if not tokenizer.chat_template:
            raise ModelError(
                "the tokenizer has no chat template", where=str(self.folder), next_step="turn the chat template off"
            )
        messages = [{"role": "user", "content": prompt.text}]
        return dict(
            tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        )

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = _load(self.folder)
        return self._loaded


def check_folder(folder: Path) -> None:
    """Raises ModelError for whatever a model folder lacks: it itself, its configuration, tokenizer or weights."""
    if not folder.is_dir():
        raise ModelError(
            "no such folder", where=str(folder), next_step="name a folder that holds a transformers causal model"
        )
    try:
        missing = [] if (folder / "config.json").is_file() else ["config.json"]
        for name, patterns in (("a tokenizer (tokenizer.json)", TOKENIZERS), ("weights (model.safetensors)", WEIGHTS)):
            if not any(next(folder.glob(pattern), None) for pattern in patterns):
                missing.append(name)
        if not missing:
            json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the model's configuration cannot be read: {error}",
            where=str(folder),
            next_step="check the folder's permissions, or copy the model again",
        ) from error
    if missing:
        raise ModelError(
            f"the folder holds no model: {', '.join(missing)} missing",
            where=str(folder),
            next_step="save one there with save_pretrained(), of the model and of its tokenizer",
        )


def _load(folder: Path) -> tuple[Any, Any]:
    """(model, tokenizer), in evaluation mode."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtra(
            f"a local model needs torch and transformers ({error})",
            where=str(folder),
            next_step="pip install 'hybridcc[model]'",
        ) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="auto")
    except Exception as error:  # whatever a broken model file raises: OSError, ValueError, safetensors' own, …
        raise ModelError(
            f"the model cannot be loaded: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            where=str(folder),
            next_step="check that the files belong together and are complete",
        ) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    loaded: Any = model.eval()  # its own stubs describe to() wrongly
    return loaded.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def _window(model: Any) -> int:
    """How many tokens the model reads and writes in all."""
    return int(getattr(model.config, "max_position_embeddings", 0) or 1 << 20)
