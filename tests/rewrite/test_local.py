"""A tiny, randomly initialised transformers model, made here: the whole path through local.py, nothing downloaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hybridcc.errors import AnswerRejected, ModelError
from hybridcc.passes.rewrite import Sampling, open_rewriter
from hybridcc.passes.rewrite.answer import flatten
from hybridcc.passes.rewrite.extract import code_of
from hybridcc.passes.rewrite.grammar import opcodes
from hybridcc.passes.rewrite.local import ChatTemplate, LocalRewriter
from hybridcc.ptx import parse_statements
from hybridcc.ptx.nodes import Instruction, Raw
from tests.rewrite.made import prompt

pytest.importorskip("torch", reason="extra 'model' is not installed")
transformers = pytest.importorskip("transformers", reason="extra 'model' is not installed")

SHORT = Sampling(temperature=1.0, top_p=1.0, max_tokens=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer and an untrained Llama of two layers."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    path = tmp_path_factory.mktemp("model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {symbol: index for index, symbol in enumerate([*alphabet, "<|end|>"])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=words["<|end|>"],
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


def test_equal_seeds_give_equal_answers_and_others_do_not(folder: Path) -> None:
    rewriter = LocalRewriter.in_folder(folder, SHORT)
    first = rewriter.propose(prompt(), count=3, seed=5)
    assert len(first) == 3
    assert len({a.text for a in first}) > 1
    assert first == rewriter.propose(prompt(), count=3, seed=5)
    assert first == LocalRewriter.in_folder(folder, SHORT).propose(prompt(), count=3, seed=5)
    assert first != rewriter.propose(prompt(), count=3, seed=6)
    assert all(0 < (a.answer_tokens or 0) <= SHORT.max_tokens for a in first)
    assert {a.prompt_tokens for a in first} == {len(prompt().text.encode())}


@pytest.mark.parametrize("seed", range(2))
def test_constrained_every_answer_that_ends_parses_though_the_model_knows_nothing(folder: Path, seed: int) -> None:
    """Temperature 1 over random weights: every token that the grammar allows comes."""
    long = Sampling(temperature=1.0, top_p=1.0, max_tokens=250)
    answers = LocalRewriter.in_folder(folder, long).propose(prompt(), count=5, seed=seed)
    ended = [a.text for a in answers if a.text.endswith("```")]
    for text in ended:
        statements = parse_statements(code_of(text))
        assert statements
        assert not any(isinstance(s, Raw) for s in flatten(statements))
        assert {s.opcode for s in flatten(statements) if isinstance(s, Instruction)} <= {*opcodes(), "bra"}
    for text in {a.text for a in answers} - set(ended):
        with pytest.raises(AnswerRejected) as caught:
            code_of(text)
        assert caught.value.reason == "CUT_OFF"
    assert ended


def test_unconstrained_the_same_model_gives_no_ptx(folder: Path) -> None:
    free = LocalRewriter(folder, SHORT, constrained=False).propose(prompt(), count=4, seed=0)
    assert not any(a.text.startswith("```ptx") for a in free)


def test_greedy_gives_one_answer(folder: Path) -> None:
    rewriter = LocalRewriter.in_folder(folder, Sampling(temperature=0.0, max_tokens=4))
    assert len(rewriter.propose(prompt(), count=3, seed=0)) == 1


def test_the_chat_template_is_used_and_leaves_no_token_in_the_answer(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "chat"
    shutil.copytree(folder, copy)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(copy)
    tokenizer.chat_template = "{% for m in messages %}[user]{{ m.content }}[/user]{% endfor %}"
    tokenizer.save_pretrained(copy)
    plain, wrapped = len(prompt().text.encode()), len("[user][/user]")
    modes: tuple[tuple[ChatTemplate, int], ...] = (("auto", wrapped), ("on", wrapped), ("off", 0))
    for mode, extra in modes:
        answers = LocalRewriter(copy, SHORT, mode).propose(prompt(), count=1, seed=0)
        assert answers[0].prompt_tokens == plain + extra
        assert "<|end|>" not in answers[0].text
    with pytest.raises(ModelError, match="no chat template"):
        LocalRewriter(folder, SHORT, "on").propose(prompt(), count=1, seed=0)


def test_a_prompt_longer_than_the_model_reads(folder: Path) -> None:
    rewriter = open_rewriter(f"transformers:{folder}")
    with pytest.raises(ModelError, match=r"tokens long, the model reads 512"):
        rewriter.propose(prompt("x" * 600), count=1, seed=0)


@pytest.mark.parametrize(
    ("lost", "named"),
    [("config.json", "config.json"), ("tokenizer.json", "tokenizer"), ("model.safetensors", "weights")],
)
def test_a_folder_that_lacks_a_file_is_refused_by_its_name(folder: Path, tmp_path: Path, lost: str, named: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / lost).unlink()
    with pytest.raises(ModelError, match=rf"{named}.* missing") as error:
        open_rewriter(f"transformers:{copy}")
    assert error.value.exit_code == 2


@pytest.mark.parametrize("broken", ["tokenizer.json", "model.safetensors"])
def test_a_broken_file_is_one_clear_error(folder: Path, tmp_path: Path, broken: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / broken).write_bytes(b"{")
    with pytest.raises(ModelError, match="cannot be loaded"):
        open_rewriter(f"transformers:{copy}").propose(prompt(), count=1, seed=0)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        open_rewriter(f"transformers:{tmp_path / 'none'}")
