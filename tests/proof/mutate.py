"""Wrong rewrites by the thousand: small changes to a right rewrite, of every kind that the prover must notice.

A mutant may still be right (a changed register that is dead, a bound that does not matter); who tells them apart
is the executor, never the mutator. Left out are only those that are the same by construction: a pure instruction
done twice, two independent ones exchanged, the operands of a sum of integers exchanged.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final, TypeAlias

from hybridcc.errors import PtxSyntaxError
from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.nodes import Instruction


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines ``first`` to ``last - 1`` become ``lines``."""

    first: int
    last: int
    lines: tuple[str, ...]

    def of(self, lines: list[str]) -> list[str]:
        return [*lines[: self.first], *self.lines, *lines[self.last :]]


Change: TypeAlias = Callable[[list[str], int], Iterator[Edit]]
"""Every change of one kind to one line."""

_OPERATORS: Final = {
    "add.s64": ("sub.s64", "and.b64", "max.s64"),
    "sub.s64": ("add.s64", "xor.b64"),
    "mul.lo.s64": ("add.s64", "mul.hi.s64"),
    "shl.b64": ("shr.u64", "add.s64"),
    "shr.s64": ("shr.u64", "shl.b64"),
    "and.b64": ("or.b64", "xor.b64"),
    "add.f32": ("sub.f32", "mul.f32", "max.f32", "add.rz.f32", "add.ftz.f32"),
    "sub.f32": ("add.f32",),
    "mul.f32": ("add.f32", "div.rn.f32", "mul.rm.f32"),
    "add.f64": ("sub.f64", "mul.f64", "add.rp.f64"),
    "sub.f64": ("add.f64",),
    "mul.f64": ("add.f64",),
    "fma.rn.f32": ("fma.rz.f32", "fma.rm.f32"),
    "fma.rn.f64": ("fma.rz.f64",),
    "sqrt.rn.f32": ("sqrt.rz.f32", "rsqrt.approx.f32"),
    "rcp.rn.f32": ("rcp.rz.f32",),
    "add.s32": ("sub.s32", "max.s32"),
    "and.b32": ("or.b32",),
    "shl.b32": ("shr.u32",),
    "mad.lo.s64": ("mad.hi.s64",),
}
_NARROW: Final = {
    "ld.global.f32": ("ld.global.u16",),
    "st.global.f32": ("st.global.b16",),
    "st.global.u32": ("st.global.u8",),
    "ld.shared.f32": ("ld.shared.u16",),
    "st.shared.f32": ("st.shared.b16",),
    "ld.global.v4.f32": ("ld.global.v2.f32",),
}
_SPACES: Final = (
    (".global.nc", ".global"),
    ("ld.global.", "ld.global.nc."),
    ("ld.global.", "ld.volatile.global."),
    ("st.global.", "st.shared."),
    ("ld.shared.", "ld.global."),
    ("st.shared.", "st.global."),
)
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_BARRIERS: Final = ("bar.warp.sync -1;", "bar.sync 1;", "bar.sync 0, 32;", "bar.sync 0, 128;", "bar.arrive 0, 256;")
MOST: Final = 16
"""Changes of one kind to one line."""
_FURTHEST: Final = 6
"""Instructions that a barrier is moved over, at most."""
_NUMBER: Final = re.compile(r"(?<![%\w$.])-?\d+(?=\s*;)")
_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_SHUFFLE: Final = re.compile(r"(shfl\.sync\.)(\w+)(\.b32 .*), (\w+), (-?\d+), (-?\d+);")


def _instead(at: int, *lines: str) -> Edit:
    return Edit(at, at + 1, lines)


def _replaced(lines: list[str], at: int, old: str, new: str) -> Iterator[Edit]:
    if old in lines[at]:
        yield _instead(at, lines[at].replace(old, new, 1))


def _operator(lines: list[str], at: int) -> Iterator[Edit]:
    for old, options in _OPERATORS.items():
        for new in options:
            yield from _replaced(lines, at, old + " ", new + " ")


def _comparison(lines: list[str], at: int) -> Iterator[Edit]:
    match = re.search(r"setp\.(\w+)\.", lines[at])
    for new in _COMPARISONS if match else ():
        yield from _replaced(lines, at, f"setp.{match[1] if match else ''}.", f"setp.{new}.")


def _signedness(lines: list[str], at: int) -> Iterator[Edit]:
    for old, new in ((".s64", ".u64"), (".u64", ".s64"), (".s32", ".u32")):
        if "setp" in lines[at]:
            yield from _replaced(lines, at, old, new)


