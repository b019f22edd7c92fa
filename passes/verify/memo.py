"""When two comparisons are one: PTX that differs in nothing that a run on the executor can see."""

from __future__ import annotations

import re

_HEADER = re.compile(r"^\s*(?:\.target\b.*|\.version\b.*|//.*)$", re.MULTILINE)


def normal_text(ptx: str, entry: str) -> str:
    """``ptx`` without its header's version and target, whole-line comments, and the spelling of its entry's name
    (Numba's counts the kernels compiled in the process)."""
    return _HEADER.sub("", ptx.replace(entry, "entry"))
