"""The instruction table of PTX: one row for every form of every opcode, and the questions asked of it.

After the PTX ISA 9.0, chapter 9 and chapter 10 (special registers). Everything else in hybridcc that needs to know
what an instruction reads, writes or does asks here; what its result is, is in semantics/.

How to read a row, ``F("d:t u:t u:u32", "effects", when=".sync", ...)``:

operand roles, in order: ``d`` written, ``b`` read and written, ``u`` read, ``m`` memory address, ``i`` immediate,
``l`` label, ``t`` label of a table; a following ``?`` marks an operand that may be absent, ``*`` any number.
The type after ``:`` is what the operand must have: ``t`` or ``t0`` the first type among the modifiers, ``t1`` the
second …, ``w`` twice as wide as ``t``, ``any`` no rule, or a type by name; with ``~`` in place of ``:`` the register
may also be wider (ISA 9.4.1, operand size exceeding instruction-type size).
``when``: modifiers that select the row, all of them; the first row that fits is taken.
``ptx`` and ``sm``: the least version and architecture the ISA gives for the form.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, TypeAlias

from hybridcc.ptx.nodes import (
    Address,
    ArgumentList,
    BracketList,
    Immediate,
    Indexed,
    Instruction,
    Member,
    Name,
    Not,
    Operand,
    Pair,
    SymbolOffset,
    Vector,
)


class Effect(StrEnum):
    """What an instruction does besides writing its destination registers from its source registers."""

    READ = "read"
    """Reads memory."""
    WRITE = "write"
    """Writes memory."""
    ATOMIC = "atomic"
    """Reads and writes memory in one step (READ and WRITE are set too), or accesses it with acquire or release."""
    VOLATILE = "volatile"
    """May be neither dropped, repeated nor moved: volatile or ordered access, timing, debugging."""
    BARRIER = "barrier"
    """Waits for, or announces itself to, other threads."""
    FENCE = "fence"
    """Orders memory accesses."""
    CONVERGENT = "convergent"
    """Means something else when other threads of the warp execute it, so it stays under the same control."""
    CONTROL = "control"
    """Branches within the function."""
    CALL = "call"
    EXIT = "exit"
    """Leaves the function: ret, exit, trap."""
    ASYNC = "async"
    """Starts or awaits something that goes on beside the thread."""
    CLOCK = "clock"
    """Reads a special register that changes while the thread runs."""
    CARRY_IN = "carry in"
    """Reads the condition-code register CC.CF."""
    CARRY_OUT = "carry out"
    """Writes the condition-code register CC.CF."""
    STATE = "state"
    """Changes state that is neither memory nor a register: register budget, stack."""
    HINT = "hint"
    """May speed up memory; never changes a result."""
    UNKNOWN = "unknown"
    """Not in this table: anything may happen."""


class Rounding(StrEnum):
    """What is promised about a floating-point result."""

    NONE = "none"
    """Not floating-point, or only bits moved."""
    EXACT = "exact"
    """Correctly rounded (IEEE 754) or exact: every implementation gives the same bits."""
    CONTRACTIBLE = "contractible"
    """Correctly rounded unless the assembler fuses it with its neighbour (no rounding modifier given)."""
    APPROXIMATE = "approximate"
    """Within an error bound of the ISA; the bits are the hardware's."""
    UNDOCUMENTED = "undocumented"
    """Accumulation order and rounding are not documented (floating-point mma)."""


Role: TypeAlias = Literal["d", "b", "u", "m", "i", "l", "t"]


@dataclass(frozen=True, slots=True)
class OperandRule:
    """One operand of a form; see the module's docstring for role and type."""

    role: Role
    type: str
    wider: bool = False
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """One way of using an opcode. ``least_ptx`` is (major, minor); ``least_sm`` 0 means every architecture."""

    when: tuple[str, ...]
    operands: tuple[OperandRule, ...]
    effects: frozenset[Effect]
    rounding: Rounding
    least_ptx: tuple[int, int]
    least_sm: int
    arch_specific: bool
    """Only on the very architecture (sm_90a), not on later ones."""


@dataclass(frozen=True, slots=True)
class Opcode:
    name: str
    summary: str
    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Requirement:
    """The least PTX version and architecture for one instruction."""

    ptx: tuple[int, int]
    sm: int
    arch_specific: bool = False


# --- the table ------------------------------------------------------------------------------------------

_EFFECT_WORDS = {e.value.replace(" ", "-"): e for e in Effect}
_ROUNDINGS = {r.value: r for r in Rounding}


def _rule(text: str) -> OperandRule:
    optional, repeated = text.endswith("?"), text.endswith("*")
    text = text.rstrip("?*")
    wider = "~" in text
    role, _, type_ = text.replace("~", ":").partition(":")
    return OperandRule(role, type_ or "any", wider, optional, repeated)  # type: ignore[arg-type]


def F(
    operands: str,
    words: str = "",
    *,
    when: str = "",
    ptx: tuple[int, int] = (1, 0),
    sm: int = 0,
    only: bool = False,
) -> Form:
    """One row. ``words`` are effects and at most one rounding."""
    given = words.split()
    rounding = [_ROUNDINGS[w] for w in given if w in _ROUNDINGS]
    return Form(
        tuple(when.split()),
        tuple(_rule(o) for o in operands.split()),
        frozenset(_EFFECT_WORDS[w] for w in given if w not in _ROUNDINGS),
        rounding[0] if rounding else Rounding.NONE,
        ptx,
        sm,
        only,
    )


_ROWS: dict[str, tuple[str, tuple[Form, ...]]] = {}


