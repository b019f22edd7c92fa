"""PTX modules that hold the kernels of all cases.

Each kernel has the parameters (in, out, scratch): slots of sources, bytes of results, 16 bytes of global memory a
thread; one block of 512 threads.
"""

from __future__ import annotations

import re

from tests.hardware.cases import Case, register_type
from tests.hardware.operands import ROWS, width_of

HEADER = ".version {version}\n.target {target}\n.address_size 64\n"
MODULE_SIZE = 160
"""Kernels in a module: small enough that one that an assembler refuses is found soon."""


def module(cases: tuple[Case, ...], target: str = "sm_90", version: str = "8.4") -> str:
    return HEADER.format(version=version, target=target) + "".join(kernel(c) for c in cases)


def batches(cases: tuple[Case, ...]) -> list[tuple[Case, ...]]:
    return [cases[i : i + MODULE_SIZE] for i in range(0, len(cases), MODULE_SIZE)]


def kernel(case: Case) -> str:
    memory = re.search(r"SHARED|GLOBAL|%me|%long|own", case.body) is not None
    lines = [f".visible .entry {case.entry}(.param .u64 in, .param .u64 out, .param .u64 scratch)", "{"]
    lines += ["  .reg .b32 %t, %me, %at;", "  .reg .b64 %in, %out, %row, %long, %other, %global;"]
    lines += ["  .reg .pred %flag;", "  .reg .b32 %shared, %base;"]
    lines += [f"  .reg {register_type(kind)} s{j};" for j, kind in enumerate(case.sources)]
    lines += [f"  .reg {_result_type(w)} d{j};" for j, w in enumerate(case.results)]
    if memory:
        lines += [f"  .shared .align 16 .b8 room[{16 * ROWS}];", "  .local .align 16 .b8 own[16];"]
    lines += ["  mov.u32 %me, %tid.x;", "  ld.param.u64 %in, [in];", "  ld.param.u64 %out, [out];"]
    lines += ["  cvta.to.global.u64 %in, %in;", "  cvta.to.global.u64 %out, %out;"]
    lines += ["  mul.wide.u32 %row, %me, 8;", "  add.s64 %in, %in, %row;"]
    if memory:
        lines += ["  mov.u32 %base, room;", "  shl.b32 %shared, %me, 4;", "  add.u32 %shared, %base, %shared;"]
        lines += ["  ld.param.u64 %global, [scratch];", "  cvta.to.global.u64 %global, %global;"]
        lines += ["  mul.wide.u32 %row, %me, 16;", "  add.s64 %global, %global, %row;"]
    lines += [line for j, kind in enumerate(case.sources) for line in _load(j, kind)]
    lines.append("  " + case.body.replace("SHARED", "%shared").replace("GLOBAL", "%global"))
    at = 0
    for j, w in enumerate(case.results):
        size = max(1, w // 8)
        lines += _store(j, w, size, at)
        at += ROWS * size
    return "\n".join([*lines, "  ret;", "}", ""])


def _result_type(w: int) -> str:
    return ".pred" if w == 1 else f".b{w if w != 8 else 32}"


def _load(j: int, kind: str) -> list[str]:
    w = width_of(kind)
    at = f"[%in+{8 * ROWS * j}]"
    if w == 1:
        return [f"  ld.global.u32 %t, {at};", f"  setp.ne.u32 s{j}, %t, 0;"]
    return [f"  ld.global.{'u8' if w == 8 else f'b{w}'} s{j}, {at};"]


def _store(j: int, w: int, size: int, at: int) -> list[str]:
    lines = [f"  mul.wide.u32 %row, %me, {size};", "  add.s64 %row, %out, %row;"]
    if w == 1:
        return [*lines, f"  selp.u32 %t, 1, 0, d{j};", f"  st.global.u8 [%row+{at}], %t;"]
    return [*lines, f"  st.global.b{w} [%row+{at}], d{j};"]
