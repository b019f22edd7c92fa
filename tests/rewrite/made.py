"""Prompts made by hand, for tests of what carries prompts without reading them."""

from __future__ import annotations

from hybridcc.passes.rewrite.prompt import Prompt, of_text


def prompt(text: str = "add one to %in0") -> Prompt:
    return of_text(f"hybridcc rewrite prompt, template test\n\n{text}\n")