def _op(names: str, summary: str, *forms: Form) -> None:
    for name in names.split():
        _ROWS[name] = (summary, forms)


_V20 = (2, 0)
_UNARY, _BINARY, _TERNARY = "d:t u:t", "d:t u:t u:t", "d:t u:t u:t u:t"

# Integer arithmetic (9.7.1) and extended precision (9.7.2)
_op(
    "add sub",
    "sum, difference",
    F(_BINARY, "carry-out", when=".cc", ptx=(1, 2)),
    F(_BINARY, "contractible"),
)
_op("addc subc", "sum, difference with carry", F(_BINARY, "carry-in", ptx=(1, 2)))
_op("mul", "product", F("d:w u:t u:t", when=".wide"), F(_BINARY, "contractible"))
_op(
    "mad",
    "product and sum",
    F("d:w u:t u:t u:w", when=".wide"),
    F(_TERNARY, "carry-out", when=".cc", ptx=(3, 0), sm=20),
    F(_TERNARY, "exact"),
)
_op("madc", "product and sum with carry", F(_TERNARY, "carry-in", ptx=(3, 0), sm=20))
_op("mul24", "product of 24-bit integers", F(_BINARY))
_op("mad24", "product of 24-bit integers and sum", F(_TERNARY))
_op("sad", "sum of the absolute difference", F("d:t u:t u:t u:t"))
_op(
    "div",
    "quotient",
    F(_BINARY, "approximate", when=".approx"),
    F(_BINARY, "approximate", when=".full"),
    F(_BINARY, "exact"),
)
_op("rem", "remainder", F(_BINARY))
_op("abs neg", "absolute value, negation", F(_UNARY, "exact"))
_op(
    "min max",
    "minimum, maximum",
    F("d:t u:t u:t", "exact"),
    F("d:t u:t u:t u:t", "exact", ptx=(8, 8), sm=100),
)
_op("popc clz", "count of ones, of leading zeros", F("d:u32 u:t", ptx=_V20, sm=20))
_op("bfind", "the most significant non-sign bit", F("d:u32 u:t", ptx=_V20, sm=20))
_op("fns", "the n-th set bit", F("d:b32 u:b32 u:u32 u:s32", ptx=(6, 0), sm=30))
_op("brev", "bits in reverse order", F(_UNARY, ptx=_V20, sm=20))
_op("bfe", "bit field out of a word", F("d:t u:t u:u32 u:u32", ptx=_V20, sm=20))
_op("bfi", "bit field into a word", F("d:t u:t u:t u:u32 u:u32", ptx=_V20, sm=20))
_op("szext", "sign- or zero-extension from a bit", F("d:t u:t u:u32", ptx=(7, 6), sm=70))
_op("bmsk", "mask of bits", F("d:u32 u:u32 u:u32", ptx=(7, 6), sm=70))
_op("dp4a dp2a", "dot product of bytes and accumulate", F("d:any u:u32 u:u32 u:any", ptx=(5, 0), sm=61))

# Floating point (9.7.3 to 9.7.5)
_op("testp", "class of a floating-point number", F("d:pred u:t", ptx=_V20, sm=20))
_op("copysign", "sign of one number on another", F(_BINARY, "exact", ptx=_V20, sm=20))
_op("fma", "product and sum, rounded once", F(_TERNARY, "exact", ptx=(1, 4)))
_op("rcp sqrt", "reciprocal, square root", F(_UNARY, "approximate", when=".approx"), F(_UNARY, "exact"))
_op("rsqrt", "reciprocal square root", F(_UNARY, "approximate"))
_op("sin cos lg2 ex2", "elementary function", F(_UNARY, "approximate"))
_op("tanh", "hyperbolic tangent", F(_UNARY, "approximate", ptx=(7, 0), sm=75))

# Comparison and selection (9.7.6)
_op(
    "set",
    "comparison as a number",
    *(F("d:t0 u:t1 u:t1 u:pred", when=logic) for logic in (".and", ".or", ".xor")),
    F("d:t0 u:t1 u:t1"),
)
_op(
    "setp",
    "comparison as a predicate",
    *(F("d:pred u:t u:t u:pred", when=logic) for logic in (".and", ".or", ".xor")),
    F("d:pred u:t u:t"),
)
_op("selp", "one of two by a predicate", F("d:t u:t u:t u:pred"))
_op("slct", "one of two by a sign", F("d:t0 u:t0 u:t0 u:t1"))

# Logic and shifts (9.7.8)
_op("and or xor", "bitwise logic", F(_BINARY))
_op("not cnot", "bitwise and logical negation", F(_UNARY))
_op("lop3", "any logic of three", F("d:b32 u:b32 u:b32 u:b32 i u:pred?", ptx=(4, 3), sm=50))
_op("shl shr", "shift", F("d:t u:t u:u32"))
_op("shf", "shift of a double word", F("d:b32 u:b32 u:b32 u:u32", ptx=(3, 1), sm=32))

