"""What must hold of the parser for any text at all."""

from __future__ import annotations

import time

from hybridcc.errors import PtxSyntaxError
from hybridcc.ptx import parse, scopes
from hybridcc.ptx.nodes import Module
from hybridcc.ptx.source import Diagnostic

SECONDS_PER_MEGABYTE = 60
"""CPU time allowed, a hundred times what it takes; what goes beyond is a hang in the making."""


def check(text: str) -> bool:
    """Parse, print, parse again, resolve. True where the text is a module, False where it is refused properly.

    Raises AssertionError, or whatever the parser should not have raised.
    """
    began = time.process_time()
    outcome = _parsed(text)
    assert time.process_time() - began < 1 + SECONDS_PER_MEGABYTE * len(text) / 1e6, "too slow"
    if isinstance(outcome, PtxSyntaxError):
        _well_said(outcome, text)
        return False
    printed = str(outcome)
    assert len(printed) < 1_000 + 40 * len(text), "the print grows without bound"
    again = parse(printed, "printed.ptx")
    assert again == outcome, "the print is another module"
    assert str(again) == printed
    for function in outcome.functions:
        scopes.resolve(function, outcome)
    return True


def _parsed(text: str) -> Module | PtxSyntaxError:
    try:
        return parse(text, "mutant.ptx")
    except PtxSyntaxError as error:
        return error


def _well_said(error: PtxSyntaxError, text: str) -> None:
    assert error.diagnostics
    for diagnostic in error.diagnostics:
        assert isinstance(diagnostic, Diagnostic)
        assert 0 <= diagnostic.span[0] <= len(text)
        assert str(diagnostic).startswith("mutant.ptx:")
    assert len(str(error)) < 50_000 + 50 * len(text)
