"""Argument values as a shell writes them."""

import numpy as np
import pytest

from hybridcc.cli.values import parse_value
from hybridcc.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32:2.5", np.float32(2.5)),
        ("f64:-inf", np.float64("-inf")),
        ("s64:-3", np.int64(-3)),
        ("u32:0xff", np.uint32(255)),
        ("f32[3]", np.zeros(3, np.float32)),
        ("s8[2,2]=ones", np.ones((2, 2), np.int8)),
        ("u16[2,3]=arange", np.arange(6, dtype=np.uint16).reshape(2, 3)),
        ("f64[2]=1.5", np.full(2, 1.5)),
        ("f32[0]", np.zeros(0, np.float32)),
    ],
)
def test_accepted(text, expected):
    value = parse_value(text)
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype


def test_random_is_seeded_and_files_are_read(tmp_path):
    first, second = parse_value("f32[9]=random", 3), parse_value("f32[9]=random", 3)
    assert isinstance(first, np.ndarray)
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != parse_value("f32[9]=random", 4).tobytes()
    np.save(tmp_path / "x.npy", np.arange(4))
    np.testing.assert_array_equal(parse_value(f"@{tmp_path / 'x.npy'}"), np.arange(4))


@pytest.mark.parametrize(
    "text",
    ["", "5", "f32", "f32:x", "u8:256", "u8:-1", "f8[4]", "f32[4", "f32[99999999999]", "@/no/such.npy", "f32[2]=many"],
)
def test_refused_with_the_accepted_forms(text):
    with pytest.raises(InputError) as error:
        parse_value(text)
    assert error.value.next_step