# Data movement and conversion (9.7.9)
_op("mov", "copy; pack and unpack; address of a variable", F("d:t u:t"))
_op("prmt", "bytes by selector", F("d:b32 u:b32 u:b32 u:b32", ptx=_V20, sm=20))
_op("ld", "load", F("d~t m u:b64?", "read"))
_op("ldu", "load of data the whole warp reads alike", F("d~t m", "read", ptx=_V20, sm=20))
_op(
    "st",
    "store",
    F("m u:any u:any?  u:any?", "write volatile async", when=".async", ptx=(8, 1), sm=90),
    F("m u:u64 u:any", "write async", when=".bulk", ptx=(8, 6), sm=100),
    F("m u~t u:b64?", "write"),
)
_op(
    "multimem",
    "access to several memories at once",
    F("d:t m", "read volatile", when=".ld_reduce", ptx=(8, 1), sm=90),
    F("m u:t", "write volatile", when=".st", ptx=(8, 1), sm=90),
    F("m u:t", "read write atomic volatile", when=".red", ptx=(8, 1), sm=90),
    F("m m u:u32 u*", "read write async", when=".cp", ptx=(9, 0), sm=90),
)
_op("prefetch", "hint to fetch", F("m", "hint", ptx=_V20, sm=20))
_op("prefetchu", "hint to fetch into the uniform cache", F("m", "hint", ptx=_V20, sm=20))
_op("applypriority", "hint to change eviction priority", F("m i", "hint", ptx=(7, 4), sm=80))
_op("discard", "gives up the content of memory", F("m i", "write", ptx=(7, 4), sm=80))
_op(
    "createpolicy",
    "cache policy",
    F("d:u64 u u?", when=".cvt", ptx=(7, 4), sm=80),
    F("d:u64 m u:u32 u:u32 u:f32?", when=".range", ptx=(7, 4), sm=80),
    F("d:u64 u:f32?", ptx=(7, 4), sm=80),
)
_op("isspacep", "whether an address lies in a space", F("d:pred u:any", ptx=_V20, sm=20))
_op("cvta", "address to generic and back", F("d:t u:t", ptx=_V20, sm=20))
_op(
    "cvt",
    "conversion",
    F("d:any u:any u:any u:any?", when=".pack", ptx=(6, 5), sm=72),
    *(
        F("d:t0 u:t1 u:any? u:any? u:any? u:any?", "exact", when=alternate)
        for alternate in (".bf16", ".bf16x2", ".tf32", ".e4m3x2", ".e5m2x2")
    ),
    F("d~t0 u~t1 u:any? u:any? u:any? u:any?", "exact"),
)
_op("mapa", "address in another block of the cluster", F("d:t u:any u:u32", ptx=(7, 8), sm=90))
_op("getctarank", "rank of the block that owns an address", F("d:u32 u:t", ptx=(7, 8), sm=90))
_op("istypep", "whether a reference is of a type", F("d:pred u:any", ptx=(4, 0), sm=30))
_op("alloca", "memory on the stack", F("d:any u:any i?", "state", ptx=(7, 3), sm=52))
_op("stacksave", "the stack pointer", F("d:any", "state", ptx=(7, 3), sm=52))
_op("stackrestore", "sets the stack pointer", F("u:any", "state", ptx=(7, 3), sm=52))

# Asynchronous copies (9.7.9.25 to 9.7.9.27)
_op(
    "cp",
    "asynchronous copy",
    F("", "async", when=".async .commit_group", ptx=(7, 0), sm=80),
    F("", "async", when=".async .bulk .commit_group", ptx=(8, 0), sm=90),
    F("i", "async fence", when=".async .bulk .wait_group", ptx=(8, 0), sm=90),
    F("i", "async fence", when=".async .wait_group", ptx=(7, 0), sm=80),
    F("", "async fence", when=".async .wait_all", ptx=(7, 0), sm=80),
    F("m", "read write async", when=".async .mbarrier", ptx=(7, 0), sm=80),
    F("m", "hint async", when=".async .bulk .prefetch .tensor", ptx=(8, 0), sm=90),
    F("m u:u32 u:b64?", "hint async", when=".async .bulk .prefetch", ptx=(8, 0), sm=90),
    F("m m u*", "read write atomic async", when=".reduce .async .bulk", ptx=(8, 0), sm=90),
    F("m m u*", "read write async", when=".async .bulk", ptx=(8, 0), sm=90),
    F("m m i u:any? u:b64?", "read write async", when=".async", ptx=(7, 0), sm=80),
)
_op(
    "tensormap",
    "changes a tensor map",
    F("m u:any", "read write", when=".replace", ptx=(8, 3), sm=90, only=True),
    F("m i u:any", "read write", when=".replace", ptx=(8, 3), sm=90, only=True),
    F("m m i", "read write fence convergent", when=".cp_fenceproxy", ptx=(8, 3), sm=90),
)

# Textures and surfaces (9.7.10, 9.7.11)
_op("tex", "texture fetch", F("d:t0 m u* ", "read"))
_op("tld4", "four texels around a place", F("d:t0 m u*", "read", ptx=(2, 2), sm=20))
_op("txq suq", "property of a texture or surface", F("d:b32 m u:any?", ptx=(1, 5)))
_op("suld", "surface load", F("d:t m", "read", ptx=(1, 5)))
_op("sust", "surface store", F("m u:t", "write", ptx=(1, 5)))
_op("sured", "reduction on a surface", F("m u~t", "read write atomic", ptx=_V20, sm=20))

# Control flow (9.7.12)
_op("bra", "branch", F("l", "control"))
_op("brx", "branch by table", F("u:u32 t", "control", ptx=(6, 0), sm=30))
_op("call", "call of a function", F("u*", "call read write"))
_op("ret exit", "leaves the function, ends the thread", F("", "exit"))
_op("trap", "aborts the launch", F("", "exit volatile"))
_op("brkpt", "stops in the debugger", F("", "volatile"))
_op("pmevent", "triggers performance counters", F("i", "volatile", ptx=(1, 4)))
_op("nanosleep", "waits", F("u:u32", "volatile", ptx=(6, 3), sm=70))