def _number(lines: list[str], at: int) -> Iterator[Edit]:
    """Bounds, steps, strides, shift amounts and masks."""
    match = _NUMBER.search(lines[at])
    for more in (-4, -2, -1, 1, 2, 4) if match else ():
        assert match is not None
        yield _instead(at, f"{lines[at][: match.start()]}{int(match[0]) + more}{lines[at][match.end() :]}")


def _constant(lines: list[str], at: int) -> Iterator[Edit]:
    match = re.search(r"0[fd]([0-9A-F]+)", lines[at])
    for bit in (0, 1, 8, 15, 22, 23, 30, 31) if match else ():
        assert match is not None
        flipped = f"{match[0][:2]}{int(match[1], 16) ^ 1 << bit:0{len(match[1])}X}"
        yield _instead(at, lines[at].replace(match[0], flipped))


def _operand(lines: list[str], at: int) -> Iterator[Edit]:
    found = list(_REGISTER.finditer(lines[at]))
    for old in found if lines[at].startswith("st") else found[1:]:
        kind = re.match(r"%[a-z]+", old[0])
        assert kind is not None
        for other in _registers(tuple(lines), kind[0]):
            if other != old[0]:
                yield _instead(at, lines[at][: old.start()] + other + lines[at][old.end() :])


@lru_cache(maxsize=64)
def _registers(lines: tuple[str, ...], kind: str) -> tuple[str, ...]:
    return tuple(sorted({r for line in lines for r in _REGISTER.findall(line) if re.fullmatch(kind + r"\d+", r)}))


def _swapped_operands(lines: list[str], at: int) -> Iterator[Edit]:
    match = re.match(r"((?:@\S+ )?\S+ %\w+, )(%\w+), (%\w+)(.*)", lines[at])
    if match is None or match[2] == match[3]:
        return
    if re.match(r"(?:add|mul\.lo|mul\.wide|mad\.lo|and|or|xor|min|max)\.[sub]\d", lines[at]):
        return
    if re.match(r"setp\.(?:eq|ne)\.", lines[at]):
        return
    yield _instead(at, f"{match[1]}{match[3]}, {match[2]}{match[4]}")


def _dropped(lines: list[str], at: int) -> Iterator[Edit]:
    yield _instead(at)


def _doubled(lines: list[str], at: int) -> Iterator[Edit]:
    this = _parsed(lines[at])
    if this is None or not _pure(this) or set(isa.defs(this)) & set(isa.uses(this)):
        yield _instead(at, lines[at], lines[at])


def _moved(lines: list[str], at: int) -> Iterator[Edit]:
    if at + 1 >= len(lines) or not lines[at + 1].endswith(";"):
        return
    this, following = _parsed(lines[at]), _parsed(lines[at + 1])
    if this is None or following is None or not _independent(this, following):
        yield Edit(at, at + 2, (lines[at + 1], lines[at]))


@lru_cache(maxsize=4096)
def _parsed(line: str) -> Instruction | None:
    try:
        statements = parse_statements(line)
    except PtxSyntaxError:
        return None
    (only,) = statements if len(statements) == 1 else (None,)
    return only if isinstance(only, Instruction) else None


def _pure(instruction: Instruction) -> bool:
    return isa.effects(instruction) <= {Effect.READ} and ".volatile" not in instruction.modifiers


def _independent(first: Instruction, second: Instruction) -> bool:
    made, read = set(isa.defs(first)), set(isa.uses(first))
    others, needed = set(isa.defs(second)), set(isa.uses(second))
    return _pure(first) and _pure(second) and not (made & (others | needed) or others & read)


def _offset(lines: list[str], at: int) -> Iterator[Edit]:
    match = re.search(r"\[(%\w+)(?:\+(-?\d+))?\]", lines[at])
    for more in (-8, -4, 4, 8) if match else ():
        assert match is not None
        yield _instead(at, lines[at].replace(match[0], f"[{match[1]}+{int(match[2] or 0) + more}]"))


def _space(lines: list[str], at: int) -> Iterator[Edit]:
    for old, new in _SPACES:
        if old == "ld.global." and "ld.global.nc" in lines[at]:
            continue
        yield from _replaced(lines, at, old, new)


def _width(lines: list[str], at: int) -> Iterator[Edit]:
    for old, options in _NARROW.items():
        for new in options:
            yield from _replaced(lines, at, old + " ", new + " ")


