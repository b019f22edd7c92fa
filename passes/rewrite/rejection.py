"""Why an answer is no rewrite: the codes, each with what a model should do about it."""

from __future__ import annotations

from hybridcc.errors import AnswerRejected
from hybridcc.ptx.source import Diagnostic, Source, Span

NEXT_STEPS = {
    "CUT_OFF": "allow more tokens for an answer, or answer with the code alone",
    "NO_CODE": "answer with one fenced block of PTX statements",
    "TOO_LARGE": "unroll less",
    "NOT_ASCII": "write plain ASCII",
    "SYNTAX": "write PTX statements as the ISA has them",
    "UNKNOWN_STATEMENT": "write PTX statements as the ISA has them",
    "UNKNOWN_OPCODE": "use an instruction of the PTX ISA",
    "ARCHITECTURE": "use only what every architecture asked for has",
    "DIRECTIVE": 'use no directive but .reg and .pragma "nounroll"',
    "VARIABLE": "declare registers only",
    "RESERVED_NAME": "choose another name for the register",
    "INDIRECT": "branch to labels only",
    "CALL": "call nothing",
    "LEAVES": "leave by falling off the end of the text",
    "CLOCK": "read no clock or counter that the original does not read",
    "STATE_SPACE": "access memory in the state spaces that the original uses",
    "NON_COHERENT": "use .nc only for memory of which a fact says that this launch does not write it",
    "LOWER_PRECISION": "compute in the types that the original computes in",
    "APPROXIMATION": "keep every floating-point operation as the original has it",
    "ROUNDING": "keep every rounding modifier as the original has it",
    "FLUSHING": "keep .ftz as the original has it",
    "CONTRACTION": "keep every floating-point operation as the original has it",
    "EDIT": "declare edits before the text, as `// edit: pad NAME row OLD->NEW`, `// edit: new_shared NAME BYTES "
    "ALIGNMENT` or `// edit: preload_const NAME`",
    "NO_EFFECT": "answer with a rewrite, not with the original",
}
"""Every rejection code and the way out of it. docs and feedback to models both read this table."""


def rejected(code: str, what: str, source: Source | None = None, span: Span = (0, 0)) -> AnswerRejected:
    """The error to raise; with a source, the message shows the line and marks the span."""
    if source is None:
        return AnswerRejected(code, what, next_step=NEXT_STEPS[code])
    place = Diagnostic(what, span, source).place
    return AnswerRejected(code, f"{what}\n{source.excerpt(span)}", where=place, next_step=NEXT_STEPS[code])
