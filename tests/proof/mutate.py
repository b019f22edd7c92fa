"""Wrong rewrites by the thousand: one small change to a right rewrite, of every kind that the prover must notice.

A mutant may still be right (a changed register that is dead, a bound that does not matter); who tells them apart
is the executor, never the mutator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

Change: TypeAlias = Callable[[list[str], int, random.Random], list[str] | None]

_OPERATORS = {
    "add.s64": ("sub.s64", "and.b64", "max.s64"),
    "sub.s64": ("add.s64", "xor.b64"),
    "mul.lo.s64": ("add.s64", "mul.hi.s64"),
    "shl.b64": ("shr.u64", "add.s64"),
    "and.b64": ("or.b64", "xor.b64"),
    "add.f32": ("sub.f32", "mul.f32", "max.f32"),
    "sub.f32": ("add.f32",),
    "mul.f32": ("add.f32", "div.rn.f32"),
    "add.f64": ("sub.f64", "mul.f64"),
    "sub.f64": ("add.f64",),
    "mul.f64": ("add.f64",),
    "fma.rn.f32": ("fma.rz.f32", "fma.rm.f32"),
    "fma.rn.f64": ("fma.rz.f64",),
    "sqrt.rn.f32": ("sqrt.rz.f32", "rsqrt.approx.f32"),
    "rcp.rn.f32": ("rcp.rz.f32",),
    "add.s32": ("sub.s32",),
    "mad.lo.s64": ("mad.hi.s64",),
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_NUMBER = re.compile(r"(?<![%\w$.])-?\d+(?=\s*;)")
_REGISTER = re.compile(r"%[a-z]+\d+")


def _operator(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    found = [(old, new) for old, options in _OPERATORS.items() if old in lines[at] for new in options]
    if not found:
        return None
    old, new = rng.choice(found)
    return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]


def _comparison(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    match = re.search(r"setp\.(\w+)\.", lines[at])
    if match is None:
        return None
    new = rng.choice([c for c in _COMPARISONS if c != match[1]])
    return [*lines[:at], lines[at].replace(f"setp.{match[1]}.", f"setp.{new}."), *lines[at + 1 :]]


def _signedness(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    for old, new in ((".s64", ".u64"), (".u64", ".s64"), (".s32", ".u32")):
        if "setp" in lines[at] and old in lines[at]:
            return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]
    return None


def _number(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    match = _NUMBER.search(lines[at])
    if match is None:
        return None
    value = int(match[0]) + rng.choice((-4, -2, -1, 1, 2, 4))
    return [*lines[:at], f"{lines[at][: match.start()]}{value}{lines[at][match.end() :]}", *lines[at + 1 :]]


def _constant(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    match = re.search(r"0[fd][0-9A-F]+", lines[at])
    if match is None:
        return None
    flipped = f"{match[0][:2]}{int(match[0][2:], 16) ^ 1 << rng.randrange(31):0{len(match[0]) - 2}X}"
    return [*lines[:at], lines[at].replace(match[0], flipped), *lines[at + 1 :]]


def _operand(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    found = list(_REGISTER.finditer(lines[at]))
    if len(found) < 2:
        return None
    old = rng.choice(found[1:] if not lines[at].startswith("st") else found)
    kind = re.match(r"%[a-z]+", old[0])
    assert kind is not None
    others = sorted({r for line in lines for r in _REGISTER.findall(line) if r.startswith(kind[0]) and r != old[0]})
    others = [r for r in others if re.fullmatch(kind[0] + r"\d+", r)]
    if not others:
        return None
    return [*lines[:at], lines[at][: old.start()] + rng.choice(others) + lines[at][old.end() :], *lines[at + 1 :]]


def _swapped_operands(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    match = re.match(r"(\S+ %\w+, )(%\w+), (%\w+)(.*)", lines[at])
    if match is None or match[2] == match[3]:
        return None
    return [*lines[:at], f"{match[1]}{match[3]}, {match[2]}{match[4]}", *lines[at + 1 :]]


def _dropped(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    return [*lines[:at], *lines[at + 1 :]]


def _doubled(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    return [*lines[: at + 1], *lines[at:]]


def _moved(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    if at + 1 >= len(lines) or not lines[at + 1].rstrip().endswith(";"):
        return None
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def _offset(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    match = re.search(r"\[(%\w+)(?:\+(-?\d+))?\]", lines[at])
    if match is None:
        return None
    moved = int(match[2] or 0) + rng.choice((-8, -4, 4, 8))
    return [*lines[:at], lines[at].replace(match[0], f"[{match[1]}+{moved}]"), *lines[at + 1 :]]


def _space(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    for old, new in ((".global.nc", ".global"), ("ld.global.", "ld.global.nc."), ("st.global.", "st.shared.")):
        if old in lines[at] and rng.random() < 0.7:
            return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]
    return None


def _width(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    found = [(a, b) for a, b in (("ld.global.f32", "ld.global.u16"), ("st.global.f32", "st.global.b16"),
                                 ("st.global.u32", "st.global.u8")) if a in lines[at]]  # fmt: skip
    if not found:
        return None
    old, new = found[0]
    return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]


def _guard(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    line = lines[at]
    if line.startswith("@!"):
        return [*lines[:at], "@" + line[2:], *lines[at + 1 :]]
    if line.startswith("@"):
        return [*lines[:at], rng.choice(("@!" + line[1:], line.split(" ", 1)[1])), *lines[at + 1 :]]
    predicates = sorted({r for text in lines for r in re.findall(r"%q\d+", text)})
    if not predicates or "bra" in line:
        return None
    return [*lines[:at], f"@{rng.choice(predicates)} {line}", *lines[at + 1 :]]


def _target(lines: list[str], at: int, rng: random.Random) -> list[str] | None:
    match = re.search(r"bra (\$\w+)", lines[at])
    labels = [m[1] for line in lines if (m := re.match(r"(\$\w+):", line))]
    if match is None or len(labels) < 2:
        return None
    new = rng.choice([x for x in labels if x != match[1]] or labels)
    return [*lines[:at], lines[at].replace(match[1], new), *lines[at + 1 :]]


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
}


def mutants(base: str, candidate: str, seed: int) -> Iterator[tuple[str, str]]:
    """(kind, text), without end and without repeats; only lines that the rewrite brought are changed."""
    rng = random.Random(seed)
    original = {line.strip() for line in base.split("\n")}
    lines = candidate.split("\n")
    places = [
        k for k, line in enumerate(lines)
        if line.rstrip().endswith(";") and line.strip() not in original and not line.startswith((".reg", ".param"))
    ]  # fmt: skip
    seen = {candidate}
    misses = 0
    while misses < 10_000:
        kind = rng.choice(list(KINDS))
        changed = KINDS[kind](lines, rng.choice(places), rng)
        text = None if changed is None else "\n".join(changed)
        if text is None or text in seen:
            misses += 1
            continue
        misses = 0
        seen.add(text)
        yield kind, text
