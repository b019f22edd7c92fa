"""Regions: the single-entry single-exit parts of a kernel that are worth rewriting."""

from hybridcc.passes.regions.cut import cut
from hybridcc.passes.regions.find import body, find
from hybridcc.passes.regions.region import Effects, Ineligible, Port, Region, Weight, canonical_names

__all__ = ["Effects", "Ineligible", "Port", "Region", "Weight", "body", "canonical_names", "cut", "find"]
