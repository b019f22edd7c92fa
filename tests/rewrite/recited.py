"""Two tiny transformers models for a real server: one that knows texts by heart, and one that was never trained.

The first is a recording in the form of a model: a Llama whose next token depends on the last one alone, so that a text
cut into pieces, each a token, comes out piece by piece. Which text begins is the chat template's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

ROUNDS = (
    "{% if 'hybridcc follow-up to prompt' in messages[0]['content'] %}{% set opening = '<again>' %}"
    "{% else %}{% set opening = '<first>' %}{% endif %}{{ messages[0]['content'] }} {{ opening }}"
)
"""A chat template that opens a follow-up otherwise than a first prompt."""


def reciting(folder: Path, texts: Mapping[str, str], template: str = ROUNDS) -> Path:
    """A model that answers ``texts[opening]`` where the template ends in ``opening``, at every temperature."""
    used: set[str] = set()
    chains = {opening: _pieces(text, used) for opening, text in texts.items()}
    words = ["<unk>", "<end>", *texts, *(f"{opening}{n}" for opening in texts for n in range(len(chains[opening])))]
    spelled = {f"{opening}{n}": piece for opening, chain in chains.items() for n, piece in enumerate(chain)}
    order = [spelled.get(word, word) for word in words]
    following: dict[int, int] = {}
    for opening, chain in chains.items():
        at = [words.index(opening), *(words.index(f"{opening}{n}") for n in range(len(chain))), words.index("<end>")]
        following |= dict(pairwise(at))
    model = _llama(len(words) + len(words) % 2, words.index("<end>"))
    _wire(model, following)
    return _save(folder, model, order, template)


def untrained(folder: Path) -> Path:
    """A model of random weights over PTX-like words: its answers are no rewrites."""
    import torch

    torch.manual_seed(0)
    words = ["<unk>", "<end>", "add.s64 ", "%in0", ", ", "%out0", ";\n", "```ptx\n", "```\n", "bra ", "$L0", "ret"]
    model = _llama(len(words), 1)
    with torch.no_grad():
        model.lm_head.weight *= 20  # otherwise nearly every token is as likely as any other
        model.lm_head.weight[0].zero_()
    model.generation_config.do_sample = True  # the server's default is greedy, which may never come to an end
    return _save(folder, model, words, "{{ messages[0]['content'] }}")


def _pieces(text: str, used: set[str], lines: int = 4) -> list[str]:
    """The text in pieces of some lines each, more where a piece would be one that is used already."""
    made: list[str] = []
    piece, held = "", 0
    for line in text.splitlines(keepends=True):
        piece, held = piece + line, held + 1
        if held >= lines and piece not in used:
            used.add(piece)
            made.append(piece)
            piece, held = "", 0
    assert piece not in used
    return [*made, piece] if piece else made


def _llama(size: int, end: int) -> Any:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=32768,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
        tie_word_embeddings=False,
    )
    return transformers.LlamaForCausalLM(config)


def _wire(model: Any, following: Mapping[int, int]) -> None:
    """Attention and MLP give nothing; each token's own direction goes straight to the token that follows."""
    import torch

    size = model.config.vocab_size
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        model.lm_head.weight.zero_()
        for token, after in following.items():
            model.lm_head.weight[after, token] = 100.0


def _save(folder: Path, model: Any, words: list[str], template: str) -> Path:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>", pad_token="<end>"
    )
    fast.chat_template = template
    fast.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
