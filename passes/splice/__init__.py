"""Splicing: rewrites into kernels, with safe renaming, and the proof that nothing else changed."""

from hybridcc.passes.splice.candidate import Candidate, Part
from hybridcc.passes.splice.extract import extract
from hybridcc.passes.splice.names import NameScope
from hybridcc.passes.splice.splice import splice, splice_all

__all__ = ["Candidate", "NameScope", "Part", "extract", "splice", "splice_all"]
