"""From what became of a candidate to what its rewriter is told: only what the answer itself can mend is a lesson."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hybridcc.passes.rewrite.feedback import Lesson
from hybridcc.passes.verdict import Refuted, Tested, Unknown
from hybridcc.passes.verify.proving import AT_VALUES, IRREPRODUCIBLE
from hybridcc.passes.verify.testing import Examination
from hybridcc.records import PENDING, Accept, CandidateRecord, Machine
from hybridcc.selection import stands

if TYPE_CHECKING:
    from hybridcc.runtime.sass import SassFunction

NOT_PROVED = "not proved: "
"""Begins the note of an examination whose proof was tried in vain."""

_AS_THEY_STAND = (
    " (operations are compared as they stand: that 0 * 0 is 0, or that x * 1 is x, is not known; start from what the "
    "original computes)"
)

_STAGES = ("answer: ", "splice: ", "lint: ", "assemble: ")
"""Stages whose refusal is about the text that was proposed."""
_OUR_FAULTS = frozenset({"INTERNAL", "TOOLCHAIN", "OUTSIDE_CHANGED", "OTHER_KERNEL", "INELIGIBLE", "MISSING_EXTRA"})
_ABOUT_CANDIDATE = ("the executor cannot run the candidate", "not exercised")
"""How those reasons of an Unknown begin that another rewrite might not meet."""
_ABOUT_BASELINE = ("void", "no module named", "the prover needs")
"""How those begin that no rewrite can help."""

MOST_FINDINGS = 4
MOST_OPCODES = 12
"""Of machine code, that a lesson lists: those whose number changed most."""

SAME_MACHINE_CODE = (
    "the assembler makes the same machine code of this as of the original, so nothing is gained. Change what the "
    "machine does: how often it loads, how wide, what waits for what, how many instructions a turn of the loop takes."
)


def lesson_of(candidate: CandidateRecord, accept: Accept) -> Lesson | None:
    """What to tell about a candidate that did not pass; None where it passed, or where the fault is not its own."""
    fate = candidate.fate
    if fate.code == "SASS_UNCHANGED":
        return Lesson(fate.code, "\n".join([SAME_MACHINE_CODE, *_advice(candidate)]))
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
    if AT_VALUES in reason:  # which values, is up to the solver
        reason = reason.partition(AT_VALUES)[0] + _AS_THEY_STAND
    return Lesson(
        "NOT_PROVED",
        f"no test tells it from the original, and the prover could not show that it is equal: {reason}. "
        "Write it closer to the original: one loop for one loop, the same counters where you can.",
    )


def lesson_of_speed(
    candidate: CandidateRecord,
    baseline: Machine,
    before: Sequence[SassFunction] | None,
    after: Sequence[SassFunction] | None,
) -> Lesson | None:
    """What to tell about a rewrite that is right and was measured; None where the race found no difference."""
    speed, machine = candidate.speed, candidate.machine
    if speed.ratio is None or machine is None or speed.kind not in ("faster", "slower"):
        return None
    if speed.kind == "slower":
        head = f"the rewrite is correct, but {1 / speed.ratio:.2f}x slower than the original on {speed.device}"
    else:
        head = (
            f"the rewrite is correct, and {speed.ratio:.2f}x faster than the original on {speed.device}: is there a "
            "faster one still?"
        )
    code = {"slower": "SLOWER", "faster": "FASTER"}[speed.kind]
    return Lesson(
        code,
        "\n".join(
            [head, "Its machine code differs so:", *_difference(baseline, machine, before, after), *_advice(candidate)]
        ),
    )


def _advice(candidate: CandidateRecord) -> list[str]:
    """What the lints say of it, the deepest in loops first."""
    told = list(dict.fromkeys(str(finding) for finding in candidate.findings))[:MOST_FINDINGS]
    return ["What the lints say of it:", *(f"  {finding}" for finding in told)] if told else []


def has_helped(about: CandidateRecord, answer: CandidateRecord, accept: Accept) -> bool:
    """Whether an answer that came after a lesson passed every check; after one about speed, whether it is faster."""
    if not stands(answer, accept):
        return False
    if not stands(about, accept):
        return True
    return (answer.speed.ratio or 0.0) > (about.speed.ratio or 0.0)


def _difference(
    baseline: Machine,
    machine: Machine,
    before: Sequence[SassFunction] | None,
    after: Sequence[SassFunction] | None,
) -> list[str]:
    pairs = [
        ("registers", baseline.cubin.registers, machine.cubin.registers),
        ("bytes spilled", baseline.cubin.spill_stores, machine.cubin.spill_stores),
        ("bytes of shared memory", baseline.cubin.shared_bytes, machine.cubin.shared_bytes),
    ]
    if before is not None and after is not None:
        old, new = (Counter(i.opcode for f in listing for i in f.instructions) for listing in (before, after))
        pairs.append(("instructions", old.total(), new.total()))
        changed = sorted(old.keys() | new.keys(), key=lambda opcode: (-abs(new[opcode] - old[opcode]), opcode))
        pairs += [(opcode, old[opcode], new[opcode]) for opcode in changed[:MOST_OPCODES]]
    return [f"  {name}: {was} -> {now}" for name, was, now in pairs if was != now]
