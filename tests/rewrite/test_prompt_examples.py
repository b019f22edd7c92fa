"""What the prompt shows as right is right, and what it shows as wrong is caught by the check that it names."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from hybridcc import execute
from hybridcc.errors import AnswerRejected, ExecutionError, SpliceRefused
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region, body, find
from hybridcc.passes.rewrite import answer, lints
from hybridcc.passes.rewrite.examples import MOST_WRONG, ORDER, Example, Wrong, examples, right_for, wrong_for
from hybridcc.passes.splice import splice
from hybridcc.passes.verdict import Proved
from hybridcc.passes.verify.proving import prove
from hybridcc.ptx import parse
from hybridcc.runtime.assemble import assemble

ALL = pytest.mark.parametrize("example", examples(), ids=lambda e: e.name)
WRONG = [pytest.param(e, w, id=f"{e.name}: {w.name}") for e in examples() for w in e.wrong]


def region_of(example: Example) -> Region:
    kernel = Kernel("k", "k", example.kernel, "sm_80", "ptx")
    return next((region for region in find(kernel) if region.eligible), body(kernel))


def fenced(text: str) -> str:
    return f"```ptx\n{text}```"


def spliced(example: Example, text: str) -> str:
    """Raises AnswerRejected and SpliceRefused, as any answer would."""
    region = region_of(example)
    rewrite = answer.check(fenced(text), region, "sm_80")
    return splice(parse(example.kernel), region, rewrite.text).text


def made(value: object, rng: np.random.Generator) -> object:
    """An array of so many elements, if it says so beginning some elements beyond an aligned address, or a number."""
    if not isinstance(value, list):
        return np.int64(value)  # type: ignore[arg-type]
    dtype, count, *skipped = value
    skip = skipped[0] if skipped else 0
    return rng.standard_normal(count + skip).astype(dtype)[skip:]


def memory(ptx: str, example: Example, seed: int) -> list[bytes]:
    """What all launches leave, in order. Raises ExecutionError."""
    rng = np.random.default_rng(seed)
    left = []
    for launch in example.check["launches"]:
        values = [made(value, rng) for value in launch]
        execute(ptx, "k", 1, example.check["block"], values)
        left += [v.tobytes() for v in values if isinstance(v, np.ndarray)]
    return left


def found(ptx: str) -> set[str]:
    return {finding.code for finding in lints.check(parse(ptx), "k", "sm_80")}


def fate(example: Example, text: str) -> str:
    """The code of the first check that catches a rewrite: answer, splice, lints, execution; "" for none."""
    try:
        ptx = spliced(example, text)
    except (AnswerRejected, SpliceRefused) as error:
        return error.reason
    if new := found(ptx) - found(example.kernel):
        return min(new)
    for seed in range(4):
        try:
            after = memory(ptx, example, seed)
        except ExecutionError:
            return "REFUTED"
        if after != memory(example.kernel, example, seed):
            return "REFUTED"
    return ""


@ALL
def test_the_text_before_is_the_region_of_the_kernel(example: Example) -> None:
    assert region_of(example).text.strip() == example.before.strip()


@ALL
def test_a_right_rewrite_is_spliced_assembled_and_equal(example: Example) -> None:
    assert fate(example, example.after) == ""
    ptx = spliced(example, example.after)
    for arch in ("sm_80", "sm_90"):
        assert assemble(ptx, arch).bytes != assemble(example.kernel, arch).bytes
    verdict = prove(example.kernel, ptx, "k")
    assert isinstance(verdict, Proved) or example.name in ("loop", "together"), verdict


@pytest.mark.parametrize(("example", "wrong"), WRONG)
def test_a_wrong_rewrite_is_caught_by_the_check_it_names(example: Example, wrong: Wrong) -> None:
    text = wrong.of(example.after)
    assert fate(example, text) == wrong.code
    code = wrong.shown.split("; ")[-1]
    assert code in text or not code.endswith(";"), "what is shown is what was checked"


def test_every_kind_that_is_easily_got_wrong_is_there() -> None:
    names = {wrong.name for example in examples() for wrong in example.wrong}
    assert names >= {
        "wrong state space",
        "unaligned vector access",
        "mask that does not match the live lanes",
        "barrier in divergent code",
        "undeclared register",
        "bank conflict",
        "dropped .rn",
    }


def test_each_region_is_shown_what_it_can_get_wrong_and_no_more() -> None:
    assert right_for({"loop", "floats"}).name == "loop"
    assert right_for({"loop", "shared", "barriers"}).name == "together"
    assert right_for(()).name == "straight"
    names = {w.name for w in wrong_for({"loop", "floats", "global loads"})}
    assert "wrong state space" in names
    assert not names & {"bank conflict", "barrier in divergent code", "dropped wraparound"}
    traits = {t for e in examples() for w in e.wrong for t in w.where}
    for size in range(len(traits) + 1):
        for some in combinations(sorted(traits), size):
            assert 1 <= len(wrong_for(some)) <= MOST_WRONG
    assert [e.name for e in examples()] == list(ORDER)
