"""Prompts and regions made by hand, for tests of what carries them or reads a part of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from hybridcc.passes.facts import Fact
from hybridcc.passes.rewrite.prompt import Prompt, of_text

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region


def prompt(text: str = "add one to %in0") -> Prompt:
    return of_text(f"hybridcc rewrite prompt, template test\n\n{text}\n")


BEFORE = Path(__file__).with_name("made_before.ptx").read_text()
AFTER = Path(__file__).with_name("made_after.ptx").read_text()
"""One loop over a float32 array, and a right rewrite of it."""


def region(text: str = BEFORE, facts: tuple[Fact, ...] = ()) -> Region:
    """As much of a region as the answer check reads: its text and its facts."""
    return cast("Region", SimpleNamespace(text=text, facts=facts))
