"""Matrix instructions against products of whole matrices, with fragments as PTX ISA 9.7.14.5 draws them."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc.errors import ExecutionError
from hybridcc.passes.execute import execute

HEAD = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
.reg .b32 %lane, %g, %t, %x, a<4>, b<2>, c<4>, d<4>; .reg .b64 %a, %b, %c, %d, %o; .reg .pred %p;
.shared .align 16 .b8 tile[512];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];
mov.u32 %lane, %tid.x; shr.u32 %g, %lane, 2; and.b32 %t, %lane, 3;
{}
ret;
}}
"""


def at(register: str, pointer: str, row: str, pitch: int, column: str, opcode: str = "ld.global.b32") -> str:
    """Moves a word at byte ``row * pitch + column`` of a matrix."""
    place = f"mad.lo.u32 %x, {row}, {pitch}, {column}; cvt.u64.u32 %o, %x; add.s64 %o, %o, {pointer};"
    return place + (f" {opcode} {register}, [%o];" if opcode[0] == "l" else f" {opcode} [%o], {register};")


def test_bytes_times_bytes():
    """m16n8k16: A row by row, B column by column, C and D row by row, as compilers lay them out."""
    body = ["shl.b32 %lane, %t, 2;"]
    body += [at("a0", "%a", "%g", 16, "%lane"), at("b0", "%b", "%g", 16, "%lane"), "add.u32 %g, %g, 8;"]
    body += [at("a1", "%a", "%g", 16, "%lane"), "sub.u32 %g, %g, 8; shl.b32 %t, %t, 3;"]
    for half in (0, 2):
        body += [at(f"c{half}", "%c", "%g", 32, "%t"), f"ld.global.b32 c{half + 1}, [%o+4]; add.u32 %g, %g, 8;"]
    body.append("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {d0, d1, d2, d3}, {a0, a1}, {b0}, {c0, c1, c2, c3};")
    body.append("sub.u32 %g, %g, 16;")
    for half in (0, 2):
        body += [at(f"d{half}", "%d", "%g", 32, "%t", "st.global.b32"), f"st.global.b32 [%o+4], d{half + 1};"]
        body.append("add.u32 %g, %g, 8;")
    random = np.random.default_rng(7)
    a, b = random.integers(-128, 128, (16, 16), np.int8), random.integers(0, 256, (16, 8), np.uint8)
    c = random.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
    d = np.zeros((16, 8), np.int32)
    result = execute(HEAD.format("\n".join(body)), "k", 1, 32, [a, np.ascontiguousarray(b.T), c, d])
    assert (d == (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)).all()
    assert not result.flags


TRANSPOSE = """
shl.b32 %x, %lane, 4; mov.u32 %t, tile; add.u32 %t, %t, %x; cvt.u64.u32 %o, %x; add.s64 %a, %a, %o;
ld.global.v4.b32 {{a0, a1, a2, a3}}, [%a]; st.shared.v4.b32 [%t], {{a0, a1, a2, a3}};
bar.warp.sync -1;
{} {{d0, d1, d2, d3}}, [%t];
mov.u32 %t, tile; add.u32 %t, %t, %x; bar.warp.sync -1;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%t], {{d0, d1, d2, d3}};
bar.warp.sync -1;
ld.shared.v4.b32 {{a0, a1, a2, a3}}, [%t]; add.s64 %d, %d, %o; st.global.v4.b32 [%d], {{a0, a1, a2, a3}};
"""


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_of_halves_there_and_back(transposed):
    opcode = "ldmatrix.sync.aligned.m8n8.x4" + (".trans" if transposed else "") + ".shared.b16"
    given = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    got = np.zeros_like(given)
    execute(HEAD.format(TRANSPOSE.format(opcode)), "k", 1, 32, [given, given, given, got])
    assert (got == (given.transpose(0, 2, 1) if transposed else given)).all()


def test_part_of_a_warp_is_refused():
    body = "setp.lt.u32 %p, %lane, 31; mov.b32 a0, %lane; @%p movmatrix.sync.aligned.m8n8.trans.b16 d0, a0;"
    with pytest.raises(ExecutionError) as stopped:
        execute(HEAD.format(body), "k", 1, 32, [np.zeros(4, np.uint32)] * 4)
    assert stopped.value.reason == "CONVERGENCE"
