"""The rule-based rewriter: what a region is turned into by rules alone, behind the protocol of every rewriter."""

from hybridcc.passes.rewrite.rules.rewriter import RulesRewriter

__all__ = ["RulesRewriter"]