def _guard(lines: list[str], at: int) -> Iterator[Edit]:
    line = lines[at]
    if line.startswith("@"):
        head, rest = line.split(" ", 1)
        yield _instead(at, f"@{head[2:]} {rest}" if head.startswith("@!") else f"@!{head[1:]} {rest}")
        yield _instead(at, rest)
        return
    if "bra" in line or line.startswith("bar"):
        return
    for predicate in _registers(tuple(lines), "%q"):
        yield _instead(at, f"@{predicate} {line}")


def _target(lines: list[str], at: int) -> Iterator[Edit]:
    match = re.search(r"bra(?:\.uni)? (\$\w+)", lines[at])
    labels = [m[1] for line in lines if (m := re.match(r"(\$\w+):", line))]
    for new in labels if match else ():
        assert match is not None
        yield _instead(at, lines[at].replace(match[1], new))


def _barrier(lines: list[str], at: int) -> Iterator[Edit]:
    """Narrowed to a warp, to fewer threads, to one that does not wait; another one; moved; in one arm only."""
    if not lines[at].startswith("bar"):
        return
    yield from (_instead(at, narrower) for narrower in _BARRIERS)
    yield from (_instead(at, f"@{p} {lines[at]}") for p in _registers(tuple(lines), "%p")[:4])
    for step in range(1, _FURTHEST + 1):
        if at - step >= 0 and lines[at - step].endswith(";"):
            yield Edit(at - step, at + 1, (lines[at], *lines[at - step : at]))
        if at + step < len(lines) and lines[at + step].endswith(";"):
            yield Edit(at, at + step + 1, (*lines[at + 1 : at + step + 1], lines[at]))


def _shuffle(lines: list[str], at: int) -> Iterator[Edit]:
    """Another mode, lane, width or mask."""
    match = _SHUFFLE.search(lines[at])
    if match is None:
        return
    head, mode, middle, lane, clamp, mask = match.groups()
    for m in ("up", "down", "bfly", "idx"):
        yield _instead(at, f"{head}{m}{middle}, {lane}, {clamp}, {mask};")
    for c in (0, 7, 15, 30, 31, 4127, 6175, 7199, 7967):
        yield _instead(at, f"{head}{mode}{middle}, {lane}, {c}, {mask};")
    for m in (1, 65535, -65536, 2147483647, -2, 1431655765):
        yield _instead(at, f"{head}{mode}{middle}, {lane}, {clamp}, {m};")
    for k in (0, 1, 2, 3, 4, 8, 16, 17, 31):
        yield _instead(at, f"{head}{mode}{middle}, {k}, {clamp}, {mask};")


KINDS: dict[str, Change] = {
    "operator": _operator,
    "comparison": _comparison,
    "signedness": _signedness,
    "number": _number,
    "constant": _constant,
    "operand": _operand,
    "swapped operands": _swapped_operands,
    "dropped": _dropped,
    "doubled": _doubled,
    "order": _moved,
    "offset": _offset,
    "space": _space,
    "width": _width,
    "guard": _guard,
    "target": _target,
    "barrier": _barrier,
    "shuffle": _shuffle,
}


def mutants(base: str, candidate: str, seed: int, *, pairs: bool = True) -> Iterator[tuple[str, str]]:
    """(kind, text), without repeats: single changes in a random order, then ``pairs`` of them without end.

    Only lines that the rewrite brought are changed; all, where the candidate is the baseline itself.
    """
    rng = random.Random(seed)
    lines = _lines(candidate)
    places = _places(base, candidate)
    single: list[tuple[str, Edit]] = []
    for kind, change in KINDS.items():
        for at in places:
            edits = list(change(lines, at))
            single += [(kind, edit) for edit in rng.sample(edits, min(len(edits), MOST))]
    rng.shuffle(single)
    seen = {"\n".join(lines)}
    for kind, edit in single:
        text = "\n".join(edit.of(lines))
        if text not in seen:
            seen.add(text)
            yield kind, text
    for _ in count() if pairs else ():
        (kind, first), (other, second) = rng.choice(single), rng.choice(single)
        if first.first <= second.first < first.last or second.first <= first.first < second.last:
            continue
        earlier, later = sorted((first, second), key=lambda edit: edit.first)
        text = "\n".join(earlier.of(later.of(lines)))
        if text not in seen:
            seen.add(text)
            yield f"{kind} and {other}" if kind != other else f"{kind} twice", text


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n")]


def _places(base: str, candidate: str) -> list[int]:
    lines = _lines(candidate)
    known = set(_lines(base)) if candidate != base else set()
    return [
        k for k, line in enumerate(lines)
        if line.endswith(";") and line not in known and not re.match(r"\.|ld\.param|// |ret;", line)
    ]  # fmt: skip
