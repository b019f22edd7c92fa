"""The PTX language: text to tree and back, the instruction table, the targets. Imports the standard library only."""

from hybridcc.ptx.nodes import Module
from hybridcc.ptx.parser import parse, parse_statements
from hybridcc.ptx.source import Diagnostic, Source

__all__ = ["Diagnostic", "Module", "Source", "parse", "parse_statements"]
