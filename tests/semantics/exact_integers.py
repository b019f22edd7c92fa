"""Integer instructions on Python's own integers, after the text of the PTX ISA 9.0: the oracle for the semantics."""

from __future__ import annotations

from collections.abc import Callable


def signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> (width - 1) else x


def _clamped(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def evaluate(opcode: str, words: frozenset[str], types: tuple[str, ...], s: tuple[int, ...]) -> int | None:
    """The result as a signed or unsigned integer (the caller keeps the low bits); None where this oracle is silent."""
    width = int(types[0][1:])
    values = tuple(signed(x, width) for x in s) if types[0][0] == "s" else s
    addend = (s if "wide" in words else values)[-1]
    table: dict[str, Callable[[], int | None]] = {
        "add": lambda: _saturated(values[0] + values[1], words, width),
        "sub": lambda: _saturated(values[0] - values[1], words, width),
        "mul": lambda: _product(values[0] * values[1], words, width),
        "mad": lambda: _saturated(_product(values[0] * values[1], words, width) + addend, words, width),
        "mul24": lambda: _product24(values, types[0], words),
        "mad24": lambda: _saturated(_product24(values, types[0], words) + values[2], words, width),
        "sad": lambda: values[2] + abs(values[0] - values[1]),
        "div": lambda: _quotient(values[0], values[1]),
        "rem": lambda: values[0] - values[1] * _quotient(values[0], values[1]),
        "abs": lambda: abs(values[0]),
        "neg": lambda: -values[0],
        "min": lambda: _relu(min(values), words),
        "max": lambda: _relu(max(values), words),
        "and": lambda: s[0] & s[1],
        "or": lambda: s[0] | s[1],
        "xor": lambda: s[0] ^ s[1],
        "not": lambda: ~s[0],
        "cnot": lambda: int(s[0] == 0),
        "shl": lambda: s[0] << min(s[1], width),
        "shr": lambda: values[0] >> min(s[1], width),
        "popc": lambda: s[0].bit_count(),
        "clz": lambda: width - s[0].bit_length(),
        "brev": lambda: int(f"{s[0]:0{width}b}"[::-1], 2),
        "bfind": lambda: _bfind(values[0], width, words),
        "bfe": lambda: _bfe(s, types[0], width),
        "bfi": lambda: _bfi(s, width),
        "shf": lambda: _funnel(s, words),
        "prmt": lambda: _permute(s) if not words - {"b32"} else None,
        "dp4a": lambda: _dot(s, types),
        "szext": lambda: _szext(s, types[0], words),
        "bmsk": lambda: _bmsk(s, words),
        "fns": lambda: _nth_set(s[0], s[1], signed(s[2], 32)),
    }
    if opcode[-1] in "24" and opcode not in ("mul24", "mad24"):
        return _video(opcode, words, types, s)
    return table[opcode]() if opcode in table else None


def _saturated(x: int, words: frozenset[str], width: int) -> int:
    return _clamped(x, -(1 << (width - 1)), (1 << (width - 1)) - 1) if "sat" in words else x


def _product(x: int, words: frozenset[str], width: int) -> int:
    return x >> width if "hi" in words else x


def _product24(values: tuple[int, ...], type_: str, words: frozenset[str]) -> int:
    factors = [v & 0xFFFFFF for v in values[:2]]
    if type_[0] == "s":
        factors = [signed(f, 24) for f in factors]
    product = factors[0] * factors[1]
    return product >> 16 if "hi" in words else product


def _relu(x: int, words: frozenset[str]) -> int:
    return max(x, 0) if "relu" in words else x


def _bfind(x: int, width: int, words: frozenset[str]) -> int:
    magnitude = ~x if x < 0 else x
    if magnitude == 0:
        return 0xFFFFFFFF
    at = magnitude.bit_length() - 1
    return width - 1 - at if "shiftamt" in words else at


def _bfe(s: tuple[int, ...], type_: str, width: int) -> int:
    mask = 0xFF if width == 32 else 0xFFFFFFFF
    position, length = s[1] & mask, s[2] & mask
    top = width - 1
    fill = 0
    if type_[0] == "s" and length:
        fill = s[0] >> min(position + length - 1, top) & 1
    out = 0
    for i in range(width):
        bit = s[0] >> (position + i) & 1 if i < length and position + i <= top else fill
        out |= bit << i
    return out


def _bfi(s: tuple[int, ...], width: int) -> int:
    mask = 0xFF if width == 32 else 0xFFFFFFFF
    position, length = s[2] & mask, s[3] & mask
    out = s[1]
    for i in range(min(length, width)):
        if position + i < width:
            out = out & ~(1 << (position + i)) | (s[0] >> i & 1) << (position + i)
    return out


def _funnel(s: tuple[int, ...], words: frozenset[str]) -> int:
    n = s[2] & 31 if "wrap" in words else min(s[2], 32)
    both = s[1] << 32 | s[0]
    return both << n >> 32 if "l" in words else both >> n


def _permute(s: tuple[int, ...]) -> int:
    octets = [s[0] >> (8 * i) & 0xFF for i in range(4)] + [s[1] >> (8 * i) & 0xFF for i in range(4)]
    out = 0
    for i in range(4):
        selector = s[2] >> (4 * i) & 0xF
        octet = octets[selector & 7]
        if selector & 8:
            octet = 0xFF if octet & 0x80 else 0
        out |= octet << (8 * i)
    return out


def _dot(s: tuple[int, ...], types: tuple[str, ...]) -> int:
    total = s[2]
    for i in range(4):
        a, b = (x >> (8 * i) & 0xFF for x in s[:2])
        total += (signed(a, 8) if types[0][0] == "s" else a) * (signed(b, 8) if types[1][0] == "s" else b)
    return total


def _szext(s: tuple[int, ...], type_: str, words: frozenset[str]) -> int:
    n = s[1] & 31 if "wrap" in words else min(s[1], 32)
    value = s[0] & ((1 << n) - 1)
    return signed(value, n) if type_[0] == "s" and n else value


def _bmsk(s: tuple[int, ...], words: frozenset[str]) -> int:
    start, length = (x & 31 if "wrap" in words else min(x, 32) for x in s)
    return ((1 << length) - 1) << start


def _nth_set(mask: int, base: int, offset: int) -> int:
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [p for p in places if mask >> p & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF


def _video(opcode: str, words: frozenset[str], types: tuple[str, ...], s: tuple[int, ...]) -> int:
    count = int(opcode[-1])
    w = 32 // count
    relation = next((r for r in ("eq", "ne", "lt", "le", "gt", "ge") if r in words), "")
    elements = []
    for i in range(count):
        a, b = (x >> (w * i) & ((1 << w) - 1) for x in s[:2])
        a, b = (signed(x, w) if t[0] == "s" else x for x, t in zip((a, b), types[-2:], strict=True))
        element = {
            "vadd": a + b,
            "vsub": a - b,
            "vavrg": (a + b + (a + b >= 0)) >> 1,
            "vmin": min(a, b),
            "vmax": max(a, b),
            "vabsdiff": abs(a - b),
            "vset": {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}.get(relation, 0),
        }[opcode[:-1]]
        elements.append(int(element) & ((1 << w) - 1))
    if "add" in words:
        return s[2] + sum(signed(e, w) if types[0][0] == "s" else e for e in elements)
    return sum(e << (w * i) for i, e in enumerate(elements))


def pack(result: str, s: tuple[int, ...]) -> int:
    """cvt.pack.sat from s32"""
    w = int(result[1:])
    high, low = (convert(result, "s32", True, x) & ((1 << w) - 1) for x in s[:2])
    return (high << w | low | (s[2] << (2 * w) if len(s) == 3 else 0)) & 0xFFFFFFFF


def convert(result: str, source: str, saturate: bool, bits: int) -> int:
    """cvt between integers."""
    value = signed(bits, int(source[1:])) if source[0] == "s" else bits
    width = int(result[1:])
    if saturate:
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if result[0] == "s" else (0, (1 << width) - 1)
        value = _clamped(value, low, high)
    return value


def compares(relation: str, a: int, b: int, type_: str) -> bool:
    width = int(type_[1:])
    if type_[0] == "s":
        a, b = signed(a, width), signed(b, width)
    relation = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(relation, relation)
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[relation]
