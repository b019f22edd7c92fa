"""From a rewrite that was read and checked to the statements that stand in the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from hybridcc.passes.analysis.cfg import ControlFlowGraph
from hybridcc.passes.regions.canonical import copy_register, declarations
from hybridcc.passes.regions.region import Region
from hybridcc.passes.splice.candidate import Part
from hybridcc.passes.splice.guard_code import tests
from hybridcc.passes.splice.names import NameScope
from hybridcc.passes.splice.reading import PORT, Rewrite, flatten
from hybridcc.ptx import isa
from hybridcc.ptx.nodes import (
    Block,
    Comment,
    Instruction,
    Label,
    Name,
    RegisterDeclaration,
    Statement,
)
from hybridcc.ptx.rename import Renaming, rename_statement


@dataclass(frozen=True, slots=True)
class Composed:
    """``statements`` stand where the region began; they end by falling through or branching to the exit."""

    statements: tuple[Statement, ...]
    part: Part


def compose(rewrite: Rewrite, region: Region, cfg: ControlFlowGraph, names: NameScope, leaves_to: str) -> Composed:
    """``cfg`` is graph_of_rewrite(rewrite); ``leaves_to`` the exit's label, "" where the exit comes next."""
    prefix = names.prefix("hcc")
    own = {name: names.claim(_own_name(prefix, name)) for name in (*rewrite.registers, *sorted(rewrite.labels))}
    copied = _copied_inputs(rewrite, region)
    copies = {k: names.claim(f"%{prefix}in{k}") for k in copied}
    rename = _renaming(region, own, copies, prefix)
    labelled, blocks = _with_labels(rewrite, region, cfg, names, prefix)
    body = [rename_statement(s, rename) for s in labelled if not isinstance(s, Comment)]
    hoisted = [s for s in body if isinstance(s, RegisterDeclaration)]
    code = [s for s in body if not isinstance(s, RegisterDeclaration)]
    made = {name: region.live_in[k].type for k, name in copies.items()}
    head: list[Statement] = [
        copy_register(name, region.live_in[k].spelling, region.live_in[k].type) for k, name in copies.items()
    ]
    fallback = ""
    if rewrite.guard:
        fallback = names.claim(f"${prefix}original")
        guard = tests(rewrite.guard, region, fallback, lambda stem: names.claim(f"%{prefix}{stem}"))
        head = [*guard.instructions, *head]
        made |= guard.registers
    ours = [*declarations(made), *head]
    scope = Block((*hoisted, *ours, *code))
    after: list[Statement] = [Instruction("bra", (), (Name(leaves_to),))] if leaves_to else []
    if fallback:
        after.append(Label(fallback))
    part = Part(
        region,
        rewrite.source.text,
        prefix,
        tuple(own.get(label, label) for label in blocks),
        own,
        copies,
        (len(hoisted), len(hoisted) + len(ours)),
        rewrite.guard,
        leaves_to,
        fallback,
    )
    return Composed((scope, *after), part)


def _own_name(prefix: str, name: str) -> str:
    """``%t3`` gives ``%hcc0_t3``: the mark stays in front, ranges keep their numbers at the end."""
    mark = name[0] if name[0] in "%$" else ""
    return f"{mark}{prefix}{name[len(mark) :]}"


def _renaming(region: Region, own: dict[str, str], copies: dict[int, str], prefix: str) -> Renaming:
    def rename(name: str) -> str:
        port = PORT.match(name)
        if port:
            k = int(port[2])
            if port[1] == "out":
                return region.live_out[k].spelling
            return copies.get(k) or region.live_in[k].spelling
        if name in own:
            return own[name]
        if name in region.symbols:
            return region.symbols[name]
        if isa.is_predefined(name) or name.startswith(f"${prefix}"):
            return name
        return _own_name(prefix, name)  # the stem of a range: ``.reg .b32 %r<4>``

    return rename


def _copied_inputs(rewrite: Rewrite, region: Region) -> list[int]:
    """Live-ins that need a copy: the text writes them, or their register is an output as well."""
    written = {name for s in flatten(rewrite.statements) if isinstance(s, Instruction) for name in isa.defs(s)}
    outputs = {port.register for port in region.live_out}
    return [k for k, port in enumerate(region.live_in) if port.register in outputs or f"%in{k}" in written]


def _with_labels(
    rewrite: Rewrite, region: Region, cfg: ControlFlowGraph, names: NameScope, prefix: str
) -> tuple[tuple[Statement, ...], list[str]]:
    """The text with a label on each basic block that has instructions, and those labels in order.

    A label costs nothing in machine code, and lets a run show which blocks were executed.
    """
    ahead = len(cfg.statements) - len(flatten(rewrite.statements))  # the declarations of the ports
    labels: list[str] = []
    inserted: dict[int, str] = {}
    for block in cfg.blocks:
        if block.index not in cfg.reachable or not cfg.instructions(block.index):
            continue
        if block.labels:
            labels.append(cfg.scoped.spelling(block.labels[0]))
            continue
        label = names.claim(f"${prefix}b{block.index}")
        labels.append(label)
        first = max(block.first, ahead)
        inserted[first - ahead] = label
    return _insert(rewrite.statements, inserted), labels


def _insert(statements: tuple[Statement, ...], labels: dict[int, str]) -> tuple[Statement, ...]:
    counter = 0

    def walk(inside: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal counter
        made: list[Statement] = []
        for statement in inside:
            if isinstance(statement, Block):
                made.append(Block(walk(statement.statements), statement.span))
                continue
            if counter in labels:
                made.append(Label(labels[counter]))
            made.append(statement)
            counter += 1
        return tuple(made)

    return walk(statements)
