"""Launches keep their sharing when copied, and value families are what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.passes.verify.launch import Launch, as_shape, copy, describe, memory
from hybridcc.passes.verify.values import FAMILIES, INTEGER_FAMILIES, draw


def launch(*values: object) -> Launch:
    return Launch((1, 1, 1), (32, 1, 1), values)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_copy_shares_what_the_original_shares_and_nothing_else(order):
    base = np.arange(24, dtype=np.float32).reshape((4, 6), order=order)
    original = launch(base, base[1:, ::2], base[::-1], np.int32(3), base)
    twin = copy(original)
    for mine, theirs in zip(original.values, twin.values, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.shares_memory(base, twin.values[0])
    twin.values[0][3, 4] = -1  # type: ignore[index]
    assert twin.values[1][2, 2] == -1  # type: ignore[index]
    assert twin.values[2][0, 4] == -1  # type: ignore[index]
    assert base[3, 4] != -1
    assert len(memory(twin)) == 1
    assert memory(twin) != memory(original)


def test_memory_sees_bits_not_values():
    quiet, other = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    assert memory(launch(quiet)) != memory(launch(other))
    assert memory(launch(np.array([0.0]))) != memory(launch(np.array([-0.0])))


def test_description_names_what_is_needed_to_repeat_it():
    base = np.zeros(40, np.float32)
    text = describe(Launch((2, 1, 1), (64, 1, 1), (base, base[1:9], np.int32(5)), "nan", "overlap", seed=7))
    for piece in (
        "grid 2x1x1",
        "block 64x1x1",
        "float32[40]",
        "buffer of argument 0 at byte 4",
        "int32(5)",
        "seed 7",
    ):
        assert piece in text


@given(st.sampled_from(FAMILIES), st.sampled_from(["f2", "f4", "f8"]), st.integers(0, 70), st.integers(0, 99))
def test_float_families(family, dtype, size, seed):
    values = draw(family, np.dtype(dtype), size, np.random.default_rng(seed))
    assert values.dtype == dtype
    assert values.shape == (size,)
    again = draw(family, np.dtype(dtype), size, np.random.default_rng(seed))
    assert values.tobytes() == again.tobytes()
    if not size:
        return
    match family:
        case "nan":
            assert np.isnan(values).any()
        case "infinity":
            assert np.isinf(values).any()
        case "subnormal":
            assert (values != 0).all()
            assert (np.abs(values.astype(np.float64)) < float(np.finfo(dtype).tiny)).all()
        case "zero":
            assert (values == 0).all()
        case _:
            assert np.isfinite(values).all()


@given(
    st.sampled_from(INTEGER_FAMILIES),
    st.sampled_from(["i1", "u1", "i4", "u4", "i8", "u8"]),
    st.integers(0, 70),
)
def test_integer_families(family, dtype, size):
    values = draw(family, np.dtype(dtype), size, np.random.default_rng(1), extent=5)
    assert values.dtype == dtype
    if family == "random":
        assert ((values >= 0) & (values < 5)).all()
    if family == "negative index" and dtype[0] == "i":
        assert ((values < 0) & (values >= -5)).all()


def test_nan_family_has_signalling_payloads():
    bits = draw("nan", np.dtype("f4"), 400, np.random.default_rng(3)).view(np.uint32)
    nans = bits[(bits & 0x7FFFFFFF) > 0x7F800000]
    assert (nans & 0x400000 == 0).any()
    assert len(np.unique(nans)) > 50


def test_shapes():
    assert as_shape(4) == (4, 1, 1)
    assert as_shape((4, 2)) == (4, 2, 1)
    with pytest.raises(ValueError, match="one to three"):
        as_shape((1, 2, 3, 4))
