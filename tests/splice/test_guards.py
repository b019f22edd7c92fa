"""Guards on the executor: the rewrite runs where the condition holds and nowhere else, for every kind of condition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridcc.errors import SpliceRefused
from hybridcc.passes.execute import execute
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions.find import find_in
from hybridcc.passes.splice import splice
from hybridcc.ptx import parse
from hybridcc.runtime.assemble import assemble

KERNEL = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o, .param .u64 a, .param .u64 b, .param .u64 n, .param .u32 m, .param .f32 f)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
ld.param.u64 %rd1, [o]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b]; ld.param.u64 %rd4, [n];
ld.param.u32 %r2, [m]; ld.param.f32 %f1, [f];
mov.u32 %r1, 0;
st.global.u32 [%rd1+4], %r1;
LOOP:
xor.b64 %rd5, %rd2, %rd3; xor.b64 %rd5, %rd5, %rd4; cvt.u32.u64 %r3, %rd5; xor.b32 %r3, %r3, %r2;
mov.b32 %r4, %f1; xor.b32 %r3, %r3, %r4; and.b32 %r3, %r3, 1;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, 2;
@%p1 bra LOOP;
st.global.u32 [%rd1], %r1;
ret;
}
"""
"""%in0 to %in4 are a, b, n (64 bits), m (32 bits) and f (float); %in5 is the counter, which is 2 at the end."""

Truth = Callable[[int, int, int, int], bool]
WRAP = 1 << 64


def signed(value: int, width: int = 64) -> int:
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


CONDITIONS: dict[str, Truth] = {
    "%in2 >= 5": lambda a, b, n, m: n >= 5,
    "%in2 <= -3": lambda a, b, n, m: n <= -3,
    "%in2 == 0x10": lambda a, b, n, m: n == 16,
    "%in3 < 7": lambda a, b, n, m: m < 7,
    "%in3 multiple of 8": lambda a, b, n, m: m % 8 == 0,
    "%in0 + 4 * %in2 multiple of 16": lambda a, b, n, m: (a + 4 * n) % 16 == 0,
    "%in2 >= %in3": lambda a, b, n, m: n >= m,
    "%in3 == %in2": lambda a, b, n, m: n == m,
    "%in2 - %in3 < 3": lambda a, b, n, m: signed(n - m) < 3,
    "2 * %in2 * %in3 + 1 <= %in0": lambda a, b, n, m: signed(2 * n * m + 1) <= signed(a),
    "%ntid.x == 1": lambda a, b, n, m: True,
    "%ntid.x multiple of 32": lambda a, b, n, m: False,
    "%ntid.x * %nctaid.x < 2": lambda a, b, n, m: True,
    "%ntid.x * %nctaid.x < %in3": lambda a, b, n, m: m > 1,
    "%in0[4 * %in2] disjoint from %in1[8]": lambda a, b, n, m: (b - a) % WRAP >= 4 * n % WRAP and (a - b) % WRAP >= 8,
    "%in0[16] disjoint from %in1 + %in3[%in2]": lambda a, b, n, m: (
        (b + m - a) % WRAP >= 16 and (a - b - m) % WRAP >= n % WRAP
    ),
}


def guarded(*lines: str) -> str:
    module = parse(KERNEL)
    (region, *_) = find_in(module, module.entries[0], Kernel("k", "k", "", "sm_90", "test"))
    assert [p.type for p in region.live_in] == [".b64", ".b64", ".b64", ".b32", ".f32", ".b32"]
    text = "\n".join(f"// guard: {line}" for line in lines) + "\nmov.u32 %out0, 777;"
    candidate = splice(module, region, text)
    assert [str(c) for c in candidate.parts[0].guard] == [line.replace("0x10", "16") for line in lines]
    return candidate.text


def rewritten(ptx: str, a: int, b: int, n: int, m: int, f: float = 0.0) -> bool:
    out = np.zeros(2, np.uint32)
    numbers = [np.uint64(a), np.uint64(b), np.int64(n), np.int32(m), np.float32(f)]
    execute(ptx, "k", 1, 1, [out, *numbers])
    assert out[0] in (2, 777)
    return bool(out[0] == 777)


NUMBERS = st.one_of(st.integers(-20, 40), st.integers(-(1 << 63), (1 << 63) - 1))
ADDRESSES = st.one_of(st.integers(0, 64), st.integers(WRAP - 64, WRAP - 1), st.integers(0, WRAP - 1))
NARROW = st.one_of(st.integers(-20, 40), st.integers(-(1 << 31), (1 << 31) - 1))


@pytest.mark.parametrize("line", CONDITIONS)
def test_the_rewrite_runs_exactly_where_the_condition_holds(line: str) -> None:
    ptx = guarded(line)
    assemble(ptx, "sm_90", "ptxas")

    @settings(max_examples=40, deadline=None)
    @given(ADDRESSES, ADDRESSES, NUMBERS, NARROW)
    def same(a: int, b: int, n: int, m: int) -> None:
        assert rewritten(ptx, a, b, n, m) == CONDITIONS[line](a, b, n, m)

    same()


@pytest.mark.parametrize(("distance", "apart"), [(15, False), (16, True), (-7, False), (-8, True), (0, False)])
def test_ranges_that_touch_are_disjoint_and_one_byte_more_is_not(distance: int, apart: bool) -> None:
    ptx = guarded("%in0[16] disjoint from %in1[8]")
    for start in (1 << 40, 0, 3, WRAP - 16, WRAP - 4):
        assert rewritten(ptx, start, (start + distance) % WRAP, 0, 0) == apart


def test_a_float_is_compared_bit_for_bit() -> None:
    ptx = guarded("%in4 == 0f80000000")
    assert rewritten(ptx, 0, 0, 0, 0, -0.0)
    assert not rewritten(ptx, 0, 0, 0, 0, 0.0)
    nan = guarded("%in4 == 0f7FC00000")
    assert rewritten(nan, 0, 0, 0, 0, float("nan"))


def test_all_conditions_must_hold() -> None:
    ptx = guarded("%in2 >= 5", "%in3 < 7")
    assert [rewritten(ptx, 0, 0, n, m) for n, m in ((5, 6), (5, 7), (4, 6), (4, 7))] == [True, False, False, False]


@pytest.mark.parametrize("line", ["%in4 >= 0", "%in4 + 1 == 2", "%in4 multiple of 4", "%in4[4] disjoint from %in0[4]"])
def test_floats_are_not_computed_with(line: str) -> None:
    with pytest.raises(SpliceRefused, match="only integers"):
        guarded(line)


def test_a_guard_inside_braces_is_not_overlooked() -> None:
    module = parse(KERNEL)
    (region, *_) = find_in(module, module.entries[0], Kernel("k", "k", "", "sm_90", "test"))
    with pytest.raises(SpliceRefused, match="outside its braces"):
        splice(module, region, "{\n// guard: %in2 >= 5\nmov.u32 %out0, 777;\n}")
