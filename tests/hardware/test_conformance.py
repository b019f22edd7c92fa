"""The executor against what a GPU answered: every bit, and where PTX leaves bits open, its bound."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hybridcc.passes.execute import execute
from hybridcc.passes.execute.numpy_floats import to_f64
from hybridcc.ptx.types import PACKED
from tests.hardware import generate, stored
from tests.hardware.bounds import BOUNDS, Bound
from tests.hardware.cases import Case, all_cases
from tests.hardware.operands import ROWS

ANSWERS = Path(__file__).parent / "answers.npz"


@cache
def answers() -> stored.Answers:
    return stored.load(ANSWERS, all_cases())


def executed(case: Case) -> tuple[tuple[np.ndarray, ...], tuple[str, ...]]:
    """The executor's results and its flags."""
    out, scratch = np.full(case.result_bytes, 0xA5, np.uint8), np.zeros(16 * ROWS, np.uint8)
    given = stored.inputs(case).reshape(-1).copy()
    result = execute(generate.module((case,)), case.entry, 1, ROWS, [given, out, scratch])
    return stored.split(case, out.tobytes()), result.flags


def is_open(case: Case) -> bool:
    """Whether PTX leaves bits of the result open."""
    return any(w in case.instruction.split(".") for w in ("approx", "full")) or case.opcode == "mma"


def difference(case: Case, mine: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> str:
    """The first rows that differ, with their operands; empty where nothing does."""
    lines = []
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        for row in np.flatnonzero(a != b)[:4]:
            operands = ", ".join(f"{int(x):#x}" for x in stored.inputs(case)[:, row])
            lines.append(f"d{number} of thread {row} ({operands}) is {int(b[row]):#x}, computed {int(a[row]):#x}")
    return "\n".join(lines)


def test_there_are_enough_answers():
    got = answers()
    opcodes = {c.opcode for c in all_cases() if c.name in got.outputs}
    variants = {c.instruction for c in all_cases() if c.name in got.outputs}
    assert len(opcodes) >= 60
    assert len(variants) >= 400
    assert len(got.outputs) >= 0.95 * len(all_cases())
    assert {"gpu", "driver", "assembler"} <= set(got.origin)


EXACT = [c for c in all_cases() if not (is_open(c) and not c.instruction.count(".s32."))]
OPEN = [c for c in all_cases() if c.group == "computing" and is_open(c)]


@pytest.mark.parametrize("case", EXACT, ids=lambda c: c.name)
def test_bit_for_bit(case):
    got = answers()
    if case.name not in got.outputs:
        pytest.skip(got.missing.get(case.name, "the GPU has not been asked yet: benchmarks/hardware_conformance.py"))
    mine, flags = executed(case)
    assert not difference(case, mine, got.results(case))
    assert not [f for f in flags if "bit-exact" in f]


@pytest.mark.parametrize("case", OPEN, ids=lambda c: c.name)
def test_within_the_documented_error(case):
    """Executor and hardware both lie within the ISA's bound, and agree on NaN, infinity and zero."""
    theirs = answers().results(case)[0]
    (mine, *_), flags = executed(case)
    assert any("bit-exact" in f for f in flags)
    words = case.instruction.split(".")
    element, count = PACKED.get(words[-1], (words[-1], 1))
    bound = BOUNDS.get((".".join(words[:3]), element)) or BOUNDS[".".join(words[:2]), element]
    for lane in range(count):
        with np.errstate(all="ignore"):
            columns = [_values(c, element, lane, "ftz" in words) for c in stored.inputs(case)]
            truth = bound.truth(*columns)
            inside = bound.where(*columns) if bound.where else np.ones(ROWS, bool)
            for who, bits in (("the GPU", theirs), ("the executor", mine)):
                worst = _worst(_values(bits, element, lane, False), truth, inside, bound, element)
                assert worst <= 1, f"{who}: {worst} times the bound"


def _worst(value: np.ndarray, truth: np.ndarray, inside: np.ndarray, bound: Bound, element: str) -> float:
    """The largest error as a multiple of the bound, infinite where a NaN or an infinity is wrong."""
    truth = np.where(np.abs(truth) > _most(element), np.copysign(np.inf, truth), truth)
    same = (np.isnan(value) & np.isnan(truth)) | (value == truth)
    checked = inside & ~same & ~(np.abs(truth) < _least(element))
    allowed = bound.absolute + bound.relative * np.abs(truth[checked])
    return float(np.nan_to_num(np.abs(value - truth)[checked] / allowed, nan=np.inf).max(initial=0.0))


def _values(bits: np.ndarray, element: str, lane: int, ftz: bool) -> np.ndarray:
    width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[element]
    part = (bits.astype(np.uint64) >> np.uint64(width * lane)).astype(
        {16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
    )
    value = to_f64(part, element)
    return np.where(np.abs(value) < _least(element), np.copysign(0.0, value), value) if ftz else value


MATRICES = [c for c in all_cases() if c.opcode == "mma" and ".s32." not in c.instruction]


@pytest.mark.parametrize("case", MATRICES, ids=lambda c: c.name)
def test_floating_point_matrices(case):
    """f64, and f16 of f16, to the bit as it happens; f32 in nine of ten elements, and elsewhere to few last places."""
    mine, flags = executed(case)
    assert any("bit-exact" in f for f in flags)
    theirs = answers().results(case)
    if ".f32" not in case.instruction:
        assert not difference(case, mine, theirs)
        return
    ours, gpus = (np.concatenate([to_f64(x, "f32") for x in results]) for results in (mine, theirs))
    same = (ours == gpus) | (np.isnan(ours) & np.isnan(gpus))
    assert same.mean() > 0.9
    assert (np.abs(ours[~same] - gpus[~same]) <= 2.0**-19 * np.abs(gpus[~same])).all()


def _most(element: str) -> float:
    """The largest finite number."""
    return {"f16": 65504.0, "bf16": 2.0**128 - 2.0**120, "f32": 2.0**128 - 2.0**104, "f64": np.inf}[element]


def _least(element: str) -> float:
    """The least normal number: below it a result may be flushed."""
    return {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}[element]