# Synchronisation and communication (9.7.13)
_op(
    "bar barrier",
    "barrier of a block",
    F("u:u32", "barrier convergent fence", when=".warp", ptx=(6, 0), sm=30),
    F("", "barrier convergent fence", when=".cluster", ptx=(7, 8), sm=90),
    F("d:any u:u32 u:pred", "barrier convergent fence", when=".red", ptx=_V20, sm=20),
    F("d:any u:u32 u:u32 u:pred", "barrier convergent fence", when=".red", ptx=_V20, sm=20),
    F("u:u32 u:u32", "barrier convergent fence", when=".arrive", ptx=_V20, sm=20),
    F("u:u32 u:u32?", "barrier convergent fence"),
)
_op("membar", "memory fence", F("", "fence", ptx=(1, 4)))
_op("fence", "memory fence", F("m? i?", "fence", ptx=(6, 0), sm=70))
_op(
    "atom",
    "atomic operation",
    F("d:t m u:t u:t u:b64?", "read write atomic", when=".cas", ptx=(1, 1), sm=11),
    F("d:t m u:t u:b64?", "read write atomic", ptx=(1, 1), sm=11),
)
_op(
    "red",
    "atomic operation without a result",
    F("m u:t m u:any?", "read write atomic async", when=".async", ptx=(8, 1), sm=90),
    F("m u:t u:b64?", "read write atomic", ptx=(1, 2), sm=11),
)
_op(
    "vote",
    "vote of a warp",
    F("d:t u:pred u:u32", "convergent", when=".sync", ptx=(6, 0), sm=30),
    F("d:t u:pred", "convergent", ptx=(1, 2), sm=12),
)
_op("match", "lanes with an equal value", F("d:u32 u:t u:u32", "convergent", ptx=(6, 0), sm=70))
_op("activemask", "lanes that run together", F("d:b32", "convergent", ptx=(6, 2), sm=30))
_op(
    "redux",
    "reduction over a warp",
    F("d:f32 u:f32 u:u32", "convergent", when=".f32", ptx=(8, 6), sm=100, only=True),
    F("d:u32 u:u32 u:u32", "convergent", ptx=(7, 0), sm=80),
)
_op("elect", "one lane of a warp", F("d:any u:u32", "convergent", ptx=(8, 0), sm=90))
_op(
    "shfl",
    "exchange in a warp",
    F("d:b32 u:b32 u:b32 u:b32 u:u32", "convergent", when=".sync", ptx=(6, 0), sm=30),
    F("d:b32 u:b32 u:b32 u:b32", "convergent", ptx=(3, 0), sm=30),
)
_op("griddepcontrol", "order between dependent launches", F("", "async fence volatile", ptx=(7, 8), sm=90))
_op(
    "mbarrier",
    "barrier in memory",
    F("m u:u32", "read write", when=".init", ptx=(7, 0), sm=80),
    F("m", "read write", when=".inval", ptx=(7, 0), sm=80),
    F("d:any m u:u32", "read write atomic barrier async", when=".arrive .expect_tx", ptx=(8, 0), sm=90),
    F("d:any m u:u32", "read write atomic barrier async", when=".arrive_drop .expect_tx", ptx=(8, 0), sm=90),
    F("m u:u32", "read write atomic async", when=".expect_tx", ptx=(8, 0), sm=90),
    F("m u:u32", "read write atomic async", when=".complete_tx", ptx=(8, 0), sm=90),
    F("d:any u:u64", when=".pending_count", ptx=(7, 0), sm=80),
    F("d:any m u:any u:u32?", "read barrier volatile", when=".try_wait", ptx=(7, 8), sm=90),
    F("d:any m u:any", "read barrier volatile", when=".test_wait", ptx=(7, 0), sm=80),
    F("d:any m u:u32?", "read write atomic barrier", ptx=(7, 0), sm=80),
)
_op(
    "clusterlaunchcontrol",
    "takes work from a later block",
    F("m m", "read write async", when=".try_cancel", ptx=(8, 6), sm=100),
    F("d:any u:b128", when=".query_cancel", ptx=(8, 6), sm=100),
)

# Matrix instructions (9.7.14 to 9.7.16)
_op(
    "wmma",
    "matrix tile of a warp",
    F("d:any m u:u32?", "read convergent", when=".load", ptx=(6, 0), sm=70),
    F("m u:any u:u32?", "write convergent", when=".store", ptx=(6, 0), sm=70),
    F("d:any u:any u:any u:any", "convergent undocumented", when=".mma", ptx=(6, 0), sm=70),
)
_op("mma", "matrix product of a warp", F("d:any u:any u:any u:any u*", "convergent undocumented", ptx=(6, 4), sm=70))
_op("ldmatrix", "matrix load of a warp", F("d:any m", "read convergent", ptx=(6, 5), sm=75))
_op("stmatrix", "matrix store of a warp", F("m u:any", "write convergent", ptx=(7, 8), sm=90))
_op("movmatrix", "matrix transpose of a warp", F("d:b32 u:b32", "convergent", ptx=(7, 8), sm=75))
_op(
    "wgmma",
    "matrix product of a warp group",
    F("", "async fence convergent", when=".fence", ptx=(8, 0), sm=90, only=True),
    F("", "async convergent", when=".commit_group", ptx=(8, 0), sm=90, only=True),
    F("i", "async fence convergent", when=".wait_group", ptx=(8, 0), sm=90, only=True),
    F("b:any u*", "read async convergent undocumented", when=".mma_async", ptx=(8, 0), sm=90, only=True),
)
_op(
    "tcgen05",
    "tensor memory and its matrix product",
    F("m u:u32", "read write convergent barrier", when=".alloc", ptx=(8, 6), sm=100, only=True),
    F("u:u32 u:u32", "write convergent", when=".dealloc", ptx=(8, 6), sm=100, only=True),
    F("", "state convergent", when=".relinquish_alloc_permit", ptx=(8, 6), sm=100, only=True),
    F("d:any m u*", "read async convergent", when=".ld", ptx=(8, 6), sm=100, only=True),
    F("m u*", "write async convergent", when=".st", ptx=(8, 6), sm=100, only=True),
    F("", "async fence convergent", when=".wait::ld", ptx=(8, 6), sm=100, only=True),
    F("", "async fence convergent", when=".wait::st", ptx=(8, 6), sm=100, only=True),
    F("m u*", "read write async", when=".cp", ptx=(8, 6), sm=100, only=True),
    F("m", "read write async", when=".shift", ptx=(8, 6), sm=100, only=True),
    F("m u*", "read write async undocumented", when=".mma", ptx=(8, 6), sm=100, only=True),
    F("m u:any?", "read write async", when=".commit", ptx=(8, 6), sm=100, only=True),
    F("", "fence", when=".fence::before_thread_sync", ptx=(8, 6), sm=100, only=True),
    F("", "fence", when=".fence::after_thread_sync", ptx=(8, 6), sm=100, only=True),
)
_op("setmaxnreg", "changes the registers a warp has", F("i", "convergent state", ptx=(8, 0), sm=90, only=True))

