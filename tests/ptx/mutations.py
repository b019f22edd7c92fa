"""Broken PTX, made from the corpus by a seed: the same seed and index give the same text everywhere."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

from tests.ptx.cubins import corpus_files

TOKEN = re.compile(r"\s+|//[^\n]*|\"[^\"\n]*\"|[A-Za-z0-9_$%.:]+|.", re.DOTALL)
FRAGMENTS = (
    "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",", "@", "@!", "!", "|", "=", "+", "-", "0f3f80000", "0x",
    "/*", "*/", "//", '"', "\\", "#", "..", "::", "%", "$", "_", "\0", "\r", "\n", "\f", "\ufeff", "é", "0b2", "1e",
    ".reg", ".entry", ".func", ".section", ".loc", ".file", ".param", ".align", ".pragma", ".branchtargets",
    ".callprototype", "ld", "call", "(" * 50, "{" * 2000, "[" * 3000, "!" * 3000, "-" * 3000, "9" * 5000, ".a" * 2000,
    "((((1+2)+3)", "name<4>", "%r<999999999999>", ".b8 x[99999999999] = {", "WARP_SZ", "0d7ff0000000000000",
)  # fmt: skip
MOST_LINES = 120
HEADER = ".version 8.0\n.target sm_80\n.entry k(.param .u64 p)\n{\n"
_OUTSIDE = "visible|entry|func|version|target|address|section|extern|weak|b8|b16|b32|b64|param|file"
INSIDE = re.compile(rf"(?!\s*\.({_OUTSIDE}))[^{{}}()]*;\s*(//.*)?$|\s*(//.*)?$|\s*\$\w+:|\s*\.loc\b")
"""Lines that may stand by themselves in a kernel's body."""


@cache
def _sources() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(f.read_text().splitlines(keepends=True)) for f in corpus_files())


def mutant(seed: int, index: int) -> str:
    """The text number ``index`` of the series that belongs to ``seed``."""
    dice = random.Random(f"{seed}/{index}")
    text = _excerpt(dice)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        text = dice.choice(MUTATIONS)(text, dice)
    return text


def _excerpt(dice: random.Random) -> str:
    """Some lines of a file; more often than not as the body of a kernel, with its braces closed."""
    lines = dice.choice(_sources())
    if dice.random() < 0.2:
        return "".join(lines[: dice.randint(1, MOST_LINES)])
    first = dice.randrange(len(lines))
    body = [line for line in lines[first : first + dice.randint(1, MOST_LINES)] if INSIDE.match(line)]
    return HEADER + "".join(body) + "}\n"


def _truncate(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(len(text) + 1)]


def _flip_bytes(text: str, dice: random.Random) -> str:
    data = bytearray(text.encode("latin-1", "replace"))
    for _ in range(dice.randint(1, 8)):
        if data:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return data.decode("latin-1")


def _on_tokens(text: str, dice: random.Random, kind: str) -> str:
    tokens = TOKEN.findall(text)
    if len(tokens) < 2:
        return text
    at, other = dice.randrange(len(tokens)), dice.randrange(len(tokens))
    match kind:
        case "swap":
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case "delete":
            del tokens[at : at + dice.randint(1, 3)]
        case "repeat":
            tokens[at:at] = tokens[other : other + dice.randint(1, 30)]
        case _:
            tokens.insert(at, dice.choice(FRAGMENTS))
    return "".join(tokens)


def _swap_tokens(text: str, dice: random.Random) -> str:
    return _on_tokens(text, dice, "swap")


def _delete_tokens(text: str, dice: random.Random) -> str:
    return _on_tokens(text, dice, "delete")


def _repeat_tokens(text: str, dice: random.Random) -> str:
    return _on_tokens(text, dice, "repeat")


def _insert_fragment(text: str, dice: random.Random) -> str:
    return _on_tokens(text, dice, "insert")


MUTATIONS: Sequence = (_truncate, _flip_bytes, _swap_tokens, _delete_tokens, _repeat_tokens, _insert_fragment)
