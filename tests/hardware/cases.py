"""A case: one instruction (or a short sequence) with its operands, as a kernel of 512 threads.

Every source is a column of 64-bit slots in the input, every result a column of its own width in the output.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from hybridcc.ptx import isa, parse_statements, semantics
from hybridcc.ptx.nodes import Instruction
from tests.hardware import bodies
from tests.hardware.operands import ROWS, width_of
from tests.hardware.variants import families

SEED = 20261201


@dataclass(frozen=True, slots=True)
class Case:
    """``name`` is unique: the instruction, with "nan " or "tiny " before it for special operands.

    ``results`` are widths in bits, 1 for a predicate (stored as a byte); ``sources`` are kinds of operands.py.
    """

    name: str
    group: str
    instruction: str
    body: str
    sources: tuple[str, ...]
    results: tuple[int, ...]

    @property
    def seed(self) -> int:
        return (SEED + zlib.crc32(self.name.encode())) & 0x7FFFFFFF

    @property
    def opcode(self) -> str:
        return self.instruction.partition(".")[0]

    @property
    def divides(self) -> bool:
        """Whether integer division by zero has to be kept out."""
        return self.opcode in ("div", "rem") and self.sources[0][0] == "i"

    @property
    def result_bytes(self) -> int:
        return sum(ROWS * max(1, w // 8) for w in self.results)

    @property
    def entry(self) -> str:
        return "k_" + re.sub(r"[^a-zA-Z0-9]", "_", self.name)


@cache
def all_cases() -> tuple[Case, ...]:
    seen: dict[str, Case] = {}
    for case in _cases():
        if case.name in seen:  # ld.shared.u8 into registers of several widths
            case = replace(case, name=f"{case.name} to {case.results[0]}")
        assert case.name not in seen, case.name
        seen[case.name] = case
    return tuple(seen.values())


def _cases() -> Iterator[Case]:
    for group, name, body in families():
        if not body:
            yield _computing(group, name)
            continue
        if re.match(r"[A-Z]{3,}", body) and "OP " not in body:
            body = bodies.build(body, name)
        body = body.replace("EXCHANGE", bodies.EXCHANGE)
        yield _written(group, name, body)


def _computing(group: str, name: str) -> Case:
    """Operands by the instruction table, widths by the semantics."""
    bare = Instruction(name.split(".")[0], tuple("." + m for m in name.split(".")[1:]))
    rules = _form(bare)
    sources = sum(r.role == "u" and not r.optional for r in rules)
    immediate = [r for r in rules if r.role == "i"]
    if bare.opcode == "cvt" and name.count("x2") and name.endswith("f32"):
        sources = 2
    assert not immediate, f"{name} needs a body"
    text = f"{name} d0, " + ", ".join(f"s{i}" for i in range(sources)) + ";"
    (statement,) = parse_statements(text)
    assert isinstance(statement, Instruction)
    operation = semantics.explain(statement)
    types = isa.operand_types(statement)[1:]
    kinds = tuple(_kind(t, w) for t, w in zip(types, operation.sources, strict=True))
    if group != "computing":
        kinds = tuple(f"{group}:{k}" for k in kinds)
    label = name if group == "computing" else f"{group} {name}"
    return Case(label, group, name, text, kinds, operation.results)


def _form(bare: Instruction) -> tuple[isa.OperandRule, ...]:
    for form in isa.OPCODES[bare.opcode].forms:
        if all(m in bare.modifiers for m in form.when):
            return form.operands
    raise AssertionError(f"{bare.full_opcode} is not in the instruction table")


def _kind(type_: str, width: int) -> str:
    if width == 1:
        return "p"
    word = type_[1:] if type_ else f"b{width}"
    if word in ("u16x2", "s16x2"):
        return "i16x2"
    return word if word[0] == "f" or word[:2] in ("bf", "tf") else f"i{width}"


_LETTERS = {"f": {32: "f32", 64: "f64"}, "h": {32: "f16x2"}, "b": {32: "bf16x2"}, "H": {16: "f16"}, "B": {16: "bf16"},
            "n": {32: "n"}, "s": {32: "s"}, "t": {32: "f32"}}  # fmt: skip


def _written(group: str, name: str, body: str) -> Case:
    """A body in the notation of variants.py: widths stand at an operand's first use, or come from the semantics."""
    text = re.sub(r"\bOP\b", name, body)
    sources: dict[int, str] = {}
    results: dict[int, int] = {}
    for letter, number, width, kind in re.findall(r"(?<![.\w])([ds])([0-9]+)(?:\.([0-9]+)([fhbHBnst]?))?\b", text):
        if letter == "d":
            results.setdefault(int(number), int(width or 0))
        elif width or int(number) not in sources:
            bits = int(width or 0)
            sources[int(number)] = "p" if bits == 1 else _LETTERS[kind][bits] if kind else f"i{bits}"
    text = re.sub(r"(?<![.\w])([ds][0-9]+)\.[0-9]+[fhbHBnst]?\b", r"\1", text)
    _complete(text, sources)
    assert sorted(sources) == list(range(len(sources))), (name, sources)
    assert sorted(results) == list(range(len(results))), (name, results)
    assert all(results.values()), (name, results)
    if not text.rstrip().endswith((";", ":")):
        text += ";"
    ordered = tuple(sources[i] for i in range(len(sources)))
    return Case(name, group, name, text, ordered, tuple(results[i] for i in range(len(results))))


def _complete(text: str, sources: dict[int, str]) -> None:
    """Kinds that a body leaves to its (single) instruction."""
    if "i0" not in sources.values():
        return
    (statement,) = parse_statements(text + ";")
    assert isinstance(statement, Instruction)
    for operand, type_ in zip(statement.operands[1:], isa.operand_types(statement)[1:], strict=True):
        name = getattr(operand, "text", "")
        if name[:1] == "s" and sources.get(int(name[1:])) == "i0":
            sources[int(name[1:])] = _kind(type_, isa.bits(type_))


def register_type(kind: str) -> str:
    w = width_of(kind)
    return ".pred" if w == 1 else f".b{max(w, 16) if w != 8 else 32}"
