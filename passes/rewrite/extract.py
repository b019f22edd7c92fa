"""The code in an answer: what a model wraps round it (fences, prose, thinking, template tokens) comes off."""

from __future__ import annotations

import re

from hybridcc.passes.rewrite.rejection import rejected
from hybridcc.ptx.source import Source

MOST_CHARACTERS = 64_000
"""Of code. The largest region prompts hold some thousand characters; unrolled sixteen times it is still below."""

_TEMPLATE_TOKEN = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>|<(?:bos|eos|pad)>|<｜[^｜\n]{1,40}｜>"
)
_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINKING_END = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE)
_FENCE_MARK = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def code_of(answer: str) -> str:
    """The PTX in an answer, as ASCII: its last fenced block, or all of it where nothing is fenced.

    Raises AnswerRejected: CUT_OFF for a fence that is not closed, NO_CODE, TOO_LARGE, NOT_ASCII outside comments.
    """
    text = answer.replace("\r\n", "\n").lstrip("\ufeff")
    text = _THINKING.sub("", _TEMPLATE_TOKEN.sub("", text))
    text = _THINKING_END.sub("", text)
    blocks = _FENCE.findall(text)
    if len(_FENCE_MARK.findall(text)) % 2:
        raise rejected("CUT_OFF", "the answer ends inside its code block")
    code = blocks[-1] if blocks else text
    if not code.strip():
        raise rejected("NO_CODE", "the answer holds no code")
    if len(code) > MOST_CHARACTERS:
        raise rejected("TOO_LARGE", f"the code has {len(code)} characters, more than {MOST_CHARACTERS}")
    return _ascii(code)


def _ascii(code: str) -> str:
    """Assemblers refuse every other character, even in a comment: there it is dropped, elsewhere it is a fault."""
    code = _COMMENT.sub(lambda m: m.group().encode("ascii", "ignore").decode("ascii"), code)
    code = code.replace("\u00a0", " ")
    at = next((index for index, c in enumerate(code) if not c.isascii()), None)
    if at is not None:
        ascii_code = code.encode("ascii", "replace").decode("ascii")
        shown = Source("<answer>", ascii_code)
        raise rejected("NOT_ASCII", f"the code holds U+{ord(code[at]):04X}", shown, (at, at + 1))
    return code
