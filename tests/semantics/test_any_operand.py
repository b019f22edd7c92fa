"""Any bits at all: the operations whose exact rounding takes a detour, against rationals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.passes.execute.numpy_algebra import ALGEBRA
from hybridcc.ptx.algebra import Conversion, FloatOperation
from tests.semantics import exact_floats
from tests.semantics.exact_floats import FORMATS, NAN, decode

UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}
COUNT = {"add": 2, "mul": 2, "fma": 3, "div": 2, "sqrt": 1}
KINDS = [(o, f, r) for o in COUNT for f in ("f32", "f64") for r in ("rn", "rz", "rm", "rp")]
NARROW = [(o, f, "rn") for o in ("add", "mul", "fma") for f in ("f16", "bf16")]


def any_bits(name: str) -> st.SearchStrategy[int]:
    """All patterns, and ones with few bits set in the fraction so that ties and cancellations come up."""
    form = FORMATS[name]
    exponents = st.integers(0, form.infinity >> form.fraction)
    edges = st.sampled_from([0, 1, 2, (1 << form.fraction) - 1])
    one_bit = st.integers(0, form.fraction - 1).map(lambda b: 1 << b)
    fractions = st.one_of(st.integers(0, (1 << form.fraction) - 1), edges, one_bit)
    close = st.integers(form.bias - 3, form.bias + 3)
    return st.builds(
        lambda s, e, f: s * form.sign | e << form.fraction | f, st.booleans(), st.one_of(exponents, close), fractions
    )


@pytest.mark.parametrize(("opcode", "name", "mode"), KINDS + NARROW)
def test_operation(opcode, name, mode):
    form = FORMATS[name]
    operation = FloatOperation(opcode, name, mode)

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(*[any_bits(name)] * COUNT[opcode]), min_size=1, max_size=8))
    def check(rows):
        columns = tuple(np.array(c, UNSIGNED[form.width]) for c in zip(*rows, strict=True))
        with np.errstate(all="ignore"):
            results = ALGEBRA.float_operation(operation, columns)
        for row, got in zip(rows, results.tolist(), strict=True):
            wanted = exact_floats.arithmetic(opcode, frozenset({mode}), name, row)
            both_nan = decode(got, name).kind == NAN == decode(wanted, name).kind
            assert got == wanted or both_nan, f"{opcode}.{mode}.{name} of {[hex(x) for x in row]}"

    check()


@pytest.mark.parametrize("result", ["f16", "bf16", "f32", "tf32", "s32", "u64", "s8"])
@pytest.mark.parametrize("source", ["f64", "f32"])
def test_conversion(result, source):
    modes = (
        ("rna",)
        if result == "tf32"
        else ("rni", "rzi", "rmi", "rpi")
        if result[0] in "su"
        else ("rn", "rz", "rm", "rp")
    )

    @settings(max_examples=40, deadline=None)
    @given(st.lists(any_bits(source), min_size=1, max_size=8), st.sampled_from(modes))
    def check(values, mode):
        column = np.array(values, UNSIGNED[FORMATS[source].width])
        with np.errstate(all="ignore"):
            results = ALGEBRA.convert(Conversion(result, source, mode), column)
        for bits, got in zip(values, results.tolist(), strict=True):
            wanted = exact_floats.convert(result, source, frozenset({mode}), bits)
            both_nan = result in FORMATS and decode(got, result).kind == NAN == decode(wanted, result).kind
            assert got == wanted or both_nan, f"cvt.{mode}.{result}.{source} of {bits:#x}"

    check()
