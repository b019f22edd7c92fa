"""The words of the report: one spelling per verdict, speed and fate, the same in every format."""

from __future__ import annotations

from typing import Any, assert_never

from hybridcc.passes.kernel import ArrayType, ScalarType
from hybridcc.passes.verdict import Proved, Refuted, Tested, TestedWithin, Unknown, Verdict


def verdict_kind(verdict: Verdict) -> str:
    """The stable word: proved, tested, tested_within, refuted, unknown."""
    match verdict:
        case Proved():
            return "proved"
        case Tested():
            return "tested"
        case TestedWithin():
            return "tested_within"
        case Refuted():
            return "refuted"
        case Unknown():
            return "unknown"
        case _:
            assert_never(verdict)


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON holds it."""
    data: dict[str, Any] = {"kind": verdict_kind(verdict), "text": verdict_text(verdict)}
    match verdict:
        case Proved(certificate, aside):
            data |= {"certificate": certificate, "aside": list(aside)}
        case Tested(inputs, exercised, families, least):
            data |= {"inputs": inputs, "exercised": exercised, "families": list(families), "least": least}
        case TestedWithin(inputs, exercised, ulp):
            data |= {"inputs": inputs, "exercised": exercised, "ulp": ulp}
        case Refuted(counterexample, family):
            data |= {"counterexample": counterexample, "family": family}
        case Unknown(reason):
            data |= {"reason": reason}
        case _:
            assert_never(verdict)
    return data


def verdict_text(verdict: Verdict) -> str:
    match verdict:
        case Proved(_, ()):
            return "proved"
        case Proved(_, aside):
            return "".join(["proved", *(f", {sense} aside" for sense in aside)])
        case Tested(inputs, 0, _, least):
            return f"tested(bitwise), {least}/{inputs} inputs or more ran each rewritten block, none ran all at once"
        case Tested(inputs, exercised, _, _):
            return f"tested(bitwise), {exercised}/{inputs} inputs ran every rewritten block"
        case TestedWithin(inputs, exercised, ulp):
            return f"tested_within({ulp} ulp), {exercised}/{inputs} inputs ran every rewritten block"
        case Refuted(counterexample, _):
            return f"refuted: {counterexample}"
        case Unknown(reason):
            return f"unknown: {reason}"
        case _:
            assert_never(verdict)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def type_text(type_: ArrayType | ScalarType) -> str:
    """An argument's type as Numba spells it: ``float32[:, ::1]``."""
    if isinstance(type_, ScalarType):
        return type_.dtype
    axes = [":"] * type_.ndim
    if axes and type_.layout == "C":
        axes[-1] = "::1"
    elif axes and type_.layout == "F":
        axes[0] = "::1"
    return f"{type_.dtype}[{', '.join(axes)}]"
