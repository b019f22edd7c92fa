"""From what became of a candidate to what its rewriter is told: only what the answer itself can mend is a lesson."""

from __future__ import annotations

from hybridcc.passes.rewrite.feedback import Lesson
from hybridcc.passes.verdict import Refuted, Tested, Unknown
from hybridcc.passes.verify.proving import IRREPRODUCIBLE
from hybridcc.passes.verify.testing import Examination
from hybridcc.records import PENDING, Accept, CandidateRecord

NOT_PROVED = "not proved: "
"""Begins the note of an examination whose proof was tried in vain."""

_STAGES = ("answer: ", "splice: ", "lint: ", "assemble: ")
"""Stages whose refusal is about the text that was proposed."""
_OUR_FAULTS = frozenset({"INTERNAL", "TOOLCHAIN", "OUTSIDE_CHANGED", "OTHER_KERNEL", "INELIGIBLE", "MISSING_EXTRA"})
_ABOUT_CANDIDATE = ("the executor cannot run the candidate", "not exercised")
"""How those reasons of an Unknown begin that another rewrite might not meet."""
_ABOUT_BASELINE = ("void", "no module named", "the prover needs")
"""How those begin that no rewrite can help."""

SAME_MACHINE_CODE = (
    "the assembler makes the same machine code of this as of the original, so nothing is gained. Change what the "
    "machine does: how often it loads, how wide, what waits for what, how many instructions a turn of the loop takes."
)


def lesson_of(candidate: CandidateRecord, accept: Accept) -> Lesson | None:
    """What to tell about a candidate that did not pass; None where it passed, or where the fault is not its own."""
    fate = candidate.fate
    if fate.code == "SASS_UNCHANGED":
        return Lesson(fate.code, SAME_MACHINE_CODE)
    if fate.kind == "failed":
        if fate.code in _OUR_FAULTS or not fate.detail.startswith(_STAGES):
            return None
        return Lesson(fate.code, fate.detail.partition(": ")[2])
    if fate is not PENDING or candidate.evidence is None:
        return None
    return _of_evidence(candidate.evidence, candidate.explanation, accept)


def _of_evidence(evidence: Examination, explanation: str, accept: Accept) -> Lesson | None:
    match evidence.verdict:
        case Refuted(counterexample, _):
            return Lesson("REFUTED", "\n".join(part for part in (counterexample, explanation) if part))
        case Unknown(reason) if reason.startswith(_ABOUT_CANDIDATE):
            return Lesson("UNKNOWN", reason)
        case Tested() if accept == "proved":
            return _not_proved(evidence)
        case _:
            return None


def _not_proved(evidence: Examination) -> Lesson | None:
    reason = next((n.removeprefix(NOT_PROVED) for n in evidence.notes if n.startswith(NOT_PROVED)), "")
    if not reason or reason.lower().startswith(_ABOUT_BASELINE):
        return None
    if reason.startswith(IRREPRODUCIBLE):
        reason = "it took too long"  # whatever else it says, another machine might say otherwise
    return Lesson(
        "NOT_PROVED",
        f"no test tells it from the original, and the prover could not show that it is equal: {reason}. "
        "Write it closer to the original: one loop for one loop, the same counters where you can.",
    )
