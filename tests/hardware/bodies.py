"""Kernel bodies for the instructions that touch memory or other threads: see variants.py for the notation."""

from __future__ import annotations

import re

EXCHANGE = "xor.b32 %at, %me, 16; mad.lo.u32 %at, %at, 16, %base; ld.shared.b32 d0.32, [%at]"
"""Reads what a thread of the same warp stored."""


_OTHER_ROW = "xor.b32 %at, %me, 3; mad.lo.u32 %at, %at, 16, %base;"
"""The place of another thread of the warp, so that rows come in an order of their own."""


def build(word: str, name: str) -> str:
    """The body for a pattern's word in capitals and an instruction's full opcode."""
    makers = {
        "CARRY": _carry,
        "GENERIC": _generic,
        "ATOM": _atom,
        "SHUFFLE": _shuffle,
        "MATCH": _match,
        "MASKED": _masked,
        "LDMATRIX": _ldmatrix,
        "STMATRIX": _stmatrix,
        "CPASYNC": _copy,
    }
    kind = word.split()[0]
    return _mma(name, word) if kind == "MMA" else makers[kind](name)


def _width(name: str) -> int:
    found = re.findall(r"\.[busf](8|16|32|64)\b", name)
    return int(found[-1]) if found else 32


def _carry(name: str) -> str:
    w = _width(name)
    mode, type_ = name.split(".")[1], name.split(".")[3]
    return (
        f"mad.{mode}.cc.{type_} d0.{w}, s0.{w}, s1.{w}, s2.{w}; madc.hi.cc.{type_} d1.{w}, s0, s1, s3.{w};"
        f" madc.lo.{type_} d2.{w}, s2, s3, s1; addc.{type_} d3.{w}, s2, s0"
    )


def _generic(name: str) -> str:
    opcode, *rest = name.split(".")
    if opcode in ("ld", "st"):
        load = (
            "cvt.u64.u32 %long, SHARED; cvta.shared.u64 %long, %long; {st} [%long], s0.32; {ld} d0.32, [%long];"
            " {st} [GLOBAL], s1.32; {ld} d1.32, [GLOBAL]"
        )
        return load.format(st=name if opcode == "st" else "st.b32", ld=name if opcode == "ld" else "ld.b32")
    space = next(r for r in rest if r in ("shared", "local", "global"))
    if opcode == "isspacep":
        return (
            "cvt.u64.u32 %long, SHARED; cvta.shared.u64 %long, %long; OP d0.1, %long; OP d1.1, GLOBAL;"
            " mov.b64 %long, own; cvta.local.u64 %long, %long; OP d2.1, %long; selp.b32 d3.32, 1, 0, s0.1"
        )
    start = "cvt.u64.u32 %long, SHARED" if space == "shared" else "mov.b64 %long, own"
    return (
        f"{start}; cvta.{space}.u64 %other, %long; st.b32 [%other], s0.32; cvta.to.{space}.u64 %other, %other;"
        f" ld.{space}.b32 d0.32, [%other]; sub.s64 d1.64, %other, %long"
    )


def _atom(name: str) -> str:
    """On the thread's own word: the result, and what the word holds afterwards."""
    place = "[SHARED]" if ".shared" in name else "[GLOBAL]"
    space = "shared" if ".shared" in name else "global"
    last = name.split(".")[-1]
    w = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}.get(last) or _width(name)
    kind = {"f32": "f", "f64": "f", "f16": "H", "bf16": "B", "f16x2": "h", "bf16x2": "b"}.get(last, "")
    operands = f"{place}, s1.{w}{kind}" + (f", s2.{w}" if ".cas" in name else "")
    target = "" if name.startswith("red") else f"d1.{w}, "
    # half of the rows compare equal
    prepare = f"and.b32 %at, %me, 1; setp.eq.u32 %flag, %at, 0; selp.b{w} s1, s0, s1, %flag; " if ".cas" in name else ""
    return f"{prepare}st.{space}.b{w} {place}, s0.{w}{kind}; OP {target}{operands}; ld.{space}.b{w} d0.{w}, {place}"


