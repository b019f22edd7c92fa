"""Right rewrites and wrong ones beside the reason: data that the prompt shows, each held to its verdict by a test.

A file has a kernel, one region of it before and after, and wrong variants of the second: each an edit of it, what the
prompt shows of that, the reason, and the code of the check that catches it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ORDER = ("together", "loop", "straight", "index")
"""The pair that is shown is the first whose traits a region has."""
MOST_WRONG = 10
"""So many wrong rewrites are shown in a prompt at most."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """``code`` is that of the check that rejects it; ``where`` are the traits of regions for which it is shown."""

    name: str
    shown: str
    reason: str
    code: str
    where: tuple[str, ...]
    edits: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def words(self) -> str:
        """As the prompt has it: code in backquotes, or a description."""
        shown = f"`{self.shown}`" if self.shown.endswith(";") else f"({self.shown})"
        return f"{shown} WRONG: {self.reason}."

    def of(self, right: str) -> str:
        """The wrong rewrite, made from the right one. Raises ValueError where an edit does not fit it."""
        text = right
        for old, new in self.edits:
            if old not in text:
                raise ValueError(f"{self.name}: {old!r} is not in the right rewrite")
            text = text.replace(old, new)
        return text


@dataclass(frozen=True, slots=True)
class Example:
    """``before`` is the canonical text of the only region of ``kernel``, ``after`` a rewrite of it; ``interface``
    says in words what comes in and goes out; ``check`` how a test launches the kernel."""

    name: str
    where: tuple[str, ...]
    interface: str
    why: str
    kernel: str = field(repr=False)
    before: str = field(repr=False)
    after: str = field(repr=False)
    wrong: tuple[Wrong, ...] = field(repr=False)
    check: dict[str, Any] = field(repr=False)


@cache
def examples() -> tuple[Example, ...]:
    """All of them, in the order in which the prompt prefers them."""
    return tuple(_read(FOLDER / f"{name}.toml") for name in ORDER)


def right_for(traits: Collection[str]) -> Example:
    """The pair to show."""
    return next(e for e in examples() if set(e.where) <= set(traits))


def wrong_for(traits: Collection[str]) -> tuple[Wrong, ...]:
    """The wrong rewrites to show: those of the pair that is shown first, at most MOST_WRONG."""
    shown = right_for(traits)
    in_order = (shown, *(e for e in examples() if e is not shown))
    return tuple(_fitting(in_order, set(traits)))[:MOST_WRONG]


def _fitting(in_order: tuple[Example, ...], traits: set[str]) -> Iterator[Wrong]:
    for example in in_order:
        yield from (wrong for wrong in example.wrong if set(wrong.where) <= traits)


def _read(path: Path) -> Example:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    data["wrong"] = tuple(
        Wrong(**{**w, "where": tuple(w["where"]), "edits": tuple((old, new) for old, new in w["edits"])})
        for w in data["wrong"]
    )
    return Example(name=path.stem, **{**data, "where": tuple(data["where"])})
