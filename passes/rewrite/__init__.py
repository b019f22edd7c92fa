"""The language model's room: a region becomes a prompt, answers come back as text and are parsed before any use."""

from hybridcc.passes.rewrite.prompt import TEMPLATE_VERSION, Prompt, build
from hybridcc.passes.rewrite.rewriter import Answer, Rewriter, Sampling, open_rewriter

__all__ = ["TEMPLATE_VERSION", "Answer", "Prompt", "Rewriter", "Sampling", "build", "open_rewriter"]
