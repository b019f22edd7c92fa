"""The PTX that counts and flushes: text pieces which instrument.py puts into a kernel.

A counter is a row of SLOTS 64-bit words, so that warps of different blocks add to different words; a row's sum is the
count. Sums over a warp are formed by one lane at the point where the lanes are together anyway: ``activemask`` names
them, and no branch lies between it and the ``redux`` that waits for them (ISA 9.7.9.23, 9.7.13.8).
"""

from __future__ import annotations

from typing import Final

SLOTS: Final = 256
"""Words per counter. A power of two; more would spread wider than an L2 slice can use."""
WORD: Final = 8
_PIECE: Final = 27
"""Bits of a 64-bit value that one 32-bit sum over 32 lanes can take."""


def declaration(symbol: str, rows: int) -> str:
    """The module-scope buffer; nothing in the parameter list changes."""
    return f".visible .global .align 8 .u64 {symbol}[{max(1, rows) * SLOTS}];"


def prologue(symbol: str, prefix: str, registers: int, *, begun: bool = False) -> str:
    """At a kernel's start: the registers, all zero, and this warp's word of row 0.

    ``begun``: register 0 is the stopwatch that ``first_time`` declared and started.
    """
    zeros = "".join(f"mov.u64 %{prefix}c{k}, 0;\n" for k in range(int(begun), registers))
    names = ", ".join(f"%{prefix}c{k}" for k in range(int(begun), registers))
    return f"""\
.reg .b64 %{prefix}row;
{f".reg .b64 {names};" if names else ""}
{{
.reg .b32 %{prefix}s<12>;
.reg .b64 %{prefix}w<3>;
mov.u32 %{prefix}s0, %tid.x;
mov.u32 %{prefix}s1, %tid.y;
mov.u32 %{prefix}s2, %ntid.x;
mad.lo.s32 %{prefix}s3, %{prefix}s1, %{prefix}s2, %{prefix}s0;
shr.u32 %{prefix}s4, %{prefix}s3, 5;
mov.u32 %{prefix}s5, %ctaid.x;
mov.u32 %{prefix}s6, %ctaid.y;
mad.lo.s32 %{prefix}s7, %{prefix}s6, 37, %{prefix}s5;
mad.lo.s32 %{prefix}s8, %{prefix}s7, 8, %{prefix}s4;
and.b32 %{prefix}s9, %{prefix}s8, {SLOTS - 1};
mul.wide.u32 %{prefix}w0, %{prefix}s9, {WORD};
mov.u64 %{prefix}w1, {symbol};
add.s64 %{prefix}row, %{prefix}w1, %{prefix}w0;
}}
{zeros}"""


def count_once(prefix: str, row: int) -> str:
    """One lane of those that are here adds how many they are."""
    return f"""\
{{
.reg .pred %{prefix}p;
.reg .b32 %{prefix}n<4>;
.reg .b64 %{prefix}k;
activemask.b32 %{prefix}n0;
mov.u32 %{prefix}n1, %lanemask_lt;
and.b32 %{prefix}n2, %{prefix}n0, %{prefix}n1;
setp.eq.u32 %{prefix}p, %{prefix}n2, 0;
popc.b32 %{prefix}n3, %{prefix}n0;
cvt.u64.u32 %{prefix}k, %{prefix}n3;
@%{prefix}p red.global.add.u64 [%{prefix}row+{row * SLOTS * WORD}], %{prefix}k;
}}
"""


def count_again(prefix: str, register: int) -> str:
    """In a loop: each thread counts for itself, in a register."""
    return f"add.s64 %{prefix}c{register}, %{prefix}c{register}, 1;\n"


def flush(prefix: str, rows: dict[int, int]) -> str:
    """Where threads leave: each register's sum over the lanes that leave together, added to its row."""
    if not rows:
        return ""
    body = "".join(_flush_one(prefix, register, row) for register, row in rows.items())
    return f"""\
{{
.reg .pred %{prefix}p;
.reg .b32 %{prefix}n<9>;
.reg .b64 %{prefix}k<8>;
activemask.b32 %{prefix}n0;
mov.u32 %{prefix}n1, %lanemask_lt;
and.b32 %{prefix}n2, %{prefix}n0, %{prefix}n1;
setp.eq.u32 %{prefix}p, %{prefix}n2, 0;
{body}}}
"""


def _flush_one(prefix: str, register: int, row: int) -> str:
    mask = (1 << _PIECE) - 1
    return f"""\
and.b64 %{prefix}k0, %{prefix}c{register}, {mask};
cvt.u32.u64 %{prefix}n3, %{prefix}k0;
redux.sync.add.u32 %{prefix}n4, %{prefix}n3, %{prefix}n0;
shr.u64 %{prefix}k1, %{prefix}c{register}, {_PIECE};
and.b64 %{prefix}k2, %{prefix}k1, {mask};
cvt.u32.u64 %{prefix}n5, %{prefix}k2;
redux.sync.add.u32 %{prefix}n6, %{prefix}n5, %{prefix}n0;
shr.u64 %{prefix}k3, %{prefix}c{register}, {2 * _PIECE};
cvt.u32.u64 %{prefix}n7, %{prefix}k3;
redux.sync.add.u32 %{prefix}n8, %{prefix}n7, %{prefix}n0;
cvt.u64.u32 %{prefix}k4, %{prefix}n4;
cvt.u64.u32 %{prefix}k5, %{prefix}n6;
cvt.u64.u32 %{prefix}k6, %{prefix}n8;
shl.b64 %{prefix}k5, %{prefix}k5, {_PIECE};
shl.b64 %{prefix}k6, %{prefix}k6, {2 * _PIECE};
add.s64 %{prefix}k4, %{prefix}k4, %{prefix}k5;
add.s64 %{prefix}k4, %{prefix}k4, %{prefix}k6;
@%{prefix}p red.global.add.u64 [%{prefix}row+{row * SLOTS * WORD}], %{prefix}k4;
"""


def first_time(prefix: str) -> str:
    """Before anything else: start the stopwatch of the whole kernel. It runs from minus now, as each of them does."""
    return f"""\
.reg .b64 %{prefix}c0;
{{
.reg .b64 %{prefix}t;
mov.u64 %{prefix}t, %clock64;
neg.s64 %{prefix}c0, %{prefix}t;
}}
"""


def add_time(prefix: str, register: int) -> str:
    """Stop a stopwatch: what was noted and now make the cycles between."""
    return f"""\
{{
.reg .b64 %{prefix}t;
mov.u64 %{prefix}t, %clock64;
add.s64 %{prefix}c{register}, %{prefix}c{register}, %{prefix}t;
}}
"""
