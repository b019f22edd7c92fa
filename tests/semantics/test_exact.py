"""Semantics with NumPy against exact arithmetic, on the conformance kernels' operands: edges, ties, NaNs, random."""

import numpy as np
import pytest

from hybridcc.passes.execute.numpy_algebra import ALGEBRA
from hybridcc.ptx import parse_statements, semantics, types
from hybridcc.ptx.nodes import Instruction
from hybridcc.ptx.types import PACKED
from tests.hardware.cases import Case, all_cases
from tests.hardware.operands import ROWS
from tests.hardware.stored import inputs
from tests.semantics import exact_floats, exact_integers
from tests.semantics.exact_floats import FORMATS, NAN, decode

UNSIGNED = {1: bool, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _statement(case: Case) -> Instruction:
    (statement,) = parse_statements(case.body)
    assert isinstance(statement, Instruction)
    return statement


def computed(case: Case) -> tuple[semantics.Operation, list[list[int]], list[int]]:
    """The sources row by row, and the first result of the semantics."""
    operation = semantics.explain(_statement(case))
    columns = inputs(case)
    sources = tuple(c.astype(UNSIGNED[w]) for c, w in zip(columns, operation.sources, strict=True))
    with np.errstate(all="ignore"):
        result = operation.apply(ALGEBRA, sources)[0]
    assert result.dtype == UNSIGNED[operation.results[0]]
    rows = [[int(c[i]) for c in sources] for i in range(ROWS)]
    return operation, rows, [int(x) for x in np.broadcast_to(result, ROWS)]


def plain(case: Case) -> bool:
    """One statement that writes d0 from registers alone."""
    single = case.body.count(";") == 1 and case.body.startswith(case.instruction + " d0, s")
    return single and case.group != "moving" and semantics.decode(_statement(case)) is not None


def parts(case: Case) -> tuple[str, frozenset[str], tuple[str, ...]]:
    opcode, *words = case.instruction.split(".")
    return opcode, frozenset(words), semantics.modifiers(_statement(case)).types


FLOATING = ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "min", "max", "abs", "neg")
CASES = [c for c in all_cases() if plain(c)]
ARITHMETIC = [c for c in CASES if c.opcode in FLOATING and not {"approx", "full"} & set(c.instruction.split("."))
              and "f" in parts(c)[2][0]]  # fmt: skip


def same(got: int, wanted: int, name: str) -> bool:
    """Equal bits; of NaNs only that both are: tests/hardware knows the payloads."""
    if got == wanted:
        return True
    return name in FORMATS and decode(got, name).kind == NAN == decode(wanted, name).kind


def report(case: Case, row: list[int], got: int, wanted: int) -> str:
    return f"{case.name} of {[hex(x) for x in row]} is {wanted:#x}, computed {got:#x}"


@pytest.mark.parametrize("case", ARITHMETIC, ids=lambda c: c.name)
def test_floating_point(case):
    opcode, words, given = parts(case)
    name, count = PACKED.get(given[0], (given[0], 1))
    width = FORMATS[name].width
    mask = (1 << width) - 1
    for row, got in zip(*computed(case)[1:], strict=True):
        for k in range(count):
            lane = tuple(x >> (width * k) & mask for x in row)
            wanted = exact_floats.arithmetic(opcode, words, name, lane)
            assert same(got >> (width * k) & mask, wanted, name), report(case, row, got, wanted)


CONVERSIONS = [c for c in CASES if c.opcode == "cvt"]


@pytest.mark.parametrize("case", CONVERSIONS, ids=lambda c: c.name)
def test_conversion(case):
    _, words, (result, source, *_) = parts(case)
    name, count = PACKED.get(result, (result, 1))
    of, _ = PACKED.get(source, (source, 1))
    width = types.width(name)
    for row, got in zip(*computed(case)[1:], strict=True):
        if "pack" in words:
            assert got == exact_integers.pack(result, tuple(row)), case.name
            continue
        lanes = [row[0] >> (types.width(of) * k) & 0xFFFF for k in range(2)] if of != source else row[::-1]
        for k, bits in enumerate(lanes):
            if types.is_float(of) and types.width(of) == 8:
                bits &= 0xFF
            if types.is_float(name) or types.is_float(of):
                wanted = exact_floats.convert(name, of, words, bits)
            else:
                wanted = exact_integers.convert(name, of, "sat" in words, bits) & ((1 << width) - 1)
            mine = got >> (width * k) & ((1 << width) - 1) if count > 1 else got
            assert same(mine, wanted, name), report(case, row, got, wanted)


INTEGER = [c for c in CASES if c not in ARITHMETIC and c.opcode not in ("cvt", "setp", "set")
           and parts(c)[2] and parts(c)[2][0][0] in "bsu" and not parts(c)[2][0].startswith("bf")]  # fmt: skip


@pytest.mark.parametrize("case", INTEGER, ids=lambda c: c.name)
def test_integer(case):
    opcode, words, given = parts(case)
    element, count = PACKED.get(given[0], (given[0], 1))
    operation, rows, results = computed(case)
    width = operation.results[0] // count
    silent = True
    for row, got in zip(rows, results, strict=True):
        for k in range(count):
            lane = tuple(x >> (width * k) & ((1 << width) - 1) for x in row) if count > 1 else tuple(row)
            wanted = exact_integers.evaluate(opcode, words, (element, *given[1:]), lane)
            if wanted is not None:
                silent = False
                mask = (1 << width) - 1
                assert got >> (width * k) & mask == wanted & mask, report(case, row, got, wanted & mask)
    assert not silent or opcode in ("mov", "selp", "slct", "prmt", "dp2a"), f"no oracle for {case.name}"


COMPARISONS = [c for c in CASES if c.opcode == "setp" and parts(c)[2][0] not in PACKED]


@pytest.mark.parametrize("case", COMPARISONS, ids=lambda c: c.name)
def test_comparison(case):
    _, words, (type_,) = parts(case)
    relation = case.instruction.split(".")[1]
    for (a, b), got in zip(*computed(case)[1:], strict=True):
        if type_ in FORMATS:
            wanted = _float_relation(relation, a, b, type_, "ftz" in words)
        else:
            wanted = exact_integers.compares(relation, a, b, type_)
        assert bool(got) == wanted, report(case, [a, b], got, wanted)


def _float_relation(relation: str, a: int, b: int, name: str, ftz: bool) -> bool:
    if ftz:
        a, b = exact_floats.flush(a, name), exact_floats.flush(b, name)
    x, y = decode(a, name), decode(b, name)
    nan = NAN in (x.kind, y.kind)
    if relation in ("num", "nan"):
        return nan == (relation == "nan")
    if nan:
        return len(relation) == 3
    form = FORMATS[name]
    left, right = (0 if v & ~form.sign == 0 else (-(v & ~form.sign) if v & form.sign else v) for v in (a, b))
    return {"eq": left == right, "ne": left != right, "lt": left < right, "le": left <= right, "gt": left > right,
            "ge": left >= right}[relation[:2]]  # fmt: skip


def test_nothing_is_left_out():
    """Every computation that is bit-exact has an oracle above or is listed here with what tests it instead."""
    covered = {c.name for c in (*ARITHMETIC, *CONVERSIONS, *INTEGER, *COMPARISONS)}
    left = {c.opcode for c in CASES if c.name not in covered}
    approximate = {"rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "div", "rcp", "sqrt"}
    by_hardware = {"set", "setp", "selp", "slct", "mov", "testp", "copysign", "and", "or", "xor", "not", "fma"}
    assert left <= approximate | by_hardware, left
