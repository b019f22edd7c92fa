"""The canonical text of a region: what is the same however the kernel's names, comments and target are spelled.

The text is a rewrite that changes nothing: it reads ``%in<k>``, writes ``%out<k>``, declares its temporaries
``%t<k>``, and leaves by falling off the end. Registers are numbered as they appear, labels as they are placed;
kernel parameter number k is ``param<k>``, every other variable ``sym<n>``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import Directive, Instruction, Label, Name, RegisterDeclaration, Statement
from hybridcc.ptx.printer import print_statement
from hybridcc.ptx.rename import names_in, rename_statement

KEPT_DIRECTIVES = frozenset({".pragma"})
"""Directives that the assembler acts on; those for debuggers are left out."""

DECLARATION_WIDTH = 12
"""Registers on one line of declarations."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """The text, and the way back from its names: to unique registers, block indices, and variables.

    ``inputs[k]`` and ``outputs[k]`` are the unique registers behind ``%in<k>`` and ``%out<k>``.
    """

    text: str
    key: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    temporaries: Mapping[str, str]
    labels: Mapping[str, int]
    symbols: Mapping[str, str]


@dataclass(slots=True)
class _Names:
    """The names given so far, from the kernel's to the canonical ones."""

    live_in: frozenset[str]
    live_out: frozenset[str]
    written: frozenset[str]
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    temporaries: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)

    def register(self, name: str) -> str:
        if name in self.live_in:
            self.inputs.setdefault(name, f"%in{len(self.inputs)}")
        if name in self.live_out:
            return self.outputs.setdefault(name, f"%out{len(self.outputs)}")
        if name in self.live_in and name not in self.written:
            return self.inputs[name]
        return self.temporaries.setdefault(name, f"%t{len(self.temporaries)}")


def canonical(
    cfg: ControlFlowGraph,
    order: Sequence[int],
    exit_: int,
    live_in: frozenset[str],
    live_out: frozenset[str],
    parameters: Sequence[str],
) -> Canonical:
    """The canonical text of the blocks in ``order`` (the entry first), which leave to block ``exit_``."""
    types = cfg.scoped.types
    body, labels = _body(cfg, order, exit_)
    instructions = [s for s in body if isinstance(s, Instruction)]
    written = frozenset(d for i in instructions for d in isa.defs(i))
    names = _Names(live_in, live_out, written)
    fixed = {name: f"param{index}" for index, name in enumerate(parameters)}

    def canonical_name(name: str) -> str:
        if name in types:
            return names.register(name)
        if name in labels or not cfg.scoped.is_variable(name):
            return name
        return fixed.get(name) or names.symbols.setdefault(name, f"sym{len(names.symbols)}")

    renamed = [rename_statement(s, canonical_name) for s in body]
    statements = [*_head(names, types), *renamed]
    text = "".join(_line(s) for s in statements)
    used = {name for s in body for name in names_in(s)}
    return Canonical(
        text,
        hashlib.sha256(text.encode("ascii")).hexdigest(),
        tuple(names.inputs),
        tuple(names.outputs),
        {new: old for old, new in names.temporaries.items()},
        labels,
        {new: old for old, new in (names.symbols | fixed).items() if old in used},
    )


def _line(statement: Statement) -> str:
    return print_statement(statement, "  ").replace(" \t", " ") + "\n"


def move_type(declared: str) -> str:
    """The type with which ``mov`` copies a register declared so (ISA 9.7.9.4: no .f16, no packed types)."""
    match declared:
        case ".f16" | ".bf16":
            return ".b16"
        case ".f16x2" | ".bf16x2" | ".tf32":
            return ".b32"
        case _:
            return declared


def copy_register(target: str, source: str, declared: str) -> Instruction:
    return Instruction("mov", (move_type(declared),), (Name(target), Name(source)))


def declarations(registers: Mapping[str, str]) -> list[RegisterDeclaration]:
    """Declarations of registers given with their types, types in order of first appearance."""
    by_type: dict[str, list[str]] = {}
    for name, declared in registers.items():
        by_type.setdefault(declared, []).append(name)
    return [
        RegisterDeclaration(declared, tuple((n, None) for n in names[at : at + DECLARATION_WIDTH]))
        for declared, names in by_type.items()
        for at in range(0, len(names), DECLARATION_WIDTH)
    ]


def _head(names: _Names, types: Mapping[str, str]) -> list[Statement]:
    """Declarations of temporaries, and copies of the inputs that the text changes."""
    copies: list[Statement] = []
    for register, spelled in names.inputs.items():
        if register in names.written:
            changed = names.outputs.get(register) or names.temporaries[register]
            copies.append(copy_register(changed, spelled, types[register]))
    made = declarations({new: types[old] for old, new in names.temporaries.items()})
    return [*made, *copies]


def _body(cfg: ControlFlowGraph, order: Sequence[int], exit_: int) -> tuple[list[Statement], dict[str, int]]:
    """The blocks' statements with canonical labels, and what block each label stands for."""
    block_of_label = {label: b for b in (*order, exit_) for label in cfg.blocks[b].labels}
    places = [*order, exit_]
    after = dict(pairwise(places))
    targets: set[int] = set()
    for block in order:
        fallthrough = cfg.blocks[block].fallthrough
        if fallthrough is not None and fallthrough != after[block]:
            targets.add(fallthrough)
        for instruction in cfg.instructions(block):
            targets.update(block_of_label[t] for t in isa.branch_targets(instruction))
    spelled = {block: f"$L{n}" for n, block in enumerate(b for b in places if b in targets)}
    body: list[Statement] = []
    for block in order:
        if block in spelled:
            body.append(Label(spelled[block]))
        body.extend(_kept(cfg, block, lambda name: spelled[block_of_label[name]]))
        fallthrough = cfg.blocks[block].fallthrough
        if fallthrough is not None and fallthrough != after[block]:
            body.append(Instruction("bra", (), (Name(spelled[fallthrough]),)))
    if exit_ in spelled:
        body.append(Label(spelled[exit_]))
    return body, {label: block for block, label in spelled.items()}


def _kept(cfg: ControlFlowGraph, block: int, new_label: Callable[[str], str]) -> list[Statement]:
    """A block's instructions and binding directives, its branches with new labels."""
    kept: list[Statement] = []
    for statement in cfg.statements[cfg.blocks[block].first : cfg.blocks[block].last]:
        if isinstance(statement, Instruction):
            targets = isa.branch_targets(statement)
            kept.append(rename_statement(statement, lambda n, t=targets: new_label(n) if n in t else n))
        elif isinstance(statement, Directive) and statement.name in KEPT_DIRECTIVES:
            kept.append(statement)
    return kept