def _shuffle(name: str) -> str:
    """Four segment shapes; the lane operand is constant in half of them."""
    clamps = ("0", "0x1800", "0x1C04") if ".up" in name else ("31", "0x181F", "0x1C07")
    steps = [f"OP d{2 * i}.32|d{2 * i + 1}.1, s0.32, {lane}, {c}, 0xFFFFFFFF"
             for i, (lane, c) in enumerate(zip(("1", "s1.32n", "s2.32n"), clamps, strict=True))]  # fmt: skip
    return "; ".join(steps)


def _match(name: str) -> str:
    w = _width(name)
    narrow = f"and.b{w} s0, s0.{w}, 3; and.b{w} %m, s0, 0; setp.ge.u32 %flag, %me, 256; selp.b{w} s0, %m, s0, %flag; "
    narrow = f".reg .b{w} %m; " + narrow
    return narrow + ("OP d0.32|d1.1, s0, 0xFFFFFFFF" if ".all" in name else "OP d0.32, s0, 0xFFFFFFFF")


def _masked(name: str) -> str:
    """Under a guard that only some lanes pass: the lowest, or those of one parity."""
    if name.startswith("elect"):
        return "OP d0.32|d1.1, 0xFFFFFFFF"
    return "and.b32 %at, %me, 3; setp.ne.u32 %flag, %at, 1; mov.b32 d0.32, 7; @%flag bra $MEET; OP d0; $MEET: "


def _ldmatrix(name: str) -> str:
    count = int(name.split(".x")[1][0])
    targets = ", ".join(f"d{i}.32" for i in range(count))
    return (
        "st.shared.v4.b32 [SHARED], {s0.32, s1.32, s2.32, s3.32}; bar.sync 0; "
        + _OTHER_ROW
        + f" OP {{{targets}}}, [%at]"
    )


def _stmatrix(name: str) -> str:
    count = int(name.split(".x")[1][0])
    sources = ", ".join(f"s{i}.32" for i in range(count))
    fill = f"s{count}"
    clear = f"st.shared.v4.b32 [SHARED], {{{fill}.32, {fill}, {fill}, {fill}}}; bar.sync 0; " + _OTHER_ROW + " "
    return clear + f"OP [%at], {{{sources}}}; bar.sync 0; ld.shared.v4.b32 {{d0.32, d1.32, d2.32, d3.32}}, [SHARED]"


def _copy(name: str) -> str:
    fill = "st.global.v4.b32 [GLOBAL], {s0.32, s1.32, s2.32, s3.32}; st.shared.v4.b32 [SHARED], {s3, s3, s3, s3}; "
    size = "16" if ".cg" in name else "8"
    partly = "and.b32 %at, %me, 4; "
    return (
        f"{fill}{partly}OP [SHARED], [GLOBAL], {size}, %at; cp.async.commit_group; cp.async.wait_group 0;"
        " ld.shared.v4.b32 {d0.32, d1.32, d2.32, d3.32}, [SHARED]"
    )


def _mma(name: str, word: str) -> str:
    """``word`` gives the registers of a thread for d, a, b and c: those of PTX ISA 9.0, section 9.7.14."""
    accumulator, kinds = ".f16.f16.f16.f16", {}
    counts = [int(n) for n in word.split()[1:]]
    if name.endswith(accumulator):
        counts = [2, 4, 2, 2] if "k16" in name else [2, 2, 1, 2]
        kinds = dict.fromkeys("dabc", "32h")
    elif ".f64" in name:
        kinds = dict.fromkeys("dabc", "64f")
    elif ".tf32" in name:
        kinds = {"d": "32f", "a": "32t", "b": "32t", "c": "32f"}
    elif ".f32" in name:
        small = "32h" if ".f16" in name else "32b"
        kinds = {"d": "32f", "a": small, "b": small, "c": "32f"}
    else:
        kinds = dict.fromkeys("dabc", "32")
    d, a, b, c = counts
    groups, at = [], 0
    groups.append(", ".join(f"d{i}.{kinds['d'][:2]}" for i in range(d)))
    for letter, count in (("a", a), ("b", b), ("c", c)):
        groups.append(", ".join(f"s{at + i}.{kinds[letter]}" for i in range(count)))
        at += count
    return "OP " + ", ".join("{" + g + "}" for g in groups)