# Video instructions (9.7.17)
_op(
    "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset",
    "operation on a selected byte or half",
    F("d:any u:any u:any u:any?", ptx=_V20, sm=20),
)
_op(
    "vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4",
    "operation on all halves or bytes",
    F("d:any u:any u:any u:any", ptx=(3, 0), sm=30),
)

OPCODES: Mapping[str, Opcode] = MappingProxyType(
    {name: Opcode(name, summary, forms) for name, (summary, forms) in _ROWS.items()}
)
"""Every opcode by its name."""

# --- what single modifiers need -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Feature:
    """Modifiers (all of them) that need more than the form they stand on; ``opcodes`` empty means any opcode.

    A word of two (".f32.bf16") means that one follows the other.
    """

    opcodes: tuple[str, ...]
    modifiers: tuple[str, ...]
    needs: Requirement


def _feature(opcodes: str, modifiers: str, ptx: tuple[int, int], sm: int) -> Feature:
    return Feature(tuple(opcodes.split()), tuple(modifiers.split()), Requirement(ptx, sm))


_PACKED_FLOAT = "add sub mul fma"
_FEATURES: tuple[Feature, ...] = (
    *(_feature("", word, (7, 0), 80) for word in (".bf16", ".bf16x2", ".tf32", ".relu", ".NaN")),
    _feature("", ".shared::cta", (7, 8), 30),
    *(_feature("", word, (7, 8), 90) for word in (".shared::cluster", ".cluster")),
    *(_feature("", word, (8, 3), 0) for word in (".param::func", ".param::entry")),
    *(_feature("", word, (8, 1), 89) for word in (".e4m3x2", ".e5m2x2")),
    _feature("", ".b128", (8, 3), 70),
    _feature("", ".xorsign", (7, 2), 86),
    _feature("", ".mmio", (8, 2), 70),
    _feature("", ".v8", (8, 8), 100),
    _feature("", ".f32x2", (8, 6), 100),
    _feature("", ".L2::cache_hint", (7, 4), 80),
    *(_feature("", f".L2::{size}", (7, 4), 75) for size in ("64B", "128B")),
    _feature("", ".L2::256B", (7, 4), 80),
    *(
        _feature("ld st", f".L1::{priority}", (7, 4), 70)
        for priority in ("no_allocate", "evict_normal", "evict_unchanged", "evict_first", "evict_last")
    ),
    *(_feature("ld st", order, (6, 0), 70) for order in (".relaxed", ".acquire", ".release")),
    *(_feature("atom red", order, (6, 0), 70) for order in (".relaxed", ".acquire", ".release", ".acq_rel")),
    *(_feature(_PACKED_FLOAT, half, (4, 2), 53) for half in (".f16", ".f16x2")),
    *(_feature("add sub mul", word, (7, 8), 90) for word in (".bf16", ".bf16x2")),
    *(_feature("add", word, (8, 0), 90) for word in (".u16x2", ".s16x2")),
    *(_feature("add sub fma", f"{half} .f32", (8, 6), 100) for half in (".f16", ".bf16")),
    *(_feature("min max", word, (8, 0), 90) for word in (".u16x2", ".s16x2", ".relu .s32", ".relu .s16x2")),
    *(_feature("min max", half, (7, 0), 80) for half in (".f16", ".f16x2")),
    *(_feature("neg", half, (6, 0), 53) for half in (".f16", ".f16x2")),
    *(_feature("abs", half, (6, 5), 53) for half in (".f16", ".f16x2")),
    *(_feature("set setp", half, (4, 2), 53) for half in (".f16", ".f16x2")),
    *(_feature("set setp", half, (7, 8), 90) for half in (".bf16", ".bf16x2")),
    *(_feature("tanh ex2", half, (7, 0), 75) for half in (".f16", ".f16x2")),
    *(_feature("tanh ex2", half, (7, 8), 90) for half in (".bf16", ".bf16x2")),
    _feature("cvta isspacep", ".param", (7, 7), 70),
    _feature("cvt", ".f16x2.f32", (7, 0), 80),
    _feature("cvt", ".f32.bf16", (7, 1), 80),
    _feature("mbarrier", ".shared::cluster", (8, 0), 90),
    *(_feature("lop3", logic, (8, 2), 70) for logic in (".and", ".or", ".xor")),
    _feature("bar barrier", ".cta", (7, 8), 30),
    *(_feature("barrier", f".cluster {order}", (8, 0), 90) for order in (".acquire", ".release", ".relaxed")),
    _feature("fence", ".proxy", (7, 5), 70),
    _feature("fence", ".proxy .async", (8, 0), 90),
    _feature("fence", ".mbarrier_init", (8, 0), 90),
    *(_feature("fence", f".proxy {way}", (8, 3), 90) for way in (".tensormap::generic", ".generic::tensormap")),
    _feature("prefetch", ".tensormap", (8, 0), 90),
    _feature("atom red", ".f64", (5, 0), 60),
    _feature("atom red", ".f16x2", (6, 2), 60),
    _feature("atom red", ".f16", (6, 3), 70),
    *(_feature("atom red", word, (7, 8), 90) for word in (".bf16", ".bf16x2")),
    *(_feature("atom red", word, (8, 1), 90) for word in (".v2", ".v4", ".v8")),
    _feature("atom", ".b128", (8, 3), 90),
    *(_feature("mma", shape, (6, 5), 75) for shape in (".m8n8k16", ".m8n8k32", ".m16n8k8")),
    *(_feature("mma", f".m16n8k{k}", (7, 0), 80) for k in (4, 16, 32, 64, 128, 256)),
    _feature("mma", ".f64", (7, 0), 80),
    *(_feature("mma", f".m16n8k{k} .f64", (7, 8), 90) for k in (4, 8, 16)),
    *(_feature("mma", word, (8, 4), 89) for word in (".e4m3", ".e5m2")),
    _feature("wmma", ".f64", (7, 0), 80),
    *(_feature("wmma", word, (6, 3), 72) for word in (".s8", ".u8")),
)
"""PTX ISA 9.0, the "PTX ISA Notes" and "Target ISA Notes" of each instruction; tests hold them against ptxas."""

