"""Lints with a physical reason: what the machine pays for, read off the PTX and the assembler's figures.

Each is a function of the control-flow graph, isa.py and targets.py. A finding of severity ``error`` can never be right;
every other is advice, reported for baseline and candidate alike.
"""

from hybridcc.passes.rewrite.lints.check import LINTS, check, check_machine, check_region
from hybridcc.passes.rewrite.lints.finding import Finding

__all__ = ["LINTS", "Finding", "check", "check_machine", "check_region"]