# --- special registers (ISA chapter 10) -----------------------------------------------------------------

_U32 = """
%tid %ntid %ctaid %nctaid %laneid %warpid %nwarpid %smid %nsmid %clock %clock_hi %globaltimer_lo %globaltimer_hi
%lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt
%clusterid %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank %cluster_nctarank
%total_smem_size %aggr_smem_size %dynamic_smem_size
"""
_U64 = "%gridid %clock64 %globaltimer %current_graph_exec"
_B32 = """
%reserved_smem_offset_begin %reserved_smem_offset_end %reserved_smem_offset_cap
%reserved_smem_offset_0 %reserved_smem_offset_1
"""

SPECIAL_REGISTERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_U32.split(), ".u32"),
        **dict.fromkeys(_U64.split(), ".u64"),
        **dict.fromkeys(_B32.split(), ".b32"),
        **{f"%pm{n}": ".u32" for n in range(8)},
        **{f"%pm{n}_64": ".u64" for n in range(8)},
        **{f"%envreg{n}": ".b32" for n in range(32)},
        "%is_explicit_cluster": ".pred",
    }
)
"""Predefined registers by spelling (without .x .y .z) and their types."""

CHANGING_REGISTERS = frozenset(
    {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%warpid", "%smid"}
    | {f"%pm{n}" for n in range(8)}
    | {f"%pm{n}_64" for n in range(8)}
)
"""Special registers that may give another value at a second read."""


def is_special_register(operand: Operand | str) -> bool:
    """Whether a name (with or without .x .y .z .w) or an operand is a predefined read-only register."""
    match operand:
        case Name(text=name) | Member(name=name):
            return name in SPECIAL_REGISTERS
        case str():
            return operand.partition(".")[0] in SPECIAL_REGISTERS
    return False


def is_predefined(name: str) -> bool:
    """Whether the name has a meaning with no declaration: special registers, WARP_SZ, the sink ``_``."""
    return name == "WARP_SZ" or name == "_" or is_special_register(name)


# --- types ----------------------------------------------------------------------------------------------

_PACKED = {
    ".f16x2": 32,
    ".bf16x2": 32,
    ".s16x2": 32,
    ".u16x2": 32,
    ".f32x2": 64,
    ".bf16": 16,
    ".tf32": 32,
    ".pred": 1,
    ".e4m3x2": 16,
    ".e5m2x2": 16,
    ".ue8m0x2": 16,
    ".e2m1x2": 8,
    ".e2m3x2": 16,
    ".e3m2x2": 16,
    ".e4m3x4": 32,
    ".e5m2x4": 32,
    ".e2m1x4": 16,
    ".e2m3x4": 32,
    ".e3m2x4": 32,
}
_PLAIN = re.compile(r"\.[busf](8|16|32|64|128|1024)")


@lru_cache(maxsize=4096)
def bits(type_: str) -> int:
    """Width of a type such as ".f32" in bits; 0 for a word that is no type."""
    found = _PLAIN.fullmatch(type_)
    return int(found[1]) if found else _PACKED.get(type_, 0)


def types(instruction: Instruction) -> tuple[str, ...]:
    """The types among the modifiers, in order: (".f32", ".s32") for cvt.rn.f32.s32."""
    return tuple(m for m in instruction.modifiers if bits(m))


def operand_types(instruction: Instruction) -> tuple[str, ...]:
    """For each operand the type that it must have, "" where the table has no rule for it."""
    found = form(instruction)
    if found is None:
        return ("",) * len(instruction.operands)
    given = types(instruction)
    return tuple(type_of_rule(rule, given) for rule in _rules(found, len(instruction.operands)))


def type_of_rule(rule: OperandRule, given: tuple[str, ...]) -> str:
    """The type that an operand must have in an instruction with the types ``given``; "" if there is no rule."""
    word = rule.type
    if word == "any":
        return ""
    if word == "t" or (word[0] == "t" and word[1:].isdigit()):
        index = int(word[1:] or "0")
        return given[index] if index < len(given) else ""
    if word == "w":
        return f"{given[0][:2]}{2 * bits(given[0])}" if given else ""
    return "." + word


def accepts(declared: str, wanted: str, *, wider: bool = False) -> bool:
    """Whether a register declared as ``declared`` may stand where ``wanted`` is needed (ISA 9.4, table 28).

    Sizes agree (or the register is wider, if ``wider``); .b goes with everything; signed goes with unsigned;
    floating point goes only with its own type or .b; packed and alternate formats only with .b. As ptxas has it,
    which is stricter than the table in the ISA where floating point meets wider registers.
    """
    if not wanted or declared == wanted:
        return True
    have, need = bits(declared), bits(wanted)
    if have == 1 or need == 1:
        return False
    fits = have == need or (wider and have > need)
    if wanted in _PACKED:
        return declared[1] == "b" and (have == need or (fits and wanted == ".f16x2"))
    if declared[1] == "f":
        return fits and wanted[1] == "b"
    return fits and (declared[1] == "b" or wanted[1] != "f")


# --- questions ------------------------------------------------------------------------------------------


def lookup(instruction: Instruction) -> Opcode | None:
    """The table's row, None for an instruction that the table does not know."""
    opcode = OPCODES.get(instruction.opcode)
    return opcode if opcode is not None and form(instruction) is not None else None


def form(instruction: Instruction) -> Form | None:
    """The form of its opcode that this instruction has."""
    return _form(instruction.opcode, instruction.modifiers, len(instruction.operands))


@lru_cache(maxsize=8192)
def _form(opcode: str, modifiers: tuple[str, ...], count: int) -> Form | None:
    found = OPCODES.get(opcode)
    if found is None:
        return None
    for candidate in found.forms:
        if all(m in modifiers for m in candidate.when) and _fits(candidate, count):
            return candidate
    return None


def _fits(candidate: Form, count: int) -> bool:
    rules = candidate.operands
    least = sum(not (r.optional or r.repeated) for r in rules)
    return least <= count and (count <= len(rules) or any(r.repeated for r in rules))


def _rules(found: Form, count: int) -> tuple[OperandRule, ...]:
    """One rule for each of ``count`` operands."""
    rules = found.operands
    return rules[:count] if count <= len(rules) else rules + (rules[-1],) * (count - len(rules))


def requirement(instruction: Instruction) -> Requirement | None:
    """Least PTX version and architecture of its form and modifiers; None for an unknown instruction."""
    return _requirement(instruction.opcode, instruction.modifiers, len(instruction.operands))


@lru_cache(maxsize=8192)
def _requirement(opcode: str, modifiers: tuple[str, ...], count: int) -> Requirement | None:
    found = _form(opcode, modifiers, count)
    if found is None:
        return None
    ptx, sm = found.least_ptx, found.least_sm
    given = {*modifiers, *(first + second for first, second in pairwise(modifiers))}
    for feature in _FEATURES:
        if (not feature.opcodes or opcode in feature.opcodes) and given.issuperset(feature.modifiers):
            ptx, sm = max(ptx, feature.needs.ptx), max(sm, feature.needs.sm)
    return Requirement(ptx, sm, found.arch_specific)


def defs(instruction: Instruction) -> tuple[str, ...]:
    """Registers the instruction writes, without repeats; whether surely is is_conditional_def()'s answer.

    Of an instruction that the table does not know the first operand is taken as written.
    """
    return tuple(dict.fromkeys(_walk(instruction, "db", None)))


def uses(instruction: Instruction, registers: Container[str] | None = None) -> tuple[str, ...]:
    """Registers the instruction reads: sources, address registers, guard; without repeats.

    Registers are told from variables by ``registers`` where given, else by their ``%``: exact for the unique names
    of scopes.resolve(), and for any text whose register names begin with % as all compilers write them.
    """
    found = [instruction.guard.name] if instruction.guard is not None else []
    found.extend(_walk(instruction, "bum", registers))
    return tuple(dict.fromkeys(found))


def is_conditional_def(instruction: Instruction) -> bool:
    """Whether some register that defs() names may keep its old value, wholly or in part."""
    written = _walk(instruction, "db", None)
    return next(written, None) is not None and (
        instruction.guard is not None or form(instruction) is None or _writes_part(instruction)
    )


def effects(instruction: Instruction) -> frozenset[Effect]:
    """Everything the instruction does besides computing; for an unknown one whatever could go wrong."""
    found = _effects(instruction.opcode, instruction.modifiers, len(instruction.operands))
    if instruction.opcode == "mov" and _reads_changing(instruction):
        return found | {Effect.CLOCK}
    return found


_ORDERED = frozenset({".acquire", ".release", ".acq_rel", ".sc"})
_AS_WRITTEN = _ORDERED | {".volatile", ".mmio", ".relaxed"}
_UNKNOWN = frozenset({Effect.UNKNOWN, Effect.READ, Effect.WRITE, Effect.VOLATILE, Effect.CONVERGENT})


@lru_cache(maxsize=8192)
def _effects(opcode: str, modifiers: tuple[str, ...], count: int) -> frozenset[Effect]:
    found = _form(opcode, modifiers, count)
    if found is None:
        return _UNKNOWN
    more: set[Effect] = set()
    if found.effects & {Effect.READ, Effect.WRITE}:
        if not _ORDERED.isdisjoint(modifiers):
            more |= {Effect.ATOMIC, Effect.FENCE}
        if not _AS_WRITTEN.isdisjoint(modifiers):
            more.add(Effect.VOLATILE)
    if ".cc" in modifiers:
        more.add(Effect.CARRY_OUT)
    return found.effects | more


def rounding(instruction: Instruction) -> Rounding:
    """What is promised about the bits of the result."""
    found = form(instruction)
    given = types(instruction)
    if found is None or not any(t[1] == "f" or t.startswith((".bf", ".tf", ".e")) for t in given):
        return Rounding.NONE
    if found.rounding is Rounding.CONTRACTIBLE:
        explicit = any(m in (".rn", ".rz", ".rm", ".rp") for m in instruction.modifiers)
        return Rounding.EXACT if explicit else Rounding.CONTRACTIBLE
    return found.rounding


_SPACES = {
    ".global": ".global",
    ".shared": ".shared",
    ".shared::cta": ".shared",
    ".shared::cluster": ".shared",
    ".local": ".local",
    ".const": ".const",
    ".param": ".param",
    ".param::entry": ".param",
    ".param::func": ".param",
}
_TEXTURE = frozenset({"tex", "tld4", "suld", "sust", "sured"})
_SHARED_BY_NATURE = frozenset({"ldmatrix", "stmatrix", "mbarrier"})


def memory_spaces(instruction: Instruction) -> tuple[str, ...]:
    """The state spaces an instruction accesses, destination first; empty where generic or none at all."""
    if not effects(instruction) & {Effect.READ, Effect.WRITE, Effect.HINT}:
        return ()
    if instruction.opcode in _TEXTURE:
        return (".tex",)
    named = tuple(_SPACES[m] for m in instruction.modifiers if m in _SPACES)
    return named or ((".shared",) if instruction.opcode in _SHARED_BY_NATURE else ())


def memory_space(instruction: Instruction) -> str | None:
    """The state space accessed (".global", ".shared", … ".tex" for textures and surfaces); None for generic
    addressing and for no access. Of two (cp.async) the destination's."""
    found = memory_spaces(instruction)
    return found[0] if found else None


def branch_targets(instruction: Instruction) -> tuple[str, ...]:
    """The label of a bra, or the label of a brx's table."""
    found = form(instruction)
    if found is None or Effect.CONTROL not in found.effects:
        return ()
    pairs = zip(instruction.operands, found.operands, strict=False)
    return tuple(o.text for o, rule in pairs if rule.role in "lt" and isinstance(o, Name))


# --- walking operands -----------------------------------------------------------------------------------


def _walk(instruction: Instruction, roles: str, registers: Container[str] | None) -> Iterator[str]:
    operands = instruction.operands
    found = form(instruction)
    if instruction.opcode == "call":
        yield from _call(operands, roles, registers)
        return
    for index, operand in enumerate(operands):
        if found is None:
            role = "d" if index == 0 else "u"
        else:
            role = found.operands[min(index, len(found.operands) - 1)].role
        if role in "db":
            # An address in a destination's place is read, not written (and unknown instructions may have one).
            if isinstance(operand, (Address, BracketList)):
                if "u" in roles:
                    yield from _registers(operand, registers)
            elif role in roles or (role == "b" and ("d" in roles or "u" in roles)):
                yield from _registers(operand, registers, written="d" in roles)
        elif role in "um" and "u" in roles:
            yield from _registers(operand, registers)
    if found is None and "u" in roles and operands:
        yield from _registers(operands[0], registers)


def _call(operands: tuple[Operand, ...], roles: str, registers: Container[str] | None) -> Iterator[str]:
    """``call (results), function, (arguments), prototype;``: results and arguments are registers or parameters."""
    results = operands[:1] if operands and isinstance(operands[0], ArgumentList) else ()
    if "d" in roles:
        for operand in results:
            yield from _registers(operand, registers)
    if "u" in roles:
        for operand in operands[len(results) :]:
            yield from _registers(operand, registers)


def _registers(operand: Operand, registers: Container[str] | None, *, written: bool = False) -> Iterator[str]:
    match operand:
        case Name(text=name) | Member(name=name) | SymbolOffset(name=name):
            if name == "_":
                return
            if registers is not None:
                if name in registers:
                    yield name
            elif (written or name.startswith("%")) and name not in SPECIAL_REGISTERS:
                yield name
        case Address(base=base):
            if isinstance(base, Name):
                yield from _registers(base, registers)
        case Vector(items=items) | BracketList(items=items) | ArgumentList(items=items):
            for item in items:
                yield from _registers(item, registers, written=written)
        case Not(operand=inner):
            yield from _registers(inner, registers)
        case Pair(first=first, second=second):
            yield from _registers(first, registers, written=written)
            yield from _registers(second, registers, written=written)
        case Immediate() | Indexed():
            return


def _writes_part(instruction: Instruction) -> bool:
    """Whether a destination is one element of a vector register."""
    found = form(instruction)
    if found is None:
        return True
    pairs = zip(instruction.operands, found.operands, strict=False)
    return any(rule.role in "db" and isinstance(operand, Member) for operand, rule in pairs)


def _reads_changing(instruction: Instruction) -> bool:
    return any(
        (o.text if isinstance(o, Name) else o.name) in CHANGING_REGISTERS
        for o in instruction.operands
        if isinstance(o, (Name, Member))
    )


_SEQUENCES = frozenset({"div", "rem", "sqrt", "rcp"})


def is_sequence(instruction: Instruction) -> bool:
    """Whether the machine has no instruction for it and the assembler puts tens of them in its place: division and
    remainder, roots and reciprocals to the last bit (CUDA C++ Programming Guide 13.0, "Arithmetic Instructions")."""
    return instruction.opcode in _SEQUENCES and rounding(instruction) is not Rounding.APPROXIMATE
